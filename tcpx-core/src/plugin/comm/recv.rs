#![allow(unsafe_code)]
//! Receiving end of a channel.
//!
//! Also the listen comm, which waits for one peer.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use tcpx_protocol::peer::credit::BounceCredit;
use tcpx_rx::UnpackDescriptor;
use tcpx_seal::secret::SharedSecret;
use tcpx_sys::{
    MAX_REQUESTS, MAX_UNPACK_ENTRIES, NET_DEVICE_UNPACK, NcclResult, NetDeviceHandle, NetHandle,
    UNPACK_VERSION,
};

use super::memory::MemoryHandle;
use super::open_comm::OpenComm;
use super::raw::{RawComm, Request, plugin_tag};
use crate::error::{Error, Phase, Result};
use crate::plugin::Plugin;
use crate::plugin::comm_label::{BlockingCall, CommLabel};
use crate::plugin::unpack_queue::UnpackQueue;

/// Receiving end of a channel, with its unpack queue.
#[derive(Debug)]
pub(crate) struct RecvComm {
    pub(super) raw: RawComm,
    pub(super) queue: UnpackQueue,
    /// Number of receives posted so far. The k-th, counted from 0, uses slot k mod 16.
    pub(super) received: u64,
    /// Credit of its chunks in the bounce buffer, returned when the comm has closed. `None`:
    /// without limit.
    pub(super) credit: Option<BounceCredit>,
}

impl RecvComm {
    /// Queues a receive, and returns the slot of the unpack queue that it uses. `None`: the plugin
    /// is busy, and the caller must try again later.
    ///
    /// # Safety
    /// For host memory, `data..data + bytes` stays writable until the request is done or the comm
    /// closed. For device memory the plugin does not touch it.
    pub(crate) unsafe fn irecv(
        &mut self,
        data: u64,
        bytes: u32,
        tag: i64,
        mhandle: MemoryHandle,
    ) -> Result<Option<(Request, usize)>> {
        let mut request = std::ptr::null_mut();
        let mut data = data as *mut c_void;
        let mut size = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        let mut tag = plugin_tag(tag);
        let mut mhandle = mhandle.0.as_ptr();
        // SAFETY: the comm is open. All arrays have the one element that n = 1 announces. The
        // caller vouches for `data`.
        let code = unsafe {
            (self.raw.plugin.entries().irecv)(
                self.raw.raw.as_ptr(),
                1,
                &raw mut data,
                &raw mut size,
                &raw mut tag,
                &raw mut mhandle,
                &raw mut request,
            )
        };
        self.raw.label.check("irecv", code, Phase::Receive)?;
        self.raw.readiness.wake();
        let Some(request) = NonNull::new(request) else { return Ok(None) };
        let slot = (self.received % MAX_REQUESTS as u64) as usize;
        self.received += 1;
        Ok(Some((Request(request), slot)))
    }

    /// Drives the comm. Returns true once, when the request has arrived.
    pub(crate) fn test(&mut self, request: Request) -> Result<bool> {
        self.raw.test(request, Phase::Receive)
    }

    /// Returns the number of bytes that an arrived, unconsumed request received.
    pub(crate) fn received_bytes(&self, request: Request) -> Result<u64> {
        let mut size: c_int = -1;
        let mut raw_request = request.0.as_ptr();
        let mut data = std::ptr::null_mut();
        let mut mhandle = std::ptr::null_mut();
        // SAFETY: the comm is open. The request is one of its own that was not consumed. The arrays
        // have one element.
        let code = unsafe {
            (self.raw.plugin.entries().iflush)(
                self.raw.raw.as_ptr(),
                1,
                &raw mut data,
                &raw mut size,
                &raw mut mhandle,
                &raw mut raw_request,
            )
        };
        self.raw.label.check("iflush", code, Phase::Receive)?;
        u64::try_from(size).map_err(|_| self.raw.null_output("iflush", Phase::Receive))
    }

