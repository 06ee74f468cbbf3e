//! `tcpx perf`: how fast messages get from one end to the other, every byte verified.
//!
//! - `args`: the flags; `plan`: what is measured, as both ends agree on it
//! - `run`: the whole measurement, case by case
//! - `throughput`: one way; `latency`: there and back; `busy`: other work meanwhile
//! - `one_sided`: writes and reads of the server's memory; `notifications`: there and back
//! - `data_path`: a way for the bytes; `session_path` and `baseline` are the two there are
//! - `posts`: where the messages of one iteration lie; `pattern`: the bytes in them; `contents`:
//!   how they get into memory, and are verified there
//! - `times`: what an end measured; `stages`: what the time went to
//! - `samples`, `report`: what is said of it; `table`: the same for people

mod args;
mod baseline;
mod busy;
mod contents;
mod data_path;
mod latency;
mod notifications;
mod one_sided;
mod pattern;
mod plan;
mod posts;
mod report;
mod run;
mod samples;
mod session_path;
mod stages;
mod table;
mod throughput;
mod times;

pub(crate) use args::PerfArgs;
pub(crate) use run::run;
