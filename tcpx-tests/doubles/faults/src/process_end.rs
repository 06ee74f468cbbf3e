#![allow(unsafe_code)]
//! Ways in which the original harms its process.

use std::fmt;

use tcpx_sys::MAX_UNPACK_ENTRIES;

use crate::log;

/// Ends the process as the original does for too many fragments.
#[allow(clippy::exit, reason = "it is what a consumer must be kept from")]
pub(crate) fn failstop(fragments: usize) -> ! {
    log::warn!("received {fragments}/{MAX_UNPACK_ENTRIES} segs, failstop");
    std::process::exit(1);
}

/// Aborts the process for a call that the original would not survive.
pub(crate) fn crash(rule: fmt::Arguments<'_>) -> ! {
    log::warn!("the original would crash here: {rule}");
    std::process::abort();
}

/// Closes descriptor 0, whatever it is.
pub(crate) fn close_descriptor_zero() {
    log::warn!("the original closes file descriptor 0 here");
    // SAFETY: touches no memory. The owner of the descriptor loses it, as it does over the
    // original.
    unsafe { libc::close(0) };
}
