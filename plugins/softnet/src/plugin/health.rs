#![allow(unsafe_code)]
//! The addition to the table, which says whether a comm's sockets are alive.

use std::ffi::{c_uint, c_void};
use std::time::Duration;

use tcpx_sys::{CommHealthV1, NcclResult};

use super::arguments::guard;
use super::entries::additions;
use crate::entry::Entry;

/// What the software plugin offers beside its [`table`](crate::table): whether the sockets of a
/// comm are alive, though nothing is posted on it.
///
/// `checkComm` returns 2, with a WARN line at the first time, for a comm that is dead; the comm's
/// requests then fail with 2 as well. Both functions return 3 for what is no send or receive comm,
/// and for one that another thread is using.
#[must_use]
pub const fn comm_health() -> CommHealthV1 {
    CommHealthV1 { set_peer_timeout: Some(set_peer_timeout), check_comm: Some(check_comm) }
}

unsafe extern "C" fn set_peer_timeout(comm: *mut c_void, milliseconds: c_uint) -> NcclResult {
    let limit = (milliseconds != 0).then(|| Duration::from_millis(milliseconds.into()));
    guard(Entry::SetPeerTimeout, || additions::set_peer_timeout(comm, limit))
}

unsafe extern "C" fn check_comm(comm: *mut c_void) -> NcclResult {
    guard(Entry::CheckComm, || additions::check_comm(comm))
}
