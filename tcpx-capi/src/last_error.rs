#![allow(unsafe_code)]
//! Details of the last failure of each thread.

use std::cell::{OnceCell, RefCell};
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tcpx_core::is_forked;

/// Texts of every failure in a forked child. They are constant, so that a child needs no memory.
/// Nor does it need a thread-local with a destructor, which the C library registers under a lock.
const FORKED: (&CStr, &CStr) = (
    c"this process was forked from one that had made a session, and must not use the library; fork \
      before the first session, or start the child with exec [TCPX-827]",
    c"TCPX-827",
);
use crate::failure::FailureText;
use crate::panic_hook::CallGuard;

/// Last failure, and those of its texts that the program has asked for.
#[derive(Default)]
struct LastError {
    failure: Option<FailureText>,
    text: OnceCell<CString>,
    /// `TCPX-902`, or nothing.
    id: OnceCell<CString>,
}

impl LastError {
    fn text(&self) -> &CStr {
        self.text.get_or_init(|| {
            let mut text = self.failure.as_ref().map(FailureText::to_text).unwrap_or_default();
            text.retain(|character| character != '\0');
            CString::new(text).unwrap_or_default()
        })
    }

    fn id(&self) -> &CStr {
        self.id.get_or_init(|| {
            let id = self.failure.as_ref().and_then(FailureText::id);
            CString::new(id.map(|id| id.to_string()).unwrap_or_default()).unwrap_or_default()
        })
    }
}

thread_local! {
    static LAST_ERROR: RefCell<LastError> = RefCell::default();
}

/// Stores the details of this thread's last failure.
///
/// In a thread that is ending no code is left to read them, so they may be lost.
pub(crate) fn set(failure: FailureText) {
    let _ = LAST_ERROR.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = LastError { failure: Some(failure), ..LastError::default() };
        }
    });
}

fn read_last(of: impl FnOnce(&LastError) -> &CStr) -> *const c_char {
    let read = || {
        let _guard = CallGuard::enter();
        LAST_ERROR
            .try_with(|last| last.try_borrow().map_or(c"".as_ptr(), |last| of(&last).as_ptr()))
    };
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(text) => text.unwrap_or(c"".as_ptr()),
        Err(payload) => {
            // Dropping an unknown payload could panic again.
            std::mem::forget(payload);
            c"".as_ptr()
        }
    }
}

/// Returns the details of the last failure in the calling thread: what failed, with which peer,
/// channel and numbers. If the failure has a diagnosis, the text ends with its id in brackets, such
/// as `[TCPX-902]`.
///
/// The pointer is never NULL. The text is UTF-8, and empty when nothing has failed in this thread.
/// It stays valid until the next call of this library fails in the same thread, or the thread ends;
/// successful calls leave it alone. In a forked child it is that of `TCPX_ERR_FORKED`. Any thread;
/// only the calling thread may read the text.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_last_error() -> *const c_char {
    if is_forked() { FORKED.0.as_ptr() } else { read_last(LastError::text) }
}

/// Returns the id of the last failure's diagnosis in the calling thread, such as `TCPX-902`. The
/// command `tcpx explain TCPX-902` prints the cause and the cure.
///
/// The pointer is never NULL. The text is empty when nothing has failed in this thread, or when the
/// failure has no diagnosis, as with a mistake of the calling program. It is valid as long as the
/// text of `tcpx_last_error`. Any thread; only the calling thread may read the text.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_last_error_id() -> *const c_char {
    if is_forked() { FORKED.1.as_ptr() } else { read_last(LastError::id) }
}

/// Returns the text of this thread, for tests.
#[cfg(test)]
pub(crate) fn text() -> String {
    // SAFETY: the text of this thread, which does not fail meanwhile.
    unsafe { CStr::from_ptr(tcpx_last_error()) }.to_str().unwrap().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> String {
        // SAFETY: as for the text.
        unsafe { CStr::from_ptr(tcpx_last_error_id()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn the_texts_of_a_forked_child_are_those_of_the_error() {
        let error = tcpx_core::Error::Forked;
        assert_eq!(FORKED.0.to_str(), Ok(error.to_string().as_str()));
        assert_eq!(FORKED.1.to_str().ok().map(str::to_owned), error.id().map(|id| id.to_string()));
    }

    #[test]
    fn each_thread_has_its_own_text_and_nul_is_left_out() {
        let info = tcpx_core::ConnInfoError::Magic;
        set(FailureText::Error(Box::new(info.into())));
        assert_eq!(id(), "TCPX-728");
        assert!(text().ends_with("[TCPX-728]"), "{}", text());
        set(FailureText::Text("one\0two".into()));
        assert_eq!((text(), id()), ("onetwo".into(), String::new()), "the id goes with its text");
        std::thread::spawn(|| assert_eq!((text(), id()), Default::default())).join().unwrap();
        assert_eq!(text(), "onetwo");
    }

    #[test]
    fn a_text_stays_where_it_is_until_the_next_failure() {
        set(FailureText::Text("one".into()));
        let (first, again) = (tcpx_last_error(), tcpx_last_error());
        assert_eq!(first, again);
        let _ = tcpx_last_error_id();
        assert_eq!(tcpx_last_error(), first);
    }
}
