//! `tcpx perf`: measures throughput and latency between two ends, with every byte verified.
//!
//! - `args`: the flags; `plan`: the measurement that both ends agree on; `sweep`: its sizes
//! - `run`: the command; `both_ends`: meets the other end; `measurement`: runs case by case;
//!   `case`, `parts`: each is measured part by part
//! - `throughput`: one way; `bidirectional`: both ways; `latency`: there and back; `busy`: other
//!   work meanwhile
//! - `one_sided`: writes and reads of the server's memory; `notifications`: there and back
//! - `pairs`: every GPU with every NIC
//! - `incast`: several clients of one server; `together`: the barrier between them
//! - `data_path`: a path for the bytes; `session_path` and `baseline` are the two kinds
//! - `posts`: places of the messages of one iteration; `pattern`: the bytes in them; `contents`:
//!   writes them to memory, and verifies them there
//! - `times`: the times of an end; `stages`: the breakdown of the time; `nic_traffic`: by NIC
//! - `samples`, `histogram`: statistics of times; `figures`: of one size; `report`: of all
//! - `output`: destination of the report: `table` and its `columns`, `csv`, `html`; `wrapping`

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