    /// Copies the unpack descriptors of an arrived request out of the queue.
    pub(crate) fn descriptors(&self, slot: usize, out: &mut Vec<UnpackDescriptor>) -> Result<()> {
        let count = self.queue.read_slot(slot, out);
        if count <= MAX_UNPACK_ENTRIES as u64 {
            return Ok(());
        }
        let detail =
            format!("unpack queue slot {slot} announces {count} entries, {MAX_UNPACK_ENTRIES} fit");
        tracing::error!(peer = %self.raw.label.peer, channel = self.raw.label.channel, "{detail}");
        Err(Error::Protocol { peer: self.raw.label.peer.to_string(), detail })
    }

    /// Returns the number of bytes of the bounce buffer.
    pub(crate) fn pool_bytes(&self) -> Result<u64> {
        let own = self.raw.label.memory.own_bytes_from(self.queue.bounce())?;
        Ok(own.unwrap_or_default().min(self.queue.bounce_bytes()))
    }

    /// Limits the credit of its chunks in the bounce buffer.
    pub(crate) fn set_credit(&mut self, credit: BounceCredit) {
        self.credit = Some(credit);
    }

    /// Returns the credit of its chunks in the bounce buffer, if there is a limit.
    pub(crate) fn credit(&mut self) -> Option<&mut BounceCredit> {
        self.credit.as_mut()
    }

    /// Returns the unpack queue, which says where fragments lie.
    pub(crate) fn queue(&self) -> &UnpackQueue {
        &self.queue
    }

    /// Returns the pages of the oldest arrived request to the plugin. Its bytes must have been
    /// copied out.
    pub(crate) fn consumed(&mut self, request: Request) -> Result<()> {
        // SAFETY: the comm is open and the request is its own.
        let code = unsafe {
            (self.raw.plugin.entries().irecv_consumed)(self.raw.raw.as_ptr(), 1, request.0.as_ptr())
        };
        // Another request may be waiting for these pages.
        self.raw.readiness.wake();
        self.raw.label.check("irecvConsumed", code, Phase::Receive)
    }
}

impl OpenComm for RecvComm {
    const PHASE: Phase = Phase::Receive;

    fn raw(&self) -> &RawComm {
        &self.raw
    }

    fn raw_mut(&mut self) -> &mut RawComm {
        &mut self.raw
    }
}

impl Drop for RecvComm {
    fn drop(&mut self) {
        self.raw.readiness.end();
        let entered = self.raw.label.memory.try_enter();
        // SAFETY: the comm is open and is not used again. The code that drops it has waited for its
        // unpacks.
        let code =
            self.raw.plugin.call(BlockingCall::CloseReceive, &self.raw.label, |entries| unsafe {
                (entries.close_recv)(self.raw.raw.as_ptr())
            });
        if let Err(error) = self.raw.label.check("closeRecv", code, Phase::Close) {
            tracing::warn!(%error);
        }
        drop(entered);
        self.raw.deregister_leftover();
    }
}

/// Listen comm. It accepts exactly one peer.
#[derive(Debug)]
pub(crate) struct ListenComm {
    raw: RawComm,
    handle: NetHandle,
    /// Device handle that the accept which returns the comm fills. It must not move until then.
    device_handle: Box<NetDeviceHandle>,
    accepting: bool,
}

// SAFETY: as for `RawComm`. The device handle is plain data that only this listen comm and the
// plugin's accept touch.
unsafe impl Send for ListenComm {}

