//! Frame of every exported function: runs the body, lets no panic out, and turns the outcome into a
//! status.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tcpx_core::ForkGuard;

use crate::failure::{Failure, FailureText};
use crate::panic_hook::{CallGuard, take_panic};
use crate::status::tcpx_status::{
    self, TCPX_ERR_FORKED, TCPX_ERR_IN_CALLBACK, TCPX_ERR_INTERNAL, TCPX_OK,
};
use crate::{last_error, log_sink};

/// Runs the body of an exported function.
pub(crate) fn call(body: impl FnOnce() -> Result<(), Failure>) -> tcpx_status {
    // Before everything else: in a forked child a lock may be held by a thread that does not exist
    // there. `tcpx_last_error` has its own text for this case.
    let Ok(_fork_guard) = ForkGuard::begin() else { return TCPX_ERR_FORKED };
    if log_sink::is_in_callback() {
        // No detail: `tcpx_last_error` belongs to the call whose log line is being delivered.
        return TCPX_ERR_IN_CALLBACK;
    }
    // After a panic the state behind the library's locks is as the call left it. tcpx-core and the
    // registry recover their locks, and every later step checks the state that it finds.
    match catch_unwind(AssertUnwindSafe(|| {
        let _guard = CallGuard::enter();
        body()
    })) {
        Ok(Ok(())) => TCPX_OK,
        Ok(Err(failure)) => {
            last_error::set(failure.text);
            failure.status
        }
        Err(payload) => {
            // Dropping an unknown payload could panic again.
            std::mem::forget(payload);
            let text = format!("fault in the library: {}", take_panic());
            last_error::set(FailureText::Text(text));
            TCPX_ERR_INTERNAL
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::last_error::text;

    #[test]
    fn panics_become_a_status_with_their_location() {
        assert_eq!(call(|| panic!("a test panics")), TCPX_ERR_INTERNAL);
        assert!(text().contains("a test panics"), "{}", text());
        assert!(text().contains("boundary.rs"), "{}", text());
    }

    #[test]
    fn failures_keep_their_text_and_success_leaves_it_alone() {
        assert_eq!(call(|| Err(Failure::null("peer"))), tcpx_status::TCPX_ERR_NULL);
        assert_eq!(call(|| Ok(())), TCPX_OK);
        assert_eq!(text(), "peer is NULL");
    }
}
