//! `tcpx perf`: how fast messages get from one end to the other, every byte verified.
//!
//! - `args`: the flags; `plan`: what is measured, as both ends agree on it; `sweep`: its sizes
//! - `run`: the command; `both_ends`: how it meets the other end; `measurement`: what they do, case
//!   by case; `case`, `parts`: each is measured part by part
//! - `throughput`: one way; `bidirectional`: both ways; `latency`: there and back; `busy`: other
//!   work meanwhile
//! - `one_sided`: writes and reads of the server's memory; `notifications`: there and back
//! - `pairs`: every GPU with every NIC
//! - `incast`: several clients of one server; `together`: where they wait for one another
//! - `data_path`: a way for the bytes; `session_path` and `baseline` are the two there are
//! - `posts`: where the messages of one iteration lie; `pattern`: the bytes in them; `contents`:
//!   how they get into memory, and are verified there
//! - `times`: what an end measured; `stages`: what the time went to; `nic_traffic`: which way
//! - `samples`, `histogram`: what is said of times; `figures`: of one size; `report`: of all
//! - `output`: where the report goes: `table` and its `columns`, `csv`, `html`; `wrapping`

mod args;
mod baseline;
mod bidirectional;
mod both_ends;
mod busy;
mod case;
mod columns;
mod contents;
mod csv;
mod data_path;
mod figures;
mod histogram;
mod html;
mod incast;
mod latency;
mod measurement;
mod nic_traffic;
mod notifications;
mod one_sided;
mod output;
mod pairs;
mod parts;
mod pattern;
mod plan;
mod posts;
mod report;
mod run;
mod samples;
mod session_path;
mod stages;
mod sweep;
mod table;
mod throughput;
mod times;
mod together;
mod wrapping;

pub(crate) use args::PerfArgs;
pub(crate) use run::run;