impl ListenComm {
    pub(crate) fn open(plugin: &Arc<Plugin>, label: CommLabel) -> Result<Self> {
        let mut handle = NetHandle::zeroed();
        let mut raw = std::ptr::null_mut();
        let entered = label.memory.enter()?;
        let code = plugin.call(BlockingCall::Listen, &label, |entries| {
            // SAFETY: the handle is 128 writable bytes. The output is a valid pointer. The NIC
            // index came from the plugin.
            unsafe { (entries.listen)(label.nic_index, handle.0.as_mut_ptr().cast(), &raw mut raw) }
        });
        drop(entered);
        label.check("listen", code, Phase::Listen)?;
        tracing::debug!(peer = %label.peer, channel = label.channel, nic = %label.nic, ?handle, "listening");
        let Some(raw) = NonNull::new(raw) else {
            return Err(label
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
        let raw = RawComm::new(plugin, label, raw);
        Ok(Self { raw, handle, device_handle, accepting: false })
    }

    /// Has all encrypted that the peer sends on the comm. A peer without this secret is not
    /// accepted. Called before the peer is polled for.
    pub(crate) fn encrypt(&mut self, secret: &SharedSecret) -> Result<()> {
        let code = match self.raw.plugin.encryption() {
            // SAFETY: the listen comm is open, and its accept was not called. The secret is 32
            // bytes, which the plugin copies.
            Some(entries) => unsafe {
                (entries.encrypt_listen)(self.raw.raw.as_ptr(), secret.bytes().as_ptr().cast())
            },
            // Such a session was refused when it was made.
            None => NcclResult::INTERNAL_ERROR,
        };
        self.raw.label.check("encryptListen", code, Phase::Listen)
    }

    /// Returns the connect handle, which the peer needs.
    pub(crate) fn handle(&self) -> NetHandle {
        self.handle
    }

    /// Polls for the peer. After `Some` or an error the listen comm must be dropped: one more poll
    /// is fatal in the original plugin.
    pub(crate) fn poll_accept(&mut self) -> Result<Option<RecvComm>> {
        let mut comm = std::ptr::null_mut();
        let mut device_handle: *mut NetDeviceHandle = &raw mut *self.device_handle;
        let entered = self.raw.label.memory.enter()?;
        self.accepting = true;
        let listen_comm = self.raw.raw.as_ptr();
        // SAFETY: the listen comm is open, and its accept has given no final answer yet.
        // `device_handle` points to a struct that lives, unmoved, as long as this listen comm.
        let code = self.raw.plugin.call(BlockingCall::Accept, &self.raw.label, |entries| unsafe {
            (entries.accept)(listen_comm, &raw mut comm, &raw mut device_handle)
        });
        drop(entered);
        self.accepting = code.is_success() && comm.is_null();
        self.raw.label.check("accept", code, Phase::Accept)?;
        let Some(raw) = NonNull::new(comm) else { return Ok(None) };
        let label = self.raw.label.clone();
        let raw = RawComm::new(&self.raw.plugin, label, raw);
        // Owned from here on, so that the comm is closed even if its queue is unusable.
        let mut comm = RecvComm { raw, queue: UnpackQueue::default(), received: 0, credit: None };
        comm.queue = UnpackQueue::read(&self.device_handle, &self.raw.label.memory)?;
        tracing::debug!(
            peer = %comm.raw.label.peer, channel = comm.raw.label.channel, recv_comm = ?comm.raw.raw,
            "connection accepted; device handle: {}", comm.queue
        );
        Ok(Some(comm))
    }
}

impl Drop for ListenComm {
    fn drop(&mut self) {
        if self.accepting && self.raw.plugin.is_hardware() {
            // The plugin's helper thread blocks in accept(2) and would use the comm after it is
            // freed.
            tracing::warn!(peer = %self.raw.label.peer, "a listen comm that no peer reached is left to the plugin");
            return;
        }
        let _entered = self.raw.label.memory.try_enter();
        // SAFETY: the comm is open and is not used again.
        let code =
            self.raw.plugin.call(BlockingCall::CloseListen, &self.raw.label, |entries| unsafe {
                (entries.close_listen)(self.raw.raw.as_ptr())
            });
        if let Err(error) = self.raw.label.check("closeListen", code, Phase::Close) {
            tracing::warn!(%error);
        }
    }
}
