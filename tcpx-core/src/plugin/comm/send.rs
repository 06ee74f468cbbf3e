#![allow(unsafe_code)]
//! Sending end of a channel.
//!
//! Also the connection attempt to a peer's listen comm.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use tcpx_seal::secret::SharedSecret;
use tcpx_sys::{NcclResult, NetHandle};

use super::memory::MemoryHandle;
use super::open_comm::OpenComm;
use super::raw::{RawComm, Request, plugin_tag};
use crate::error::{Phase, Result};
use crate::plugin::Plugin;
use crate::plugin::comm_label::{BlockingCall, CommLabel};
use crate::stats::tcp::TcpStats;

/// Sending end of a channel.
#[derive(Debug)]
pub(crate) struct SendComm {
    pub(super) raw: RawComm,
}

impl SendComm {
    /// Queues a send. `None`: the plugin is busy, and the caller must try again later.
    ///
    /// # Safety
    /// `data..data + bytes` stays readable, and inside what `mhandle` covers, until the request is
    /// done or the comm closed.
    pub(crate) unsafe fn isend(
        &mut self,
        data: u64,
        bytes: u32,
        tag: i64,
        mhandle: MemoryHandle,
    ) -> Result<Option<Request>> {
        let mut request = std::ptr::null_mut();
        let size = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        // SAFETY: the comm is open; the caller vouches for data and handle; the output is a valid
        // pointer.
        let code = unsafe {
            (self.raw.plugin.entries().isend)(
                self.raw.raw.as_ptr(),
                data as *mut c_void,
                size,
                plugin_tag(tag),
                mhandle.0.as_ptr(),
                &raw mut request,
            )
        };
        self.raw.label.check("isend", code, Phase::Send)?;
        self.raw.readiness.wake();
        Ok(NonNull::new(request).map(Request))
    }

    /// Drives the comm. Returns true once, when the request is done.
    pub(crate) fn test(&mut self, request: Request) -> Result<bool> {
        self.raw.test(request, Phase::Send)
    }

    /// Returns the figures of the comm's connections, if the plugin has reported them.
    pub(crate) fn tcp_stats(&self) -> TcpStats {
        self.raw.readiness.tcp_stats()
    }
}

impl OpenComm for SendComm {
    const PHASE: Phase = Phase::Send;

    fn raw(&self) -> &RawComm {
        &self.raw
    }

    fn raw_mut(&mut self) -> &mut RawComm {
        &mut self.raw
    }
}

impl Drop for SendComm {
    fn drop(&mut self) {
        self.raw.readiness.end();
        let entered = self.raw.label.memory.try_enter();
        // SAFETY: the comm is open and is not used again.
        let code =
            self.raw.plugin.call(BlockingCall::CloseSend, &self.raw.label, |entries| unsafe {
                (entries.close_send)(self.raw.raw.as_ptr())
            });
        if let Err(error) = self.raw.label.check("closeSend", code, Phase::Close) {
            tracing::warn!(%error);
        }
        drop(entered);
        self.raw.deregister_leftover();
    }
}

/// Connection attempt to the peer's listen comm.
#[derive(Debug)]
pub(crate) struct PendingConnect {
    plugin: Arc<Plugin>,
    label: CommLabel,
    /// Secret with which all is encrypted; `None`: nothing is.
    secret: Option<SharedSecret>,
    /// Buffer in which the plugin keeps its state. It must not move until the final answer.
    handle: Option<Box<NetHandle>>,
}

impl PendingConnect {
    /// Makes an attempt. With a secret, all that the comm sends is encrypted, and the peer must
    /// have the same.
    pub(crate) fn new(
        plugin: &Arc<Plugin>,
        label: CommLabel,
        handle: NetHandle,
        secret: Option<SharedSecret>,
    ) -> Self {
        Self { plugin: Arc::clone(plugin), label, secret, handle: Some(Box::new(handle)) }
    }

    /// Polls the attempt. Returns `None` while the attempt goes on, and for ever after its final
    /// answer.
    pub(crate) fn poll(&mut self) -> Result<Option<SendComm>> {
        let Some(handle) = &mut self.handle else { return Ok(None) };
        let mut comm = std::ptr::null_mut();
        let mut device_handle = std::ptr::null_mut();
        let nic_index = self.label.nic_index;
        let buffer: *mut c_void = handle.0.as_mut_ptr().cast();
        let _entered = self.label.memory.enter()?;
        let secret = self.secret.as_ref().map(|secret| secret.bytes().as_ptr().cast());
        let encryption = self.plugin.encryption();
        let outputs = (&raw mut comm, &raw mut device_handle);
        let code = self.plugin.call(BlockingCall::Connect, &self.label, |entries| {
            match (secret, encryption) {
                // SAFETY: the buffer is the same 128 bytes on each poll, and there was no final
                // answer yet. Both outputs are valid pointers.
                (None, _) => unsafe { (entries.connect)(nic_index, buffer, outputs.0, outputs.1) },
                // SAFETY: as above, and the secret is 32 bytes that live as long as the attempt.
                (Some(secret), Some(encrypted)) => unsafe {
                    let connect = encrypted.connect_encrypted;
                    connect(nic_index, buffer, secret, outputs.0, outputs.1)
                },
                // Such a session was refused when it was made.
                (Some(_), None) => NcclResult::INTERNAL_ERROR,
            }
        });
        if code.is_success() && comm.is_null() {
            return Ok(None);
        }
        self.handle = None;
        self.label.check("connect", code, Phase::Connect)?;
        let Some(raw) = NonNull::new(comm) else { return Ok(None) };
        tracing::debug!(peer = %self.label.peer, channel = self.label.channel, send_comm = ?raw, "connection established");
        let raw = RawComm::new(&self.plugin, self.label.clone(), raw);
        Ok(Some(SendComm { raw }))
    }
}

impl Drop for PendingConnect {
    fn drop(&mut self) {
        // The plugin's thread may still read the buffer, so an abandoned attempt leaks 128 bytes.
        if let Some(handle) = self.handle.take() {
            Box::leak(handle);
        }
    }
}
