//! Whose comm it is, for errors, and the memory that it works on.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

use tcpx_sys::NcclResult;

use super::blocking_call::BlockingCall;
use super::failure_cause;
use crate::error::{Error, Phase, PluginFailure, PluginHang, Result};
use crate::memory::device_memory::DeviceMemory;
use crate::types::PeerKey;
use crate::types::peer_name::PeerName;
use crate::types::session_number::SessionNumber;

/// Whose comm it is, for errors, and the memory that it works on.
#[derive(Clone, Debug)]
pub(crate) struct CommLabel {
    pub(crate) session: SessionNumber,
    pub(crate) peer_key: PeerKey,
    pub(crate) peer: PeerName,
    pub(crate) channel: u16,
    pub(crate) nic: Arc<str>,
    pub(crate) nic_index: c_int,
    /// What device memory is on this comm. The plugin takes the GPU from the thread that makes the
    /// comm.
    pub(crate) memory: DeviceMemory,
}

impl CommLabel {
    #[inline]
    pub(super) fn check(&self, call: &'static str, code: NcclResult, phase: Phase) -> Result<()> {
        if code.is_success() { Ok(()) } else { Err(self.failure(call, code, phase)) }
    }

    #[cold]
    pub(super) fn failure(&self, call: &'static str, code: NcclResult, phase: Phase) -> Error {
        Error::Plugin(PluginFailure {
            call,
            code,
            phase,
            peer: Some(self.peer.to_string()),
            channel: Some(self.channel),
            nic: Some(self.nic.to_string()),
            cause: failure_cause::of_call(code, phase).map(Box::new),
        })
    }

    /// A call for this comm that has been under way for so long.
    pub(crate) fn hang(&self, call: BlockingCall, waited: Duration) -> PluginHang {
        PluginHang {
            call: call.name(),
            phase: call.phase(),
            peer: self.peer.to_string(),
            channel: self.channel,
            nic: self.nic.to_string(),
            waited,
            returns: false,
            found: None,
        }
    }
}
