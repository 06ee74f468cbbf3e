#![allow(unsafe_code)]
//! Log callback of a plugin. Lines are filtered by level, formatted in C, and end in `tracing`
//! under the target `tcpx::plugin`.

use core::ffi::{CStr, c_char, c_int, c_ulong};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::printable::printable;
use crate::table::Logger;
use crate::types::{LogLevel, subsystem};

/// Highest level that passes: everything up to INFO. The plugin itself filters nothing.
static MAX_LEVEL: AtomicI32 = AtomicI32::new(LogLevel::INFO.0);

unsafe extern "C" {
    fn tcpx_sys_log_install(
        enabled: extern "C" fn(c_int) -> c_int,
        line: unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char),
    );
    fn tcpx_sys_log_callback(
        level: c_int,
        flags: c_ulong,
        function: *const c_char,
        line: c_int,
        format: *const c_char,
        ...
    );
}

/// Returns the function to hand to `init`. It is thread-safe; the plugin calls it from its own
/// threads.
#[must_use]
pub fn log_callback() -> Logger {
    static INSTALL: Once = Once::new();
    // The C half gets its two callbacks as pointers, so that no symbol of this crate is exported
    // from a cdylib. SAFETY: both functions have the declared types and live for ever; `Once` keeps
    // the two stores to one thread.
    INSTALL.call_once(|| unsafe { tcpx_sys_log_install(log_enabled, log_line) });
    tcpx_sys_log_callback
}

/// Drops plugin lines above `level` before they are formatted. ABORT counts as WARN, VERSION as
/// INFO.
pub fn set_max_log_level(level: LogLevel) {
    MAX_LEVEL.store(level.0, Ordering::Relaxed);
}

/// Returns the severity on one scale: the plugin's numbers are not in order of importance.
fn severity(level: LogLevel) -> tracing::Level {
    match level {
        LogLevel::WARN | LogLevel::ABORT => tracing::Level::WARN,
        LogLevel::VERSION | LogLevel::INFO => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    }
}

fn passes(level: LogLevel, max: LogLevel) -> bool {
    let rank = |level| match level {
        LogLevel::NONE => 0,
        LogLevel::WARN | LogLevel::ABORT => 1,
        LogLevel::VERSION | LogLevel::INFO => 2,
        _ => 3,
    };
    rank(level) <= rank(max)
}

extern "C" fn log_enabled(level: c_int) -> c_int {
    let level = LogLevel(level);
    let wanted = catch_unwind(|| {
        passes(level, LogLevel(MAX_LEVEL.load(Ordering::Relaxed)))
            && match severity(level) {
                tracing::Level::WARN => {
                    tracing::enabled!(target: "tcpx::plugin", tracing::Level::WARN)
                }
                tracing::Level::DEBUG => {
                    tracing::enabled!(target: "tcpx::plugin", tracing::Level::DEBUG)
                }
                _ => tracing::enabled!(target: "tcpx::plugin", tracing::Level::TRACE),
            }
    });
    c_int::from(wanted.unwrap_or(false))
}

/// # Safety
/// `function` is NULL or NUL-terminated; `text` is NUL-terminated.
unsafe extern "C" fn log_line(
    level: c_int,
    flags: c_ulong,
    function: *const c_char,
    line: c_int,
    text: *const c_char,
) {
    // SAFETY: the C half passes its own terminated buffer.
    let text = unsafe { CStr::from_ptr(text) };
    let function = if function.is_null() {
        None
    } else {
        // SAFETY: not NULL, and the plugin passes a string literal.
        Some(unsafe { CStr::from_ptr(function) })
    };
    // A subscriber that panics must not unwind into the plugin.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let text = text.to_string_lossy();
        let text = printable(text.trim_end());
        let function = function.map(|f| f.to_string_lossy()).unwrap_or_default();
        let subsystem = subsystem_name(flags);
        macro_rules! log {
            ($level:ident) => {
                tracing::$level!(
                    target: "tcpx::plugin", subsystem, function = %function, line, "{text}"
                )
            };
        }
        match severity(LogLevel(level)) {
            tracing::Level::WARN => log!(warn),
            tracing::Level::DEBUG => log!(debug),
            _ => log!(trace),
        }
    }));
}

fn subsystem_name(flags: c_ulong) -> &'static str {
    match flags {
        subsystem::ALL => "all",
        f if f & subsystem::NET != 0 => "net",
        f if f & subsystem::INIT != 0 => "init",
        f if f & subsystem::ENV != 0 => "env",
        f if f & subsystem::REG != 0 => "reg",
        f if f & subsystem::P2P != 0 => "p2p",
        _ => "other",
    }
}
