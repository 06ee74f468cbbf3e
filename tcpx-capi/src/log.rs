#![allow(unsafe_code)]
//! Log lines for C programs: the callback that takes them, and the levels that reach it.

use std::ffi::c_void;

use crate::failure::Failure;
use crate::log_sink::{TCPX_LOG_OFF, TCPX_LOG_TRACE, tcpx_log_callback};
use crate::status::tcpx_status;
use crate::{boundary, log_sink};

/// Sends the library's log lines up to `max_level` to `callback`, for the whole process.
///
/// The callback takes the place of an earlier one; NULL turns the lines off. Until this is called
/// there are no lines, because the library itself never prints. When it returns, the earlier
/// callback is not running and will not be called again. Any thread, but not from inside the
/// callback.
///
/// Errors: `TCPX_ERR_ARGUMENT` when `max_level` is not a level; `TCPX_ERR_UNAVAILABLE` when the
/// program is written in Rust and has a `tracing` subscriber of its own.
///
/// # Safety
/// `callback` is NULL or a function of this type that may be called from any thread, with
/// `context`, until it is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tcpx_set_log_callback(
    callback: tcpx_log_callback,
    context: *mut c_void,
    max_level: i32,
) -> tcpx_status {
    boundary::call(|| {
        if !(TCPX_LOG_OFF..=TCPX_LOG_TRACE).contains(&max_level) {
            return Err(Failure::argument(format!("max_level is {max_level}; 0 to 5 are levels")));
        }
        // SAFETY: passed on from the caller.
        unsafe { log_sink::replace(callback, context, max_level) }
    })
}

/// Drops the plugin's log lines above `level` before they are formatted, for the whole process.
///
/// This call serves a callback that takes everything else. Until it is called the level is
/// `TCPX_LOG_DEBUG`. Lines of the plugin arrive as `TCPX_LOG_WARN`, `TCPX_LOG_DEBUG` or
/// `TCPX_LOG_TRACE`, with the target `tcpx::plugin`, and only up to the `max_level` of
/// `tcpx_set_log_callback`. Any thread; does not block.
///
/// Errors: `TCPX_ERR_ARGUMENT` when `level` is not a level.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_set_plugin_log_level(level: i32) -> tcpx_status {
    boundary::call(|| {
        if !(TCPX_LOG_OFF..=TCPX_LOG_TRACE).contains(&level) {
            return Err(Failure::argument(format!("level is {level}; 0 to 5 are levels")));
        }
        tcpx_core::set_plugin_log_level(log_sink::filter(level));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::{CStr, c_char};
    use std::sync::Mutex;

    use super::*;
    use crate::log_sink::{TCPX_LOG_DEBUG, TCPX_LOG_INFO};
    use crate::status::tcpx_status::{TCPX_ERR_ARGUMENT, TCPX_ERR_IN_CALLBACK, TCPX_OK};

    static LINES: Mutex<Vec<(i32, String)>> = Mutex::new(Vec::new());

    unsafe extern "C" fn store_line(
        context: *mut c_void,
        level: i32,
        target: *const c_char,
        line: *const c_char,
    ) {
        assert_eq!(context.addr(), 7);
        assert_eq!(boundary::call(|| Ok(())), TCPX_ERR_IN_CALLBACK);
        tracing::error!(target: "sample", "a line from inside the callback");
        // SAFETY: the library passes C strings.
        let (target, line) = unsafe { (CStr::from_ptr(target), CStr::from_ptr(line)) };
        if target == c"sample" {
            LINES.lock().unwrap().push((level, line.to_string_lossy().into_owned()));
        }
    }

    fn set(callback: tcpx_log_callback, max_level: i32) -> tcpx_status {
        // SAFETY: the callback takes any context.
        unsafe { tcpx_set_log_callback(callback, std::ptr::without_provenance_mut(7), max_level) }
    }

    #[test]
    fn lines_up_to_the_level_arrive_with_their_fields() {
        assert_eq!(set(Some(store_line), 6), TCPX_ERR_ARGUMENT);
        assert_eq!(set(Some(store_line), TCPX_LOG_INFO), TCPX_OK);
        let log_lines = || {
            tracing::info!(target: "sample", peer = "a", bytes = 3, "arrived");
            tracing::debug!(target: "sample", "too low");
            tracing::info!(target: "sample", peer = "b\n\0\u{1b}[2J", "left");
        };
        log_lines();
        assert_eq!(set(Some(store_line), TCPX_LOG_DEBUG), TCPX_OK);
        log_lines();
        assert_eq!(set(None, TCPX_LOG_TRACE), TCPX_OK);
        log_lines();
        let lines = LINES.lock().unwrap();
        let arrived = (3, "arrived peer=a bytes=3");
        let left = (3, "left peer=b\\n\\u{0}\\u{1b}[2J");
        let expected = [arrived, left, arrived, (4, "too low"), left];
        assert_eq!(*lines, expected.map(|(level, line)| (level, line.to_owned())));
    }
}
