#![allow(unsafe_code)]
//! Sessions: creation, listening, connecting and end.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use tcpx_core::Session;

use crate::failure::Failure;
use crate::input::peer_name;
use crate::options::{self, tcpx_session_options};
use crate::output::{ByteOutput, Output};
use crate::status::tcpx_status;
use crate::{boundary, input, registry};

/// Most bytes of connection info.
pub const TCPX_MAX_CONN_INFO_BYTES: usize = 65_576;

/// Handle of a session: one GPU (or host memory), its NICs, its peers, its registrations. A session
/// made with `group` 1 has the host and all GPUs.
///
/// An id of 0 is no session.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct tcpx_session {
    /// Number that only this library understands.
    pub id: u64,
}

impl tcpx_session {
    pub(crate) fn get(self) -> Result<Arc<Session>, Failure> {
        registry::get(self.id)
    }
}

/// Makes a session; with `group` 1 of the options, a session of the host and of all GPUs. End it
/// with `tcpx_session_destroy`.
///
/// The call opens the plugin, once for the process, and the unpack backend. NULL options stand for
/// the environment's values, or else the defaults. With the hardware plugin, SIGPIPE is ignored
/// from then on if its disposition was SIG_DFL; see `keep_sigpipe` of the options.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_SETTING`, `TCPX_ERR_PLUGIN_LOAD`,
/// `TCPX_ERR_PLUGIN`, `TCPX_ERR_HOST`, `TCPX_ERR_NO_NIC`, `TCPX_ERR_UNPACK`; `TCPX_ERR_UNAVAILABLE`
/// for a GPU that this build cannot use. Any thread.
///
/// # Safety
/// `options` is NULL or points to a struct of the size it names, whose texts are NULL or end with
/// NUL. `out_session` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_create(
    options: *const tcpx_session_options,
    out_session: *mut tcpx_session,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { Output::new("out_session", out_session) }?;
        // SAFETY: passed on from the caller.
        let options = unsafe { options::to_core(options) }?;
        out.write(tcpx_session { id: registry::add(Session::new(options)?) });
        Ok(())
    })
}

/// Says goodbye to every peer, then closes everything.
///
/// When it returns `TCPX_OK`, the library does not touch memory that was registered with the
/// session any more. The handles stay valid: end each transfer with `tcpx_transfer_release`, and
/// the session with `tcpx_session_destroy`. Closing a session that is closed changes nothing.
///
/// Errors: `TCPX_ERR_HANDLE`; `TCPX_ERR_TIMEOUT` in two cases, and the text names the peers. Either
/// they did not answer: everything is closed here all the same. Or something still uses registered
/// memory, because a GPU hangs that unpacks chunks, or the plugin does while it closes comms: that
/// memory must stay, and another call looks again. `tcpx_session_destroy` tells the two apart.
///
/// Any thread, also while other threads are inside calls on this session: those calls end with
/// `TCPX_ERR_CLOSED`. Blocks for at most `close_timeout_ms`, and then for at most 10 seconds while
/// unpacks under way end and comms close.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_session_close(session: tcpx_session) -> tcpx_status {
    boundary::call(|| Ok(session.get()?.close()?))
}

/// Ends a session. The call closes the session as `tcpx_session_close` does, but does not say
/// whether every peer answered.
///
/// When it returns `TCPX_OK`, the handle is no longer valid, and the library does not touch memory
/// that was registered with the session any more. The handles of its transfers stay valid until
/// `tcpx_transfer_release`. These transfers answer `TCPX_ERR_CLOSED`, or `TCPX_ERR_PEER_GONE` if
/// the peer said goodbye first.
///
/// Errors: the handle stays valid after each of these. `TCPX_ERR_HANDLE`; `TCPX_ERR_BUSY` while
/// another thread is inside a call on this session; `TCPX_ERR_TIMEOUT` when the session is closed
/// but registered memory is still used, because a GPU hangs that unpacks chunks, or the plugin
/// hangs while it closes comms. The text names the peers. That memory must stay; another call looks
/// again. Any thread. Blocks for at most `close_timeout_ms`, and then for at most 10 seconds while
/// unpacks under way end and comms close.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_session_destroy(session: tcpx_session) -> tcpx_status {
    boundary::call(|| {
        let held = registry::get_unused::<Session>(session.id)?;
        let closed = held.close();
        if !held.is_settled() {
            closed?;
        }
        drop(registry::take(session.id, held)?);
        Ok(())
    })
}

/// Writes the connection info, which peers load with `tcpx_session_load_remote_conn_info`. The
/// first call opens the control listener.
///
/// Any number of peers may use the same bytes. They contain a secret, so hand them over on a
/// trusted path. `out_size` gets the number of bytes; a NULL `buffer` asks for the number alone.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_HANDLE`; `TCPX_ERR_BUFFER_TOO_SMALL`, with the needed size in
/// `out_size`; `TCPX_ERR_IO` when the library cannot listen on the address. Any thread; does not
/// block.
///
/// # Safety
/// `buffer` is NULL or may be written for `capacity` bytes; `out_size` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_listen(
    session: tcpx_session,
    buffer: *mut c_void,
    capacity: usize,
    out_size: *mut usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { ByteOutput::new(buffer.cast(), capacity, out_size) }?;
        out.write(&session.get()?.listen()?)
    })
}

