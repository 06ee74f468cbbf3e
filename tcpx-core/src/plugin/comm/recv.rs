#![allow(unsafe_code)]
//! The receiving end of a channel.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::time::Duration;

use tcpx_protocol::peer::bounce_pool::BounceCredit;
use tcpx_rx::UnpackDescriptor;
use tcpx_sys::{MAX_REQUESTS, MAX_UNPACK_ENTRIES};

use super::memory::MemoryHandle;
use super::open_comm::OpenComm;
use super::raw::{RawComm, Request, plugin_tag};
use crate::error::{Error, Phase, Result};
use crate::plugin::blocking_call::BlockingCall;
use crate::plugin::unpack_queue::UnpackQueue;

/// The receiving end of a channel, with its unpack queue.
#[derive(Debug)]
pub(crate) struct RecvComm {
    pub(super) raw: RawComm,
    pub(super) queue: UnpackQueue,
    /// Receives posted so far. The k-th, counted from 0, uses slot k mod 16.
    pub(super) received: u64,
    /// What its chunks may take of the bounce buffer, given back when the comm has closed. `None`:
    /// as much as they like.
    pub(super) credit: Option<BounceCredit>,
}

impl RecvComm {
    /// Queues a receive, and says which slot of the unpack queue it uses. `None`: the plugin wants
    /// to be asked again later.
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
        self.raw.place.check("irecv", code, Phase::Receive)?;
        self.raw.readiness.wake();
        let Some(request) = NonNull::new(request) else { return Ok(None) };
        let slot = (self.received % MAX_REQUESTS as u64) as usize;
        self.received += 1;
        Ok(Some((Request(request), slot)))
    }

    /// Drives the comm; true once, when the request has arrived.
    pub(crate) fn test(&mut self, request: Request) -> Result<bool> {
        self.raw.test(request, Phase::Receive)
    }

    /// Bytes that an arrived, unconsumed request received.
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
        self.raw.place.check("iflush", code, Phase::Receive)?;
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
        tracing::error!(peer = %self.raw.place.peer, channel = self.raw.place.channel, "{detail}");
        Err(Error::Protocol { peer: self.raw.place.peer.to_string(), detail })
    }

    /// Bytes of the bounce buffer.
    pub(crate) fn pool_bytes(&self) -> Result<u64> {
        let own = self.raw.place.memory.own_bytes_from(self.queue.bounce())?;
        Ok(own.unwrap_or_default().min(self.queue.bounce_bytes()))
    }

    /// Bounds what its chunks may take of the bounce buffer.
    pub(crate) fn set_credit(&mut self, credit: BounceCredit) {
        self.credit = Some(credit);
    }

    /// What its chunks may take of the bounce buffer, if that is bounded.
    pub(crate) fn credit(&mut self) -> Option<&mut BounceCredit> {
        self.credit.as_mut()
    }

    /// The unpack queue, which says where fragments lie.
    pub(crate) fn queue(&self) -> &UnpackQueue {
        &self.queue
    }

    /// Gives the pages of the oldest arrived request back to the plugin. Its bytes must have been
    /// copied out.
    pub(crate) fn consumed(&mut self, request: Request) -> Result<()> {
        // SAFETY: the comm is open and the request is its own.
        let code = unsafe {
            (self.raw.plugin.entries().irecv_consumed)(self.raw.raw.as_ptr(), 1, request.0.as_ptr())
        };
        // Its pages may be what another request waits for.
        self.raw.readiness.wake();
        self.raw.place.check("irecvConsumed", code, Phase::Receive)
    }

    /// How long the peer's host may acknowledge nothing, for a plugin that can look; `None`: for
    /// ever.
    pub(crate) fn set_peer_timeout(&mut self, timeout: Option<Duration>) {
        self.raw.set_peer_timeout(timeout);
    }

    /// Looks whether the comm is alive, of a plugin that can tell. It may be dead though nothing
    /// is posted.
    pub(crate) fn look(&mut self) -> Result<()> {
        self.raw.look(Phase::Receive)
    }
}

impl OpenComm for RecvComm {
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
        let entered = self.raw.place.memory.try_enter();
        // SAFETY: the comm is open and is not used again. Whoever drops it has waited for its
        // unpacks.
        let code =
            self.raw.plugin.call(BlockingCall::CloseReceive, &self.raw.place, |entries| unsafe {
                (entries.close_recv)(self.raw.raw.as_ptr())
            });
        if let Err(error) = self.raw.place.check("closeRecv", code, Phase::Close) {
            tracing::warn!(%error);
        }
        drop(entered);
        self.raw.deregister_left();
    }
}
