//! A call into the plugin that does not return, or that is never ready.

use std::fmt;
use std::time::Duration;

use tcpx_diagnosis::Code;

use super::phase::Phase;

/// A call into the plugin that has not returned for a long time, or that says each time that it is
/// not ready. It is left behind, with its comm.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl fmt::Display for PluginHang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, phase, peer, channel, nic, waited, returns, .. } = self;
        let what = if *returns { "was not ready" } else { "has not returned" };
        write!(
            f,
            "plugin call {call} {what} for {:.1} s during {phase}, peer {peer}, channel {channel}, \
             NIC {nic}; it is left behind",
            waited.as_secs_f64()
        )?;
        if *returns { f.write_str(" with the thread of the plugin that waits") } else { Ok(()) }
    }
}
