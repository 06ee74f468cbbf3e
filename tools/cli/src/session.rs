//! The session that a command makes.
//!
//! - `args`: its flags, and what both ends make of them
//! - `memory_choice`: the memory that is sent from and received into
//! - `transport`: the plugin of this machine, and the reason for it
//! - `isolation`: opens a plugin in a process of its own first
//! - `nic_watch`: counts of the NICs while the session works

mod args;
pub(crate) mod isolation;
mod memory_choice;
mod nic_watch;
mod transport;

pub(crate) use args::{
    GpuNicPair, RESULT_LIMIT, SessionArgs, SessionRequest, SessionSetup, require_same,
};
pub(crate) use memory_choice::Memory;
pub(crate) use nic_watch::{NicWatch, render_growth};
pub(crate) use transport::Transport;

#[cfg(test)]
pub(crate) use args::test_session;
