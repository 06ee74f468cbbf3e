#![allow(unsafe_code)]
//! Entries of the data path: passed on, with their one rule broken.
//!
//! All of them trust their caller as the software plugin does, which checks what can be checked.

use std::ffi::{c_int, c_void};
use std::ptr;

use tcpx_sys::{MAX_REQUESTS, NcclResult, PTR_HOST};

use crate::damage;
use crate::inner::inner;
use crate::ledger::{Request, ledger};
use crate::mode::{Mode, breaks};

/// Receives of a comm after which no page goes back in [`Mode::RecycleNever`].
const RECYCLED_RECEIVES: u64 = 100;
/// Calls of `test` that [`Mode::Progress`] makes behind the caller's back.
const HIDDEN_TESTS: usize = 8;

/// What a caller gets that ran out of requests.
///
/// # Safety
/// `request` is an output of the caller's.
unsafe fn refused(result: NcclResult, request: *mut *mut c_void) -> NcclResult {
    if result != NcclResult::INTERNAL_ERROR || request.is_null() {
        return result;
    }
    if breaks(Mode::RequestTouched) {
        // SAFETY: not NULL, and the caller's promise.
        unsafe { request.write(ptr::null_mut()) };
    }
    if breaks(Mode::Limit) {
        // SAFETY: as above.
        unsafe { request.write(ptr::without_provenance_mut(0x1000)) };
        return NcclResult::SUCCESS;
    }
    result
}

pub(crate) unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    bytes: c_int,
    tag: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    if breaks(Mode::UnalignedSend) && !data.addr().is_multiple_of(16) {
        return NcclResult::INTERNAL_ERROR;
    }
    // SAFETY: the caller's arguments, passed on.
    let result = unsafe { inner!(isend(comm, data, bytes, tag, mhandle, request)) };
    if !result.is_success() {
        // SAFETY: the caller's output.
        return unsafe { refused(result, request) };
    }
    // SAFETY: the software plugin succeeded, so it wrote here.
    let posted = unsafe { request.read() };
    ledger().send(posted.addr(), comm.addr(), bytes);
    if breaks(Mode::Progress) {
        for _ in 0..HIDDEN_TESTS {
            let mut done = 0;
            // SAFETY: a request that was just handed out, and a live local; sizes may be NULL.
            let tested = unsafe { inner!(test(posted, &raw mut done, ptr::null_mut())) };
            if tested.is_success() && done == 1 {
                // Kept for the caller's own test.
                if let Some(request) = ledger().requests.get_mut(&posted.addr()) {
                    request.done = true;
                }
                break;
            }
        }
    }
    result
}

pub(crate) unsafe extern "C" fn irecv(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    while breaks(Mode::Hang) {
        std::thread::park();
    }
    if tags.is_null() && breaks(Mode::Tags) {
        return NcclResult::INTERNAL_ERROR;
    }
    let insists = breaks(Mode::WildData)
        // SAFETY: the caller's array, which has `n` members.
        && n == 1 && unsafe { data.read() }.is_null();
    if insists || (breaks(Mode::SharedLimit) && ledger().outstanding() >= MAX_REQUESTS as u64) {
        return NcclResult::INTERNAL_ERROR;
    }
    let n = if n == 2 && breaks(Mode::Group) { 1 } else { n };
    // SAFETY: the caller's arguments, passed on.
    let result = unsafe { inner!(irecv(comm, n, data, sizes, tags, mhandles, request)) };
    if !result.is_success() {
        // SAFETY: the caller's output.
        return unsafe { refused(result, request) };
    }
    // SAFETY: the software plugin succeeded, so it read one member of each array and wrote the
    // request.
    let (bytes, place, mhandle, posted) =
        unsafe { (sizes.read(), data.read(), mhandles.read(), request.read()) };
    let mut ledger = ledger();
    let host = ledger.types.get(&mhandle.addr()) == Some(&PTR_HOST);
    let host_end = host.then(|| place.expose_provenance().wrapping_add(bytes as usize));
    if let Some(recv_comm) = ledger.receive(posted.addr(), comm.addr(), bytes, host_end) {
        // SAFETY: the comm just took a receive, so it is open.
        unsafe { damage::on_posted(&recv_comm, (recv_comm.posted - 1) as usize) };
    }
    result
}

