#![allow(unsafe_code)]
//! Completion queue of a session, and the descriptor for a program's event loop.
//!
//! The queue saves a program from asking every transfer and peer. It holds the rounds that have
//! ended, and the peers that have come up or ended.

use std::ffi::c_char;
use std::os::fd::AsRawFd;

use tcpx_core::{PeerState, SessionEvent, TransferCompletion};

use crate::peers::peer_state_code;

use crate::boundary;
use crate::extensible::Extensible;
use crate::failure::Failure;
use crate::notification::TCPX_NOTIFICATION_PEER_BYTES;
use crate::output::{Output, fixed_text};
use crate::output_array::OutputArray;
use crate::session::tcpx_session;
use crate::status::tcpx_status::{self, TCPX_OK};
use crate::transfer::tcpx_transfer;

/// Kind of an entry: a transfer whose round has ended, or an operation whose post has ended.
pub const TCPX_COMPLETION_TRANSFER: u32 = 0;
/// Kind of an entry: a peer that has come up, has parted, or has failed.
pub const TCPX_COMPLETION_PEER: u32 = 1;

/// Entry of the completion queue: a transfer whose round has ended, an operation whose post has
/// ended, or a peer that has come up or ended. New members are added at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct tcpx_completion {
    /// The `entry_bytes` of the call.
    pub size: usize,
    /// Value that the program passed to `tcpx_transfer_report_completions` or
    /// `tcpx_operation_report_completions`. 0 for a peer.
    pub context: u64,
    /// Rounds of the transfer that have ended since its last entry was taken out. 0 for a peer.
    pub rounds: u64,
    /// TCPX_OK if all these rounds have ended well, or else the status of their first error. For a
    /// peer that has failed, the status of its error.
    pub status: i32,
    /// TCPX_COMPLETION_TRANSFER, or TCPX_COMPLETION_PEER.
    pub kind: u32,
    /// TCPX_PEER_UP, TCPX_PEER_PARTED or TCPX_PEER_FAILED for a peer; else 0.
    pub state: i32,
    /// 0.
    pub reserved: u32,
    /// Name of a peer, which ends with NUL; else empty.
    pub peer: [c_char; TCPX_NOTIFICATION_PEER_BYTES],
}

/// Size from which an entry has room for a peer.
const PEER_COMPLETION_BYTES: usize = 112;
const _: () = assert!(size_of::<tcpx_completion>() == PEER_COMPLETION_BYTES);

// SAFETY: a size, two 64-bit numbers, four of 32 bits and 72 bytes are 112 bytes without padding,
// as asserted.
unsafe impl Extensible for tcpx_completion {
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
            ..EMPTY_COMPLETION
        }
    }
}

const EMPTY_COMPLETION: tcpx_completion = tcpx_completion {
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
        EMPTY_COMPLETION
    }
}

fn peer_completion(name: &str, state: &PeerState) -> Result<tcpx_completion, Failure> {
    let status = match state {
        PeerState::Failed(error) => tcpx_status::from(error),
        _ => TCPX_OK,
    };
    let (status, state, peer) = (status as i32, peer_state_code(state)?, fixed_text(name));
    Ok(tcpx_completion { status, kind: TCPX_COMPLETION_PEER, state, peer, ..EMPTY_COMPLETION })
}

/// Returns an event of a session as an entry; `None` for an event that this version of the library
/// does not know.
fn event_completion(event: &SessionEvent) -> Option<tcpx_completion> {
    match event {
        SessionEvent::Completed(completion) => Some(completion.into()),
        SessionEvent::Peer { name, state } => peer_completion(name, state).ok(),
        _ => None,
    }
}

/// Makes `tcpx_session_poll_completions` report the end of each round of the transfer from now on.
///
/// `context` is any number that identifies the transfer to the program: an index, or an address.
/// Call this before the first post: a round that has already ended is not reported. Another call
/// changes the number. One entry at most waits for each transfer; `tcpx_transfer_release` removes
/// it.
///
/// Errors: `TCPX_ERR_HANDLE`. Any thread; does not block.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_transfer_report_completions(
    transfer: tcpx_transfer,
    context: u64,
) -> tcpx_status {
    boundary::call(|| Ok(transfer.get()?.report_completions(context)?))
}

/// Makes `tcpx_session_poll_completions` report from now on which peers come up, part or fail.
/// Peers that are up now are reported first.
///
/// A peer is reported under the name by which the program knows it; a peer that comes in is
/// reported once an accept has taken it. The program's own acts are not reported: that it leaves a
/// peer, or destroys the session. With `group` 1 a peer is up from its first connection on,
/// whichever devices have it, until the last connection has ended.
///
/// Errors: `TCPX_ERR_HANDLE`. Any thread; does not block.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_session_report_peers(session: tcpx_session) -> tcpx_status {
    boundary::call(|| Ok(session.get()?.report_peers()?))
}

/// Takes entries out of the session's completion queue: transfers whose rounds have ended, and
/// peers that have come up or ended. Transfers come in the order in which they ended. Peers are
/// reported if the program has called `tcpx_session_report_peers`.
///
/// For a peer that ends and comes up again several times in between, the last end is reported, and
/// that the peer is up if it is. Programs that were compiled with an older header have shorter
/// entries, and get entries of transfers only.
///
/// `out_completions` is an array of `capacity` entries, of `entry_bytes` each, which is
/// sizeof(tcpx_completion). `out_count` gets the number of entries written; more may wait if it
/// equals `capacity`. `tcpx_transfer_error` has the text of an error. The call makes no progress,
/// and takes no lock that is held while data moves.
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
            unsafe { OutputArray::new("out_completions", out_completions, entry_bytes, capacity) }?;
        let session = session.get()?;
        let entries_written = if entry_bytes < PEER_COMPLETION_BYTES {
            let mut completions = Vec::new();
            session.poll_completions(&mut completions, entries.capacity())?;
            entries.write(completions.iter().map(tcpx_completion::from))?;
            completions.len()
        } else {
            let mut events = Vec::new();
            session.poll_events(&mut events, entries.capacity())?;
            let known: Vec<_> = events.iter().filter_map(event_completion).collect();
            entries.write(known.iter().copied())?;
            known.len()
        };
        count.write(entries_written);
        Ok(())
    })
}

/// Writes a descriptor for the program's own event loop (poll, epoll and the like).
///
/// The descriptor is readable when one of these has happened:
/// - a round of a transfer, or a post of an operation, has ended, whether or not it is reported;
/// - an attempt that `tcpx_session_start_connect` and its like began has ended;
/// - a notification has come;
/// - a peer has come up or ended, and peers are reported.
///
/// It is readable at first. In a session without a progress thread it is also readable when a round
/// of progress is due. Only `tcpx_session_progress` and `tcpx_session_poll_completions` make it
/// unreadable. When it is readable, call these two in this order, and then look at transfers, peers
/// and notifications. A later event makes it readable again.
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

/// Prepares for a wait on the descriptor of `tcpx_session_event_fd`: the progress thread moves the
/// bytes at once.
///
/// After the program has waited in a call of this library, or has polled often, the progress thread
/// stands back for up to 1 ms. A program that does so between waits on the descriptor calls this
/// before each of those waits. It makes a system call only where the thread stands back. Without a
/// progress thread it does nothing.
///
/// Errors: `TCPX_ERR_HANDLE`. Any thread; does not block.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_session_arm(session: tcpx_session) -> tcpx_status {
    boundary::call(|| {
        session.get()?.arm();
        Ok(())
    })
}
