#![allow(unsafe_code)]
//! Peers that meet and part without a blocking call, and accepts of any peer.

use std::ffi::c_char;
use std::task::Poll;

use tcpx_core::PeerState;

use crate::boundary;
use crate::failure::Failure;
use crate::input::peer_name;
use crate::output::{ErrorOutput, NameOutput, Output};
use crate::session::tcpx_session;
use crate::status::tcpx_status::{self, TCPX_ERR_INTERNAL};

/// State of a peer: an accept waits for the peer.
pub const TCPX_PEER_ACCEPTING: i32 = 1;
/// State of a peer: the session is connecting to the peer, or the peer has come in and is not up
/// yet.
pub const TCPX_PEER_CONNECTING: i32 = 2;
/// State of a peer: transfers with the peer can be made.
pub const TCPX_PEER_UP: i32 = 3;
/// State of a peer: this end has said goodbye, and waits for the peer's goodbye.
pub const TCPX_PEER_LEAVING: i32 = 4;
/// State of a peer: the peer was up and has said goodbye. Its name is free.
pub const TCPX_PEER_PARTED: i32 = 5;
/// State of a peer: the last attempt with the name has failed, or the peer has ended. The name is
/// free, and `tcpx_session_peer_error` has the error.
pub const TCPX_PEER_FAILED: i32 = 6;

pub(crate) fn peer_state_code(state: &PeerState) -> Result<i32, Failure> {
    Ok(match state {
        PeerState::Accepting => TCPX_PEER_ACCEPTING,
        PeerState::Connecting => TCPX_PEER_CONNECTING,
        PeerState::Up => TCPX_PEER_UP,
        PeerState::Leaving => TCPX_PEER_LEAVING,
        PeerState::Parted => TCPX_PEER_PARTED,
        PeerState::Failed(_) => TCPX_PEER_FAILED,
        // The enum may grow.
        state => {
            let text = format!("the peer's state {state:?} has no number");
            return Err(Failure::new(TCPX_ERR_INTERNAL, text));
        }
    })
}

/// Begins what `tcpx_session_accept` does, and returns at once.
///
/// The accept goes on in rounds of progress; `tcpx_session_peer_state` gives its state. A failure
/// has the errors of `tcpx_session_accept`. The accept ends after `connect_timeout_ms` at the
/// latest, and the descriptor of `tcpx_session_event_fd` is readable then.
/// `tcpx_session_disconnect` gives the accept up.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_PEER_STATE` when the
/// session does not listen, or the name is taken; `TCPX_ERR_CLOSED`. Any thread; does not block.
///
/// # Safety
/// `peer` is NULL or a text that ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_start_accept(
    session: tcpx_session,
    peer: *const c_char,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let peer = unsafe { peer_name(peer) }?;
        Ok(session.get()?.start_accept(peer)?)
    })
}

/// Begins what `tcpx_session_connect` does, and returns at once.
///
/// The connect goes on in rounds of progress; `tcpx_session_peer_state` gives its state. A failure
/// has the errors of `tcpx_session_connect`. The connect ends after `connect_timeout_ms` at the
/// latest, and the descriptor of `tcpx_session_event_fd` is readable then.
/// `tcpx_session_disconnect` gives the connect up.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_PEER`;
/// `TCPX_ERR_PEER_STATE` when the name is taken; `TCPX_ERR_CLOSED`. Any thread; does not block.
///
/// # Safety
/// `peer` is NULL or a text that ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_start_connect(
    session: tcpx_session,
    peer: *const c_char,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let peer = unsafe { peer_name(peer) }?;
        Ok(session.get()?.start_connect(peer)?)
    })
}

/// Begins what `tcpx_session_disconnect` does, and returns at once.
///
/// The goodbye goes on in rounds of progress, and ends after `close_timeout_ms` at the latest. The
/// descriptor of `tcpx_session_event_fd` is readable then. `tcpx_session_peer_state` then gives
/// `TCPX_ERR_UNKNOWN_PEER`, or TCPX_PEER_FAILED if the peer did not answer.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_PEER`. Any
/// thread; does not block.
///
/// # Safety
/// `peer` is NULL or a text that ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_start_disconnect(
    session: tcpx_session,
    peer: *const c_char,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let peer = unsafe { peer_name(peer) }?;
        Ok(session.get()?.start_disconnect(peer)?)
    })
}

/// Writes the state of a peer: one of TCPX_PEER_ACCEPTING, TCPX_PEER_CONNECTING, TCPX_PEER_UP,
/// TCPX_PEER_LEAVING, TCPX_PEER_PARTED and TCPX_PEER_FAILED. The call makes no progress.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_UNKNOWN_PEER` when
/// there is no such peer, and no accept waits for one; `TCPX_ERR_CLOSED`. Any thread; does not
/// block.
///
/// # Safety
/// `peer` is NULL or a text that ends with NUL; `out_state` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_peer_state(
    session: tcpx_session,
    peer: *const c_char,
    out_state: *mut i32,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { Output::new("out_state", out_state) }?;
        // SAFETY: passed on from the caller.
        let peer = unsafe { peer_name(peer) }?;
        out.write(peer_state_code(&session.get()?.peer_state(peer)?)?);
        Ok(())
    })
}

