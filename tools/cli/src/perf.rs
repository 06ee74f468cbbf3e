//! `tcpx perf`: measures throughput and latency between two ends, with every byte verified.
//!
//! - `args`: the flags; `plan`: the measurement that both ends agree on; `sweep`: its sizes
//! - `run`: the command; `both_ends`: meets the other end; `measurement`: runs case by case;
//!   `case`, `case_parts`: a case is measured part by part
//! - `throughput`: one way; `bidirectional`: both ways; `latency`: round trips; `busy`: threads
//!   that compute meanwhile
//! - `one_sided`: writes and reads of the server's memory, with a plan's `operations`;
//!   `notifications`: round trips of
//!   notifications
//! - `variants`: every GPU with every NIC, or in clear and encrypted, one after the other
//! - `incast`: several clients of one server; `all_to_all`: which send to each other, too;
//!   `pair_times`: of these; `barrier`: the barrier between the ends of a process; `gate`: which of
//!   them an end waits for
//! - `data_path`: a path for the bytes; `session_path` and `baseline` are the two kinds
//! - `posts`: offsets of the messages of one iteration; `pattern`: the bytes in them;
//!   `test_buffer`: writes them to memory, and verifies them there
//! - `host`: machines of the ends; `times`: the times of an end; `stages`: the breakdown of the
//!   time; `processor`: what it costs processors; `nic_traffic`: by NIC; `tcp`: retransmits and
//!   round-trip times
//! - `samples`, `histogram`, `rates`: statistics of times; `figures`: of one size; `report`: of
//!   all; `intervals`: sums while it is measured
//! - `output`: destination of the report: `table` with its `columns` and
//!   their `explanation`, `csv`, `html`; `rate_unit`,
//!   `wrapping`

mod all_to_all;
mod args;
mod barrier;
mod baseline;
mod bidirectional;
mod both_ends;
mod busy;
mod case;
mod case_parts;
mod columns;
mod csv;
mod data_path;
mod explanation;
mod figures;
mod gate;
mod histogram;
mod host;
mod html;
mod incast;
mod intervals;
mod kv;
mod latency;
mod measurement;
mod nic_traffic;
mod notifications;
mod one_sided;
mod operations;
mod output;
mod pair_times;
mod pattern;
mod plan;
mod posts;
mod processor;
mod rate_unit;
mod rates;
mod report;
mod run;
mod samples;
mod session_path;
mod stages;
mod sweep;
mod table;
mod tcp;
mod test_buffer;
mod throughput;
mod times;
mod variants;
mod wrapping;

pub(crate) use args::PerfArgs;
pub(crate) use run::run;
