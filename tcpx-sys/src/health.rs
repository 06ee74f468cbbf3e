//! Addition to the table that only plugins of this project have: the symbol `tcpxCommHealth_v1`. It
//! reports whether a comm's connections are alive.
//!
//! The v7 table has no such function. `test` answers for a request, so a comm without a posted
//! request can be dead for hours. Other plugins lack the symbol, and NCCL does not look for it.

use core::ffi::{c_uint, c_void};
use core::mem::{align_of, offset_of, size_of};

use crate::addition::addition;
use crate::types::{NcclResult, assert_layout};

/// Name of the data symbol that is the struct.
pub const HEALTH_SYMBOL: &str = "tcpxCommHealth_v1";

/// `setPeerTimeout(comm, milliseconds)`. Sets the time after which a connection of this send or
/// receive comm is dead because the peer's host has acknowledged nothing; 0: never.
pub type SetPeerTimeoutFn =
    unsafe extern "C" fn(comm: *mut c_void, milliseconds: c_uint) -> NcclResult;
/// `checkComm(comm)`. Checks the connections of a send or receive comm, without waiting: 0 when
/// they are alive, 2 when one is dead. Intended for about one call a second. Calls on a comm take
/// turns, as those of the table do.
pub type CheckCommFn = unsafe extern "C" fn(comm: *mut c_void) -> NcclResult;

addition! {
    /// The 16 bytes that the symbol `tcpxCommHealth_v1` *is*.
    struct CommHealthV1;
    /// Functions of the addition, each known to be set.
    entries HealthEntries;
    { set_peer_timeout: SetPeerTimeoutFn, check_comm: CheckCommFn }
}

assert_layout!(CommHealthV1, size 16, align 8, { set_peer_timeout 0, check_comm 8 });
