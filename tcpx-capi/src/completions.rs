#![allow(unsafe_code)]
//! What a program hears of without asking every transfer: the queue of those that are complete, and
//! the descriptor for its event loop.

use std::os::fd::AsRawFd;

use tcpx_core::TransferCompletion;

use crate::boundary;
use crate::entries::Entries;
use crate::growing::Growing;
use crate::output::Output;
use crate::session::tcpx_session;
use crate::status::tcpx_status::{self, TCPX_OK};
use crate::transfer::tcpx_transfer;

/// A transfer of which a round has ended, or an operation of which a post has. New members are added
/// at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct tcpx_completion {
    /// The `entry_bytes` of the call.
    pub size: usize,
    /// What the program passed to `tcpx_transfer_report_completions` or
    /// `tcpx_operation_report_completions`.
    pub context: u64,
    /// Rounds of the transfer that have ended since its last entry was taken out.
    pub rounds: u64,
    /// TCPX_OK if all of them have ended well, or else the status of their first error.
    pub status: i32,
    /// 0.
    pub reserved: u32,
}

const _: () = assert!(size_of::<tcpx_completion>() == 32);

// SAFETY: a size, two 64-bit numbers and two of 32 are 32 bytes without padding, as asserted.
unsafe impl Growing for tcpx_completion {
    const NAME: &'static str = "tcpx_completion";
    const FIRST_BYTES: usize = 32;
}

impl From<&TransferCompletion> for tcpx_completion {
    fn from(completion: &TransferCompletion) -> Self {
        let status = completion.result.as_ref().err().map_or(TCPX_OK, tcpx_status::from);
        Self {
            size: size_of::<Self>(),
            context: completion.context,
            rounds: completion.rounds,
            status: status as i32,
            reserved: 0,
        }
    }
}

/// Has the end of each round of the transfer from now on told by `tcpx_session_poll_completions`.
///
/// `context` is any number that says to the program what this transfer is: an index, or an address.
/// Call this before the first post: a round that has ended by now is not told. Another call changes
/// the number. One entry at most waits for each transfer; `tcpx_transfer_release` takes it away.
///
/// Errors: `TCPX_ERR_HANDLE`. Any thread; does not block.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_transfer_report_completions(
    transfer: tcpx_transfer,
    context: u64,
) -> tcpx_status {
    boundary::call(|| Ok(transfer.get()?.report_completions(context)?))
}

/// Takes out of the session's queue transfers of which rounds have ended, those first that ended
/// first.
///
/// `out_completions` is an array of `capacity` entries, of `entry_bytes` each, which is
/// sizeof(tcpx_completion). `out_count` gets how many were written; others wait if that is
/// `capacity`. The words of an error are those of `tcpx_transfer_error`. It makes no progress, and
/// takes no lock that the moving of data holds.
///
/// Afterwards the descriptor of `tcpx_session_event_fd` is not readable, unless entries are left.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; nothing is taken out then. Any
/// thread; does not block.
///
/// # Safety
/// `out_completions` is NULL or may be written for `capacity` times `entry_bytes` bytes;
/// `out_count` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_poll_completions(
    session: tcpx_session,
    out_completions: *mut tcpx_completion,
    entry_bytes: usize,
    capacity: usize,
    out_count: *mut usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let count = unsafe { Output::new("out_count", out_count) }?;
        // SAFETY: passed on from the caller.
        let entries =
            unsafe { Entries::new("out_completions", out_completions, entry_bytes, capacity) }?;
        let mut completions = Vec::new();
        session.any()?.poll_completions(&mut completions, entries.capacity())?;
        entries.write(completions.iter().map(tcpx_completion::from))?;
        count.write(completions.len());
        Ok(())
    })
}

/// Writes a descriptor for the program's own event loop (poll, epoll and the like).
///
/// It is readable when a round of a transfer or an operation has ended, whether or not that is
/// reported, or an attempt that `tcpx_session_start_connect` and its like began, and when a
/// notification has come. It is readable at first. In a session without a progress thread it is
/// also readable when a round of progress is due. Only `tcpx_session_progress` and
/// `tcpx_session_poll_completions` make it unreadable: call these when it is readable, in this
/// order, and look at transfers, peers and notifications after that. What happens later makes it
/// readable again.
///
/// The descriptor is the session's until `tcpx_session_destroy`: the program neither reads it nor
/// closes it. It is closed by `exec`.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_IO` when the process has no descriptors
/// left. Any thread; does not block.
///
/// # Safety
/// `out_fd` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_event_fd(
    session: tcpx_session,
    out_fd: *mut i32,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { Output::new("out_fd", out_fd) }?;
        out.write(session.any()?.event_fd()?.as_raw_fd());
        Ok(())
    })
}
