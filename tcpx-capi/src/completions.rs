#![allow(unsafe_code)]
//! What a program hears of without asking every transfer and peer: the queue of what has ended or
//! come up, and the descriptor for its event loop.

use std::ffi::c_char;
use std::os::fd::AsRawFd;

use tcpx_core::{PeerState, SessionEvent, TransferCompletion};

use crate::attempts::number;

use crate::boundary;
use crate::entries::Entries;
use crate::failure::Failure;
use crate::growing::Growing;
use crate::notification::TCPX_NOTIFICATION_PEER_BYTES;
use crate::output::{Output, fixed_text};
use crate::session::tcpx_session;
use crate::status::tcpx_status::{self, TCPX_OK};
use crate::transfer::tcpx_transfer;

/// Kind of an entry: a transfer of which a round has ended, or an operation of which a post has.
pub const TCPX_COMPLETION_TRANSFER: u32 = 0;
/// Kind of an entry: a peer that has come up, has parted, or has failed.
pub const TCPX_COMPLETION_PEER: u32 = 1;

/// A transfer of which a round has ended, or an operation of which a post has, or a peer that has
/// come up or ended. New members are added at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct tcpx_completion {
    /// The `entry_bytes` of the call.
    pub size: usize,
    /// Of a peer 0. What the program passed to `tcpx_transfer_report_completions` or
    /// `tcpx_operation_report_completions`.
    pub context: u64,
    /// Rounds of the transfer that have ended since its last entry was taken out. Of a peer 0.
    pub rounds: u64,
    /// TCPX_OK if all of them have ended well, or else the status of their first error. Of a peer
    /// that has failed, the status of its error.
    pub status: i32,
    /// TCPX_COMPLETION_TRANSFER, or TCPX_COMPLETION_PEER.
    pub kind: u32,
    /// Of a peer TCPX_PEER_UP, TCPX_PEER_PARTED or TCPX_PEER_FAILED; else 0.
    pub state: i32,
    /// 0.
    pub reserved: u32,
    /// Of a peer its name, which ends with NUL; else empty.
    pub peer: [c_char; TCPX_NOTIFICATION_PEER_BYTES],
}

/// Entries that are shorter have no room for a peer.
const WITH_PEER: usize = 112;
const _: () = assert!(size_of::<tcpx_completion>() == WITH_PEER);

// SAFETY: a size, two 64-bit numbers, four of 32 bits and 72 bytes are 112 bytes without padding,
// as asserted.
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
            ..NOTHING
        }
    }
}

const NOTHING: tcpx_completion = tcpx_completion {
    size: size_of::<tcpx_completion>(),
    context: 0,
    rounds: 0,
    status: TCPX_OK as i32,
    kind: TCPX_COMPLETION_TRANSFER,
    state: 0,
    reserved: 0,
    peer: [0; TCPX_NOTIFICATION_PEER_BYTES],
};

impl Default for tcpx_completion {
    fn default() -> Self {
        NOTHING
    }
}

fn of_peer(name: &str, state: &PeerState) -> Result<tcpx_completion, Failure> {
    let status = match state {
        PeerState::Failed(error) => tcpx_status::from(error),
        _ => TCPX_OK,
    };
    let (status, state, peer) = (status as i32, number(state)?, fixed_text(name));
    Ok(tcpx_completion { status, kind: TCPX_COMPLETION_PEER, state, peer, ..NOTHING })
}

/// An event of a session as an entry; `None`: this version of the library does not know it.
fn of_event(event: &SessionEvent) -> Option<tcpx_completion> {
    match event {
        SessionEvent::Completed(completion) => Some(completion.into()),
        SessionEvent::Peer { name, state } => of_peer(name, state).ok(),
        _ => None,
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

/// Has `tcpx_session_poll_completions` tell from now on which peers come up, part or fail. Those
/// that are up now are told first.
///
/// A peer is told of under the name that the program knows it by: one that comes in, once an accept
/// has taken it. What the program does itself is not told: that it leaves a peer, or destroys the
/// session. With `group` 1 a peer is up from its first connection on, whichever devices have it,
/// until the last one has ended.
///
/// Errors: `TCPX_ERR_HANDLE`. Any thread; does not block.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_session_report_peers(session: tcpx_session) -> tcpx_status {
    boundary::call(|| Ok(session.get()?.report_peers()?))
}

/// Takes out of the session's queue peers that have come up or ended, if the program has asked for
/// them with `tcpx_session_report_peers`, and transfers of which rounds have ended, those first
/// that ended first.
///
/// Of a peer of one name that ends and comes up again and again meanwhile, its last end is told,
/// and that it is up if it is. Programs whose entries are shorter than this version's, because they
/// were compiled with an older header, are told of transfers only.
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
        let session = session.get()?;
        let entries_written = if entry_bytes < WITH_PEER {
            let mut completions = Vec::new();
            session.poll_completions(&mut completions, entries.capacity())?;
            entries.write(completions.iter().map(tcpx_completion::from))?;
            completions.len()
        } else {
            let mut events = Vec::new();
            session.poll_events(&mut events, entries.capacity())?;
            let known: Vec<_> = events.iter().filter_map(of_event).collect();
            entries.write(known.iter().copied())?;
            known.len()
        };
        count.write(entries_written);
        Ok(())
    })
}

/// Writes a descriptor for the program's own event loop (poll, epoll and the like).
///
/// It is readable when a round of a transfer or an operation has ended, whether or not that is
/// reported, or an attempt that `tcpx_session_start_connect` and its like began, when a
/// notification has come, and when a peer has come up or ended that is reported. It is readable at
/// first. In a session without a progress thread it is
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
        out.write(session.get()?.event_fd()?.as_raw_fd());
        Ok(())
    })
}
