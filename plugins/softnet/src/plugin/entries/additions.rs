//! Entries of the additions to the table.

use std::ffi::c_void;
use std::time::Duration;

use tcpx_seal::secret::SharedSecret;
use tcpx_sys::CommDescriptor;

use super::{Comm, with_comm, wrong_kind};
use crate::comm::NeedsCall;
use crate::failure::Failure;
use crate::log;

/// `limit`: how long the peer's host may be silent; `None`: for ever.
pub(crate) fn set_peer_timeout(comm: *mut c_void, limit: Option<Duration>) -> Result<(), Failure> {
    with_comm("setPeerTimeout", comm, |comm| {
        match comm {
            Comm::Send(send) => send.set_peer_timeout(limit),
            Comm::Recv(recv) => recv.set_peer_timeout(limit),
            Comm::Listen(_) => return wrong_kind("setPeerTimeout", "send or receive"),
        }
        Ok(())
    })
}

/// Checks whether the comm's sockets are alive.
pub(crate) fn check_comm(comm: *mut c_void) -> Result<(), Failure> {
    with_comm("checkComm", comm, |comm| match comm {
        Comm::Send(send) => send.check(),
        Comm::Recv(recv) => recv.check(),
        Comm::Listen(_) => wrong_kind("checkComm", "send or receive"),
    })
}

/// Returns the descriptors to watch for edges on a comm.
pub(crate) fn descriptors(comm: *mut c_void) -> Result<Vec<CommDescriptor>, Failure> {
    with_comm("descriptors", comm, |comm| {
        let all = match comm {
            Comm::Send(send) => send.descriptors(),
            Comm::Recv(recv) => recv.descriptors(),
            Comm::Listen(_) => return wrong_kind("descriptors", "send or receive"),
        };
        all.map_err(|error| {
            log::warn!("descriptors: cannot make an event: {error}");
            Failure::System
        })
    })
}

/// Returns whether a further test may make progress although no descriptor becomes ready.
pub(crate) fn needs_call(comm: *mut c_void) -> Result<NeedsCall, Failure> {
    with_comm("needsCall", comm, |comm| match comm {
        Comm::Send(send) => Ok(send.needs_call()),
        Comm::Recv(recv) => Ok(recv.needs_call()),
        Comm::Listen(_) => wrong_kind("needsCall", "send or receive"),
    })
}

/// Has all encrypted that the comm's peer sends and receives.
pub(crate) fn encrypt_listen(comm: *mut c_void, secret: SharedSecret) -> Result<(), Failure> {
    with_comm("encryptListen", comm, |comm| match comm {
        Comm::Listen(listener) => {
            if listener.comm.encrypt(secret) {
                return Ok(());
            }
            log::warn!("encryptListen: accept was called before, or a NIC places the bytes");
            Err(Failure::Internal)
        }
        Comm::Send(_) | Comm::Recv(_) => wrong_kind("encryptListen", "listen"),
    })
}
