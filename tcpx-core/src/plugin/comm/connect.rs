#![allow(unsafe_code)]
//! Connecting to a peer's listen comm.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use tcpx_sys::NetHandle;

use super::raw::RawComm;
use super::send::SendComm;
use crate::error::{Phase, Result};
use crate::plugin::Plugin;
use crate::plugin::blocking_call::BlockingCall;
use crate::plugin::comm_label::CommLabel;

/// A connection attempt to the peer's listen comm.
#[derive(Debug)]
pub(crate) struct PendingConnect {
    plugin: Arc<Plugin>,
    place: CommLabel,
    /// The plugin keeps its state inside this buffer, which must not move until the final answer.
    handle: Option<Box<NetHandle>>,
}

impl PendingConnect {
    pub(crate) fn new(plugin: &Arc<Plugin>, place: CommLabel, handle: NetHandle) -> Self {
        Self { plugin: Arc::clone(plugin), place, handle: Some(Box::new(handle)) }
    }

    /// Polls the attempt. `None` while it goes on, and for ever after its final answer.
    pub(crate) fn poll(&mut self) -> Result<Option<SendComm>> {
        let Some(handle) = &mut self.handle else { return Ok(None) };
        let mut comm = std::ptr::null_mut();
        let mut device_handle = std::ptr::null_mut();
        let nic_index = self.place.nic_index;
        let buffer: *mut c_void = handle.0.as_mut_ptr().cast();
        let _entered = self.place.memory.enter()?;
        let code = self.plugin.call(BlockingCall::Connect, &self.place, |entries| {
            // SAFETY: the buffer is the same 128 bytes on each poll, and there was no final answer
            // yet. Both outputs are valid pointers.
            unsafe { (entries.connect)(nic_index, buffer, &raw mut comm, &raw mut device_handle) }
        });
        if code.is_success() && comm.is_null() {
            return Ok(None);
        }
        self.handle = None;
        self.place.check("connect", code, Phase::Connect)?;
        let Some(raw) = NonNull::new(comm) else { return Ok(None) };
        tracing::debug!(peer = %self.place.peer, channel = self.place.channel, send_comm = ?raw, "connection established");
        let raw = RawComm::new(&self.plugin, self.place.clone(), raw);
        Ok(Some(SendComm { raw }))
    }
}

impl Drop for PendingConnect {
    fn drop(&mut self) {
        // The plugin's thread may still look at the buffer, so an abandoned attempt leaks 128
        // bytes.
        if let Some(handle) = self.handle.take() {
            Box::leak(handle);
        }
    }
}
