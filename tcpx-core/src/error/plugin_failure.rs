//! A call into the plugin that failed, with what it was for.

use tcpx_diagnosis::Finding;
use tcpx_sys::NcclResult;

use super::optional::after;
use super::phase::Phase;

/// A call into the plugin that did not return 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "plugin call {call} returned {code} during {phase}{}{}{}{}",
    after(", peer ", .peer),
    after(", channel ", .channel),
    after(", NIC ", .nic),
    .cause.as_deref().map_or_else(String::new, |Finding { seen, cure, .. }| {
        format!(": {seen}; cure: {}", cure.join("; "))
    })
)]
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
