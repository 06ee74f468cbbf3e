#![allow(unsafe_code)]
//! Transfers: creation, waiting, counters and end.

use std::ffi::c_char;
use std::sync::Arc;
use std::time::Duration;

use tcpx_core::{Transfer, TransferCounts};

use crate::extensible::{Extensible, StructOutput};
use crate::failure::Failure;
use crate::input::peer_name;
use crate::output::{ErrorOutput, Output};
use crate::session::tcpx_session;
use crate::status::tcpx_status;
use crate::{boundary, registry};

/// Value of `timeout_ms`: no limit.
pub const TCPX_WAIT_FOREVER: i32 = -1;

/// Handle of a transfer: sends and receives with one peer that are waited for together.
///
/// An id of 0 is no transfer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct tcpx_transfer {
    /// A number that only this library understands.
    pub id: u64,
}

impl tcpx_transfer {
    pub(crate) fn get(self) -> Result<Arc<Transfer>, Failure> {
        registry::get(self.id)
    }
}

/// Counters of a transfer so far: of its whole life, or of its last round. New members are added at
/// the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct tcpx_transfer_counts {
    /// sizeof(tcpx_transfer_counts), set by the program before the call.
    pub size: usize,
    /// Sends and receives that were posted.
    pub operations_posted: u64,
    /// Operations that ended, in whatever way.
    pub operations_done: u64,
    /// Chunks of the operations that have found their counterpart.
    pub chunks_posted: u64,
    /// Chunks sent, or received and unpacked.
    pub chunks_done: u64,
    /// Bytes of the chunks that are done.
    pub bytes_done: u64,
}

const _: () = assert!(size_of::<tcpx_transfer_counts>() == 48);

// SAFETY: six words are 48 bytes without padding, as asserted.
unsafe impl Extensible for tcpx_transfer_counts {
    const NAME: &'static str = "tcpx_transfer_counts";
    const FIRST_BYTES: usize = 48;
}

impl From<TransferCounts> for tcpx_transfer_counts {
    fn from(counts: TransferCounts) -> Self {
        Self {
            size: size_of::<Self>(),
            operations_posted: counts.operations_posted,
            operations_done: counts.operations_done,
            chunks_posted: counts.chunks_posted,
            chunks_done: counts.chunks_done,
            bytes_done: counts.bytes_done,
        }
    }
}

/// Makes a transfer with a connected peer. End it with `tcpx_transfer_release`.
///
/// A transfer may be used again and again. It is complete when every operation has ended. A post to
/// a complete transfer begins a round: the error of the round before is forgotten. A post while
/// operations go on belongs to their round, and keeps its error. So ask for the outcome of a round
/// before the next post.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_PEER`,
/// `TCPX_ERR_PEER_STATE`, or the peer's own error when it is not up. Any thread; does not block.
///
/// # Safety
/// `peer` is NULL or a text that ends with NUL; `out_transfer` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_create_transfer(
    session: tcpx_session,
    peer: *const c_char,
    out_transfer: *mut tcpx_transfer,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { Output::new("out_transfer", out_transfer) }?;
        // SAFETY: passed on from the caller.
        let peer = unsafe { peer_name(peer) }?;
        let transfer = session.get()?.create_transfer(peer)?;
        out.write(tcpx_transfer { id: registry::add(transfer) });
        Ok(())
    })
}

/// Writes whether every operation of the transfer has ended well. While some have not ended, the
/// call makes one round of progress, unless another thread is inside the session: it does not wait
/// for that thread.
///
/// A transfer without operations is complete.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`, `TCPX_ERR_CLOSED`; the first error of the round,
/// once all have ended. Any thread; does not block beyond the round itself.
///
/// # Safety
/// `out_complete` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_transfer_is_complete(
    transfer: tcpx_transfer,
    out_complete: *mut bool,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { Output::new("out_complete", out_complete) }?;
        out.write(transfer.get()?.is_complete()?);
        Ok(())
    })
}

/// Waits until every operation of the transfer has ended, for at most `timeout_ms` milliseconds.
///
/// TCPX_WAIT_FOREVER (-1) sets no limit. The end of the peer, a cancel or the end of the session
/// then ends the wait all the same.
///
/// Errors: `TCPX_ERR_HANDLE`, `TCPX_ERR_CLOSED`; `TCPX_ERR_ARGUMENT` for another negative number;
/// `TCPX_ERR_TIMEOUT` while some operations have not ended: they go on, and the program may wait
/// again; else the first error of the round. No operation ends with `TCPX_ERR_TIMEOUT`, so a loop
/// that waits while it gets `TCPX_ERR_TIMEOUT` comes to an end. Any thread. Blocks for at most
/// `timeout_ms`.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_transfer_wait(transfer: tcpx_transfer, timeout_ms: i32) -> tcpx_status {
    boundary::call(|| Ok(transfer.get()?.wait(timeout(timeout_ms)?)?))
}

