//! What only the running kernel tells.
//!
//! - `questions`: the questions, as a trait, and the types of their answers.
//! - `live`: the running kernel answers them.
//! - `netlink`, `message`: the way most of them go. `ethtool`: a NIC's settings over netlink.
//! - `zero_copy`: io_uring's zero-copy receive, asked of io_uring.
//! - `counters`: a NIC's counters, over an older call. `log`: the kernel's log.

mod counters;
mod ethtool;
mod live;
mod log;
mod message;
mod netlink;
mod questions;
mod zero_copy;

pub use live::LiveKernel;
pub use log::LogLine;
pub use questions::{
    DevmemAnswer, Direction, HeaderSplit, Kernel, Rings, Statistics, ZeroCopyAnswer,
};
