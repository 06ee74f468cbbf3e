//! Facts that only the running kernel has.
//!
//! - `questions`: the questions, as a trait, and the types of their answers.
//! - `live`: the running kernel answers them.
//! - `zero_copy`: io_uring's zero-copy receive, asked of io_uring.
//! - `counters`: a NIC's counters, over an older call. `log`: the kernel's log.

mod counters;
mod live;
mod log;
mod questions;
mod zero_copy;

pub use live::LiveKernel;
pub use log::LogLine;
pub use questions::{DevmemAnswer, Direction, Kernel, Statistics, ZeroCopyAnswer};