/// Sets a time limit of `timeout_ms` milliseconds for each round of the transfer that begins from
/// now on; 0, as at first, sets no limit.
///
/// A round that has not ended by then is given up, as `tcpx_transfer_cancel` does, and ends with
/// `TCPX_ERR_EXPIRED` once nothing of it uses memory. Operations that had found their counterpart
/// run to their end. Rounds of progress check the time limit.
///
/// Errors: `TCPX_ERR_HANDLE`, `TCPX_ERR_CLOSED`. Any thread; does not block.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_transfer_set_timeout(
    transfer: tcpx_transfer,
    timeout_ms: u64,
) -> tcpx_status {
    boundary::call(|| Ok(transfer.get()?.set_timeout(limit(timeout_ms))?))
}

/// Returns a time limit from milliseconds; 0: no limit.
pub(crate) fn limit(timeout_ms: u64) -> Option<Duration> {
    (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms))
}

/// Reads the time limit of a wait, in milliseconds; returns `None` for no limit.
pub(crate) fn timeout(timeout_ms: i32) -> Result<Option<Duration>, Failure> {
    match timeout_ms {
        TCPX_WAIT_FOREVER => Ok(None),
        limit => Ok(Some(Duration::from_millis(u64::try_from(limit).map_err(|_| {
            Failure::argument(format!("timeout_ms is {limit}; -1 is the only negative limit"))
        })?))),
    }
}

/// Withdraws every operation that has no counterpart yet.
///
/// These end with `TCPX_ERR_CANCELLED`, and receives do so once the peer has agreed. A few thousand
/// are withdrawn at once, more of them in the rounds of progress that follow. Operations that have
/// their counterpart run to their end. Wait for the transfer before you reuse its memory.
///
/// Errors: `TCPX_ERR_HANDLE`. Any thread, also while another one waits for the transfer; does not
/// block.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_transfer_cancel(transfer: tcpx_transfer) -> tcpx_status {
    boundary::call(|| {
        transfer.get()?.cancel();
        Ok(())
    })
}

/// Writes the counters of the transfer over its whole life. They only grow.
///
/// Set `out_counts->size` to sizeof(tcpx_transfer_counts) first.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`. Any thread; does not block, and
/// waits for no other thread.
///
/// # Safety
/// `out_counts` is NULL or points to a struct of the size it names, which may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_transfer_get_counts(
    transfer: tcpx_transfer,
    out_counts: *mut tcpx_transfer_counts,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { StructOutput::new(out_counts) }?;
        out.write(transfer.get()?.counts()?.into())
    })
}

/// Writes the counters of the transfer since its last round began: since the first post to it after
/// it was complete.
///
/// Set `out_counts->size` to sizeof(tcpx_transfer_counts) first.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`. Any thread; does not block, and
/// waits for no other thread.
///
/// # Safety
/// `out_counts` is NULL or points to a struct of the size it names, which may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_transfer_get_round_counts(
    transfer: tcpx_transfer,
    out_counts: *mut tcpx_transfer_counts,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { StructOutput::new(out_counts) }?;
        out.write(transfer.get()?.round_counts()?.into())
    })
}

/// Writes the first error of the transfer's last round so far, while other operations may go on.
///
/// `out_error` gets its status, or TCPX_OK if there is none. `buffer` gets its text with a
/// terminating NUL. `out_size` gets the bytes of the text, including the NUL; a NULL `buffer` asks
/// for the number alone.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_BUFFER_TOO_SMALL`, with the needed size in
/// `out_size`, and `out_error` written too. Any thread; does not block.
///
/// # Safety
/// `out_error` and `out_size` are NULL or may be written; `buffer` is NULL or may be written for
/// `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_transfer_error(
    transfer: tcpx_transfer,
    out_error: *mut tcpx_status,
    buffer: *mut c_char,
    capacity: usize,
    out_size: *mut usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { ErrorOutput::new(out_error, buffer, capacity, out_size) }?;
        out.write(transfer.get()?.error().as_ref())
    })
}

/// Ends a transfer. Its handle is no longer valid.
///
/// Operations that have no counterpart yet are withdrawn, as by `tcpx_transfer_cancel`. Operations
/// that have one go on in the background, and their registrations stay in use until they end. When
/// `tcpx_session_deregister_memory` returns TCPX_OK, the memory is free.
///
/// Errors: `TCPX_ERR_HANDLE`; `TCPX_ERR_BUSY` while another thread is inside a call on this
/// transfer: nothing was done. `tcpx_transfer_cancel` makes a thread that waits for the transfer
/// return. Any thread; does not block.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_transfer_release(transfer: tcpx_transfer) -> tcpx_status {
    boundary::call(|| {
        let held = registry::get_unused::<Transfer>(transfer.id)?;
        drop(registry::take(transfer.id, held)?);
        Ok(())
    })
}
