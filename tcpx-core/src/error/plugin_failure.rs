//! A call into the plugin that failed, with what it was for.

use std::fmt;

use tcpx_diagnosis::Finding;
use tcpx_sys::NcclResult;

use super::phase::Phase;

/// A call into the plugin that did not return 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PluginFailure {
    /// The member of the v7 table that was called, or of the software plugin's addition to it,
    /// which tells of dead comms: `checkComm`.
    pub call: &'static str,
    /// What it returned.
    pub code: NcclResult,
    /// Where in the session's life.
    pub phase: Phase,
    /// The peer whose comm it was, if any.
    pub peer: Option<String>,
    /// The channel whose comm it was, if any.
    pub channel: Option<u16>,
    /// The NIC, by name.
    pub nic: Option<String>,
    /// What explains it, where this host was seen to have such a fault.
    pub cause: Option<Box<Finding>>,
}

impl fmt::Display for PluginFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plugin call {} returned {} during {}", self.call, self.code, self.phase)?;
        if let Some(peer) = &self.peer {
            write!(f, ", peer {peer}")?;
        }
        if let Some(channel) = self.channel {
            write!(f, ", channel {channel}")?;
        }
        if let Some(nic) = &self.nic {
            write!(f, ", NIC {nic}")?;
        }
        if let Some(Finding { seen, cure, .. }) = self.cause.as_deref() {
            write!(f, ": {seen}; cure: {}", cure.join("; "))?;
        }
        Ok(())
    }
}
