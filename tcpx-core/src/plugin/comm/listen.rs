#![allow(unsafe_code)]
//! Waiting for one peer.

use std::ptr::NonNull;
use std::sync::Arc;

use tcpx_sys::{NET_DEVICE_UNPACK, NcclResult, NetDeviceHandle, NetHandle, UNPACK_VERSION};

use super::raw::RawComm;
use super::recv::RecvComm;
use crate::error::{Error, Phase, Result};
use crate::plugin::Plugin;
use crate::plugin::blocking_call::BlockingCall;
use crate::plugin::comm_label::CommLabel;
use crate::plugin::unpack_queue::UnpackQueue;

/// A listen comm. It takes exactly one peer.
#[derive(Debug)]
pub(crate) struct ListenComm {
    raw: RawComm,
    handle: NetHandle,
    /// The accept that returns the comm fills it. It must not move until then.
    device_handle: Box<NetDeviceHandle>,
    accepting: bool,
}

// SAFETY: as for `RawComm`. The device handle is plain data that only this listen comm and the
// plugin's accept touch.
unsafe impl Send for ListenComm {}

impl ListenComm {
    pub(crate) fn open(plugin: &Arc<Plugin>, place: CommLabel) -> Result<Self> {
        let mut handle = NetHandle::zeroed();
        let mut raw = std::ptr::null_mut();
        let entered = place.memory.enter()?;
        let code = plugin.call(BlockingCall::Listen, &place, |entries| {
            // SAFETY: the handle is 128 writable bytes. The output is a valid pointer. The NIC
            // index came from the plugin.
            unsafe { (entries.listen)(place.nic_index, handle.0.as_mut_ptr().cast(), &raw mut raw) }
        });
        drop(entered);
        place.check("listen", code, Phase::Listen)?;
        tracing::debug!(peer = %place.peer, channel = place.channel, nic = %place.nic, ?handle, "listening");
        let Some(raw) = NonNull::new(raw) else {
            return Err(place
                .check("listen", NcclResult::INTERNAL_ERROR, Phase::Listen)
                .err()
                .unwrap_or(Error::Closed));
        };
        let device_handle = Box::new(NetDeviceHandle {
            net_device_type: NET_DEVICE_UNPACK,
            net_device_version: UNPACK_VERSION,
            handle: std::ptr::null_mut(),
            size: 0,
            needs_proxy_progress: 0,
        });
        let raw = RawComm::new(plugin, place, raw);
        Ok(Self { raw, handle, device_handle, accepting: false })
    }

    /// The connect handle, which the peer needs.
    pub(crate) fn handle(&self) -> NetHandle {
        self.handle
    }

    /// Polls for the peer. After `Some` or an error the listen comm must be dropped: one more poll
    /// is fatal in the original plugin.
    pub(crate) fn poll_accept(&mut self) -> Result<Option<RecvComm>> {
        let mut comm = std::ptr::null_mut();
        let mut device_handle: *mut NetDeviceHandle = &raw mut *self.device_handle;
        let entered = self.raw.place.memory.enter()?;
        self.accepting = true;
        let listen_comm = self.raw.raw.as_ptr();
        // SAFETY: the listen comm is open, and its accept has given no final answer yet.
        // `device_handle` points to a struct that lives, unmoved, as long as this listen comm.
        let code = self.raw.plugin.call(BlockingCall::Accept, &self.raw.place, |entries| unsafe {
            (entries.accept)(listen_comm, &raw mut comm, &raw mut device_handle)
        });
        drop(entered);
        self.accepting = code.is_success() && comm.is_null();
        self.raw.place.check("accept", code, Phase::Accept)?;
        let Some(raw) = NonNull::new(comm) else { return Ok(None) };
        let place = self.raw.place.clone();
        let raw = RawComm::new(&self.raw.plugin, place, raw);
        // Owned from here on, so that an unusable queue still closes the comm.
        let mut comm = RecvComm { raw, queue: UnpackQueue::default(), received: 0 };
        comm.queue = UnpackQueue::read(&self.device_handle, &self.raw.place.memory)?;
        tracing::debug!(
            peer = %comm.raw.place.peer, channel = comm.raw.place.channel, recv_comm = ?comm.raw.raw,
            "connection accepted; device handle: {}", comm.queue
        );
        Ok(Some(comm))
    }
}

impl Drop for ListenComm {
    fn drop(&mut self) {
        if self.accepting && self.raw.plugin.is_hardware() {
            // The plugin's helper thread sits in accept(2) and would use the comm after it is
            // freed.
            tracing::warn!(peer = %self.raw.place.peer, "a listen comm that nobody reached is left to the plugin");
            return;
        }
        let _entered = self.raw.place.memory.try_enter();
        // SAFETY: the comm is open and is not used again.
        let code =
            self.raw.plugin.call(BlockingCall::CloseListen, &self.raw.place, |entries| unsafe {
                (entries.close_listen)(self.raw.raw.as_ptr())
            });
        if let Err(error) = self.raw.place.check("closeListen", code, Phase::Close) {
            tracing::warn!(%error);
        }
    }
}