/// Takes a peer that connects, or has connected, and gives it the name `peer`. Waits for a peer if
/// there is none.
///
/// Call `tcpx_session_listen` first. A connecting session that has a name of its own is accepted
/// under that name only. Where connection info was loaded under the name, only the session that it
/// leads to is accepted, whatever name that session has. Peers do not wait for this call; they need
/// only the session's progress. A peer that is gone before this call is skipped. A session to which
/// this session is itself connecting goes to that `tcpx_session_connect`, never to a waiting
/// accept.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_PEER_STATE` when the
/// session does not listen, or the name is taken; `TCPX_ERR_TIMEOUT` when no peer came within
/// `connect_timeout_ms`; `TCPX_ERR_CLOSED` as soon as another thread closes the session;
/// `TCPX_ERR_HANDSHAKE`, `TCPX_ERR_PEER_GONE`, `TCPX_ERR_PLUGIN` when connecting failed. Any
/// thread. Blocks for at most `connect_timeout_ms`.
///
/// # Safety
/// `peer` is NULL or a text that ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_accept(
    session: tcpx_session,
    peer: *const c_char,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let peer = unsafe { peer_name(peer) }?;
        Ok(session.get()?.accept(peer)?)
    })
}

/// Remembers how to reach `peer`, from the bytes that the peer's `tcpx_session_listen` wrote. The
/// bytes are copied. They stay until `tcpx_session_forget_remote_conn_info`.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_CONN_INFO` when the
/// bytes are damaged or of another version. Any thread; does not block.
///
/// # Safety
/// `peer` is NULL or a text that ends with NUL; `bytes` is NULL or may be read for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_load_remote_conn_info(
    session: tcpx_session,
    peer: *const c_char,
    bytes: *const c_void,
    size: usize,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let peer = unsafe { peer_name(peer) }?;
        if bytes.is_null() {
            return Err(Failure::null("bytes"));
        }
        // SAFETY: passed on from the caller.
        let bytes =
            unsafe { input::array("bytes", bytes.cast::<u8>(), size, TCPX_MAX_CONN_INFO_BYTES) }?;
        Ok(session.get()?.load_remote_conn_info(peer, bytes)?)
    })
}

/// Forgets how to reach `peer`, and its error if the peer is over. An existing connection stays.
/// This call is for programs whose peers come and go. With `group` 1 `peer` may be any name of the
/// peer, which then has no name.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`; `TCPX_ERR_UNKNOWN_PEER` when
/// nothing was loaded under the name; `TCPX_ERR_CLOSED`. Any thread; does not block.
///
/// # Safety
/// `peer` is NULL or a text that ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_forget_remote_conn_info(
    session: tcpx_session,
    peer: *const c_char,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let peer = unsafe { peer_name(peer) }?;
        Ok(session.get()?.forget_remote_conn_info(peer)?)
    })
}

/// Connects to a peer whose connection info was loaded.
///
/// Afterwards both ends can send and receive. What is posted before the other end has called
/// `tcpx_session_accept` waits for its counterpart, as always.
///
/// Both ends may connect to each other, at the same time or one after the other, each under a name
/// of its own: they get one connection. A peer that has come in from the session of the connection
/// info, and that no accept has named, gets this name. A peer that comes in from that session
/// during the call completes the call, also when an accept of another name waits. A connect makes a
/// further connection of the same two sessions when the connections before have been named here.
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_PEER`,
/// `TCPX_ERR_PEER_STATE`, `TCPX_ERR_HANDSHAKE`, `TCPX_ERR_PEER_GONE`, `TCPX_ERR_PLUGIN`;
/// `TCPX_ERR_IO` when no address of the peer answers within half of `connect_timeout_ms` (3 s at
/// least, a minute at most), and the peer has not come in by itself: a session that listens waits
/// for that, for a tenth of `connect_timeout_ms`; `TCPX_ERR_TIMEOUT` after `connect_timeout_ms`;
/// `TCPX_ERR_CLOSED` as soon as another thread closes the session or disconnects the peer. Any
/// thread. Blocks for at most `connect_timeout_ms`.
///
/// # Safety
/// `peer` is NULL or a text that ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_connect(
    session: tcpx_session,
    peer: *const c_char,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let peer = unsafe { peer_name(peer) }?;
        Ok(session.get()?.connect(peer)?)
    })
}

/// Says goodbye to a peer.
///
/// Operations that have no counterpart are withdrawn and end with `TCPX_ERR_CLOSED`. Operations
/// that have one are finished. Then both ends close, in the order that loses nothing. The name is
/// free again afterwards, whatever the status.
///
/// Errors: `TCPX_ERR_NULL`, `TCPX_ERR_ARGUMENT`, `TCPX_ERR_HANDLE`, `TCPX_ERR_UNKNOWN_PEER`;
/// `TCPX_ERR_TIMEOUT` when the peer did not answer within `close_timeout_ms`: everything is closed
/// here all the same, and operations that were under way end with `TCPX_ERR_PEER_GONE`. Any
/// thread. Blocks for at most `close_timeout_ms`.
///
/// # Safety
/// `peer` is NULL or a text that ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_disconnect(
    session: tcpx_session,
    peer: *const c_char,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let peer = unsafe { peer_name(peer) }?;
        Ok(session.get()?.disconnect(peer)?)
    })
}

/// Makes one round of progress over every peer and transfer. While a short message is copied from
/// or to memory of a GPU, the call goes on for up to 20 us, or TCPX_SPIN_US if that is less.
///
/// `out_moved`, which may be NULL, gets whether anything moved. With `group` 1 a call in which
/// something moves may leave out all devices but one; the next call asks every one.
///
/// Errors: `TCPX_ERR_HANDLE`. Transfers report the failures of peers and operations. Any thread;
/// does not block beyond the round itself.
///
/// # Safety
/// `out_moved` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_session_progress(
    session: tcpx_session,
    out_moved: *mut bool,
) -> tcpx_status {
    boundary::call(|| {
        // SAFETY: passed on from the caller.
        let out = unsafe { Output::optional("out_moved", out_moved) }?;
        let moved = session.get()?.progress();
        if let Some(out) = out {
            out.write(moved);
        }
        Ok(())
    })
}
