#![allow(unsafe_code)]
//! Common parts of the `extern "C"` functions: the panic boundary, and callers' pointers and
//! lengths.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tcpx_sys::{ForkGuard, NcclResult};

use super::misuse::misuse;
use crate::entry::Entry;
use crate::failure::Failure;
use crate::hooks::hooks;
use crate::last_failure::clear_last_failure;
use crate::log;

/// Runs an entry's body; a panic in it becomes an internal error instead of unwinding into C.
///
/// In a forked child nothing runs, and nothing is logged: any lock, the logger's too, may be held
/// by a thread that is not there. A comm that is closed there is the parent's and stays open. The
/// close returns success, which is all that a caller needs that cleans up.
pub(super) fn guard(entry: Entry, body: impl FnOnce() -> Result<(), Failure>) -> NcclResult {
    let Ok(_guard) = ForkGuard::begin() else {
        return match entry {
            Entry::CloseTransfer | Entry::CloseListen => NcclResult::SUCCESS,
            _ => NcclResult::INTERNAL_ERROR,
        };
    };
    clear_last_failure();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => NcclResult::SUCCESS,
        Ok(Err(failure)) => failure.into(),
        Err(_) => {
            // The logger itself may be what panicked.
            let _ = catch_unwind(|| log::warn!("{}: panic inside the plugin", entry.name()));
            NcclResult::INTERNAL_ERROR
        }
    }
}

/// Refuses a NULL pointer by name.
pub(super) fn not_null<T>(entry: &str, what: &str, pointer: *const T) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(misuse(format_args!("{entry}: {what} is NULL")));
    }
    Ok(())
}

/// Refuses a length that is negative, or more than an `int` holds. `None`: a hook takes it.
pub(super) fn length(entry: &str, bytes: i64) -> Result<Option<usize>, Failure> {
    let fits = i32::try_from(bytes).ok().and_then(|bytes| usize::try_from(bytes).ok());
    if fits.is_none() && !accepts_unchecked() {
        log::warn!("{entry}: size {bytes} is negative, or 2 GiB and more");
        return Err(Failure::Internal);
    }
    Ok(fits)
}

/// Returns whether requests are taken that can only be posted in vain.
pub(super) fn accepts_unchecked() -> bool {
    hooks().get().is_some_and(|hooks| hooks.accepts_unchecked())
}

/// A length of the tables after v7.
pub(super) fn wide(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Refuses grouped receives.
pub(super) fn single(entry: &str, n: c_int) -> Result<(), Failure> {
    if n != 1 {
        log::warn!("{entry}: n is {n}; receives cannot be grouped");
        return Err(Failure::Internal);
    }
    Ok(())
}

/// Writes an output of the caller's.
///
/// # Safety
/// `place` is not NULL and points to memory for a `T`, aligned or not.
pub(super) unsafe fn put<T>(place: *mut T, value: T) {
    // SAFETY: the caller's promise.
    unsafe { place.write_unaligned(value) };
}

/// Reads an input of the caller's.
///
/// # Safety
/// `place` is not NULL and points to a `T`, aligned or not.
pub(super) unsafe fn get<T: Copy>(place: *const T) -> T {
    // SAFETY: the caller's promise.
    unsafe { place.read_unaligned() }
}
