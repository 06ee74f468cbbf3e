#![allow(unsafe_code)]
//! What SIGPIPE does to this process.

use std::mem::MaybeUninit;
use std::ptr::{from_ref, null};

/// Has SIGPIPE ignored if nobody has said what it shall do. Its default is the end of the process,
/// and it comes when a peer ends while bytes are written to it. What a program has chosen, a
/// handler or to ignore it, stays.
pub(crate) fn ignore_if_default() {
    let is_default = |action: libc::sigaction| action.sa_sigaction == libc::SIG_DFL;
    if !exchange(None).is_some_and(is_default) {
        return;
    }
    // SAFETY: plain numbers, an empty set of signals, and no function, for which zero bytes are
    // values.
    let mut ignore: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    ignore.sa_sigaction = libc::SIG_IGN;
    match exchange(Some(&ignore)) {
        Some(before) if is_default(before) => tracing::info!(
            "SIGPIPE is ignored from now on, because the hardware plugin would let it end the \
             process; TCPX_KEEP_SIGPIPE=1 keeps the default"
        ),
        // Another thread has set it in between.
        Some(before) => drop(exchange(Some(&before))),
        None => {}
    }
}

/// Sets what SIGPIPE does, if there is something to set, and returns what it did before.
fn exchange(action: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: the signal's action is NULL, or one that ignores it, or one that was in force; the
    // output is a live variable.
    let status = unsafe {
        libc::sigaction(libc::SIGPIPE, action.map_or(null(), from_ref), before.as_mut_ptr())
    };
    // SAFETY: the call has succeeded and written it.
    (status == 0).then(|| unsafe { before.assume_init() })
}
