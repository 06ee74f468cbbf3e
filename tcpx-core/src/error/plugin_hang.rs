//! A call into the plugin that does not return, or that is never ready.

use std::time::Duration;

use tcpx_diagnosis::Code;

use super::phase::Phase;

/// A call into the plugin that has not returned for a long time, or that says each time that it is
/// not ready. It is left behind, with its comm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "plugin call {call} {} for {:.1} s during {phase}, peer {peer}, channel {channel}, NIC {nic}; it \
     is left behind{}",
    if *.returns { "was not ready" } else { "has not returned" },
    .waited.as_secs_f64(),
    if *.returns { " with the thread of the plugin that waits" } else { "" }
)]
#[non_exhaustive]
pub struct PluginHang {
    /// The member of the v7 table that was called.
    pub call: &'static str,
    /// Where in the session's life.
    pub phase: Phase,
    /// The peer whose comm it is.
    pub peer: String,
    /// The channel whose comm it is.
    pub channel: u16,
    /// The NIC, by name.
    pub nic: String,
    /// How long it has been under way.
    pub waited: Duration,
    /// Whether it returns, and it is a thread of the plugin that waits.
    pub returns: bool,
    /// The diagnosis of what it waits for, where that was found, or is the one thing that it may
    /// be.
    pub found: Option<Code>,
}