pub(crate) unsafe extern "C" fn iflush(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the caller's arguments, passed on.
    let result = unsafe { inner!(iflush(comm, n, data, sizes, mhandles, request)) };
    if breaks(Mode::PostedSize) && result.is_success() {
        // SAFETY: the software plugin succeeded, so it read the request and wrote the size.
        let existing = unsafe { request.read() };
        if let Some(posted) = ledger().requests.get(&existing.addr()) {
            // SAFETY: as above.
            unsafe { sizes.write(posted.bytes) };
        }
    }
    result
}

pub(crate) unsafe extern "C" fn test(
    request: *mut c_void,
    done: *mut c_int,
    sizes: *mut c_int,
) -> NcclResult {
    if breaks(Mode::Abort) && !request.is_null() {
        std::process::abort();
    }
    let known = ledger().requests.get(&request.addr()).copied();
    // SAFETY: the caller's arguments, passed on.
    let result = unsafe { inner!(test(request, done, sizes)) };
    if request.is_null() && breaks(Mode::TestNull) {
        return NcclResult::SUCCESS;
    }
    if done.is_null() {
        return result;
    }
    if result == NcclResult::SYSTEM_ERROR && breaks(Mode::PeerAbort) {
        std::process::abort();
    }
    if breaks(Mode::Sizes) && !sizes.is_null() {
        // SAFETY: not NULL, and an output of the caller's.
        unsafe { sizes.write(0) };
    }
    let Some(known) = known else { return result };
    // SAFETY: not NULL, and an output of the caller's, written by the software plugin.
    if result.is_success() && unsafe { done.read() } == 1 {
        finish(request);
        return result;
    }
    if known.done && result == NcclResult::INTERNAL_ERROR && breaks(Mode::QuietRetest) {
        return NcclResult::SUCCESS;
    }
    let again = known.done && (breaks(Mode::DoneTwice) || breaks(Mode::Progress));
    let early = !known.done && result == NcclResult::INTERNAL_ERROR && breaks(Mode::Fifo);
    let dead = result == NcclResult::SYSTEM_ERROR && breaks(Mode::PeerDone);
    if again || early || dead {
        // SAFETY: as above.
        unsafe { done.write(1) };
        return NcclResult::SUCCESS;
    }
    result
}

/// Notes that a request is done, and does the damage that the mode has for a receive.
fn finish(request: *mut c_void) {
    let mut ledger = ledger();
    let Some(entry) = ledger.requests.get_mut(&request.addr()) else { return };
    entry.done = true;
    entry.consumed = entry.slot.is_some() && breaks(Mode::RecycleEarly);
    let finished: Request = *entry;
    let Some(recv_comm) = ledger.comms.get(&finished.comm).copied() else { return };
    // SAFETY: the comm's own request was just done, so it is open, and requests are done in order.
    unsafe { damage::on_done(&recv_comm, &finished) };
    if finished.consumed {
        let comm = ptr::with_exposed_provenance_mut(finished.comm);
        // SAFETY: the comm and its oldest finished receive.
        let _ = unsafe { inner!(irecv_consumed(comm, 1, request)) };
    }
}

pub(crate) unsafe extern "C" fn irecv_consumed(
    comm: *mut c_void,
    n: c_int,
    request: *mut c_void,
) -> NcclResult {
    let mut ledger = ledger();
    if let Some(entry) = ledger.requests.get_mut(&request.addr())
        && std::mem::take(&mut entry.consumed)
    {
        return NcclResult::SUCCESS;
    }
    if let Some(recv_comm) = ledger.comms.get_mut(&comm.addr()) {
        recv_comm.consumed += 1;
        if breaks(Mode::RecycleNever) && recv_comm.consumed > RECYCLED_RECEIVES {
            return NcclResult::SUCCESS;
        }
    }
    let is_send = ledger.requests.get(&request.addr()).is_some_and(|known| known.slot.is_none());
    drop(ledger);
    if is_send && breaks(Mode::ConsumeSend) {
        return NcclResult::SUCCESS;
    }
    // SAFETY: the caller's arguments, passed on.
    let result = unsafe { inner!(irecv_consumed(comm, n, request)) };
    if breaks(Mode::ConsumeEarly) { NcclResult::SUCCESS } else { result }
}