/// Writes the error of a peer whose state is TCPX_PEER_FAILED.
///
/// `out_error` gets the status, or TCPX_OK in any other state. `buffer` gets the error's text with
/// a terminating NUL. `out_size` gets the bytes of the text, including the NUL; a NULL `buffer`
/// asks for the number alone.
///
/// Errors: those of `tcpx_session_peer_state`; `TCPX_ERR_BUFFER_TOO_SMALL`, with the needed size in
/// `out_size`, and `out_error` written too. Any thread; does not block.
///
/// # Safety
/// `peer` is NULL or a text that ends with NUL; `out_error` and `out_size` are NULL or may be
/// written; `buffer` is NULL or may be written for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_peer_error(
    session: tcpx_session,
    peer: *const c_char,
    out_error: *mut tcpx_status,
    buffer: *mut c_char,
    capacity: usize,
    out_size: *mut usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { ErrorOutput::new(out_error, buffer, capacity, out_size) }?;
        // SAFETY: passed on from the caller.
        let peer = unsafe { peer_name(peer) }?;
        match session.get()?.peer_state(peer)? {
            PeerState::Failed(error) => out.write(Some(&error)),
            _ => out.write(None),
        }
    })
}

/// Takes the peer that has come in first, or waits until a peer comes in. Writes the name by which
/// the peer is known here from then on.
///
/// The name is the one under which the peer's connection info was loaded, else the peer's own
/// (`name` of its options). A peer without a name, or with a name that another peer has, is named
/// "peer-1", "peer-2" and so on. A peer for whose name another accept waits goes to that accept.
/// `capacity` is at least TCPX_MAX_NAME_BYTES + 1.
///
/// Errors: those of `tcpx_session_accept`; `TCPX_ERR_ARGUMENT` for a smaller `capacity`. Any
/// thread. Blocks for at most `connect_timeout_ms`.
///
/// # Safety
/// `out_name` is NULL or may be written for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_accept_any(
    session: tcpx_session,
    out_name: *mut c_char,
    capacity: usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { NameOutput::new("out_name", out_name, capacity) }?;
        out.write(&session.get()?.accept_any()?);
        Ok(())
    })
}

/// Begins what `tcpx_session_accept_any` does, and returns at once. Several may be begun: each
/// takes one peer, and `tcpx_session_poll_accept_any` writes the peer's name.
///
/// Errors: `TCPX_ERR_HANDLE`; `TCPX_ERR_PEER_STATE` when the session does not listen;
/// `TCPX_ERR_CLOSED`. Any thread; does not block.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_session_start_accept_any(session: tcpx_session) -> tcpx_status {
    boundary::call(|| Ok(session.get()?.start_accept_any()?))
}

/// Writes the outcome of one `tcpx_session_start_accept_any`.
///
/// `out_accepted` gets whether a peer is up. If one is, `out_name` gets its name, of at most
/// TCPX_MAX_NAME_BYTES bytes and a NUL; `capacity` is at least TCPX_MAX_NAME_BYTES + 1. Each accept
/// that was begun is answered once, in the order in which they ended. The call makes no progress.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_PEER_STATE` when no
/// accept is under way; the error with which an accept has ended: `TCPX_ERR_TIMEOUT`,
/// `TCPX_ERR_CLOSED`, `TCPX_ERR_PEER_GONE`, `TCPX_ERR_PLUGIN`. Any thread; does not block.
///
/// # Safety
/// `out_accepted` is NULL or may be written; `out_name` is NULL or may be written for `capacity`
/// bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_poll_accept_any(
    session: tcpx_session,
    out_accepted: *mut bool,
    out_name: *mut c_char,
    capacity: usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let accepted = unsafe { Output::new("out_accepted", out_accepted) }?;
        // SAFETY: passed on from the caller.
        let out = unsafe { NameOutput::new("out_name", out_name, capacity) }?;
        let outcome = session.get()?.poll_accept_any()?;
        if let Poll::Ready(name) = &outcome {
            out.write(name);
        }
        accepted.write(outcome.is_ready());
        Ok(())
    })
}

/// Gives up every accept that `tcpx_session_start_accept_any` began and that no peer has come for.
///
/// Errors: `TCPX_ERR_HANDLE`. Any thread; does not block.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_session_stop_accept_any(session: tcpx_session) -> tcpx_status {
    boundary::call(|| Ok(session.get()?.stop_accept_any()?))
}
