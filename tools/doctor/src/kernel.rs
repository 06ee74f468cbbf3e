//! Queries to the running kernel.
//!
//! - `queries`: the queries, as a trait, and the types of their results.
//! - `live`: their implementation.
//! - `zero_copy`: io_uring's zero-copy receive, by io_uring itself.
//! - `clock`: state of the clock, by adjtimex.
//! - `counters`: a NIC's counters, by ioctl. `log`: the kernel's log.

mod clock;
mod counters;
mod live;
mod log;
mod queries;
mod zero_copy;

pub use live::LiveKernel;
pub use log::LogLine;
pub use queries::{DevmemSupport, Direction, Kernel, Statistics, ZeroCopySupport};
