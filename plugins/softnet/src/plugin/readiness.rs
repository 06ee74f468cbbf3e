#![allow(unsafe_code)]
//! The addition to the table that says for what to wait on a comm.

use std::ffi::{c_int, c_void};

use tcpx_sys::{CommDescriptor, CommPollV1, NcclResult};

use super::arguments::{guard, not_null, put};
use super::entries::additions;
use crate::entry::Entry;

/// Addition to the [`table`](crate::table) for callers that do not want to call `test` in a loop:
/// the descriptors of a comm, and whether to wait for them.
///
/// Both functions return 3 for what is no send or receive comm, and for one that another thread is
/// using. `descriptors` returns 2 when no event can be made for the helper threads.
#[must_use]
pub const fn comm_poll() -> CommPollV1 {
    CommPollV1 { descriptors: Some(descriptors), needs_call: Some(needs_call) }
}

unsafe extern "C" fn descriptors(
    comm: *mut c_void,
    out: *mut CommDescriptor,
    capacity: c_int,
    count: *mut c_int,
) -> NcclResult {
    guard(Entry::Descriptors, || {
        not_null("descriptors", "count", count)?;
        let capacity = usize::try_from(capacity).unwrap_or(0);
        if capacity > 0 {
            not_null("descriptors", "out", out)?;
        }
        let all = additions::descriptors(comm)?;
        for (index, descriptor) in all.iter().take(capacity).enumerate() {
            // SAFETY: not NULL; the ABI asks for an array of `capacity` elements.
            unsafe { put(out.add(index), *descriptor) };
        }
        // SAFETY: not NULL; the ABI asks for a valid `int*`. There are ten at most.
        unsafe { put(count, all.len() as c_int) };
        Ok(())
    })
}

unsafe extern "C" fn needs_call(comm: *mut c_void, answer: *mut c_int) -> NcclResult {
    guard(Entry::NeedsCall, || {
        not_null("needsCall", "answer", answer)?;
        let needs_call = additions::needs_call(comm)?;
        // SAFETY: not NULL; the ABI asks for a valid `int*`.
        unsafe { put(answer, needs_call as c_int) };
        Ok(())
    })
}
