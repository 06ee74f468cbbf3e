#![allow(unsafe_code)]
//! The words for the last failure of each thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Remembers a text for this thread. In a thread that is ending there is nobody left to read it.
pub(crate) fn remember(mut text: String) {
    text.retain(|character| character != '\0');
    if let Ok(text) = CString::new(text) {
        let _ = LAST.try_with(|last| {
            if let Ok(mut last) = last.try_borrow_mut() {
                *last = text;
            }
        });
    }
}

/// The details of the last failure in the calling thread: what failed, with which peer, channel and numbers.
///
/// Never NULL; empty when nothing has failed in this thread. The text is UTF-8. It stays valid until the next call of
/// this library fails in the same thread, or the thread ends; successful calls leave it alone. Any thread; not for
/// another thread's eyes.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_last_error() -> *const c_char {
    LAST.try_with(|last| last.try_borrow().map_or(c"".as_ptr(), |last| last.as_ptr()))
        .unwrap_or(c"".as_ptr())
}

/// The text of this thread, for tests.
#[cfg(test)]
pub(crate) fn text() -> String {
    // SAFETY: the text of this thread, which does not fail meanwhile.
    unsafe { std::ffi::CStr::from_ptr(tcpx_last_error()) }.to_str().unwrap().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_text_and_nul_is_left_out() {
        remember("one\0two".into());
        assert_eq!(text(), "onetwo");
        std::thread::spawn(|| assert_eq!(text(), "")).join().unwrap();
        assert_eq!(text(), "onetwo");
    }
}
