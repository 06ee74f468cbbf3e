#![allow(unsafe_code)]
//! Log lines to the logger that `init` was given.

use core::ffi::CStr;
use core::fmt;
use std::ffi::CString;

use tcpx_sys::{LogLevel, Logger};

use std::sync::OnceLock;

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Takes the logger of the first `init`.
pub(crate) fn install(logger: Logger) {
    let _ = LOGGER.set(logger);
}

/// One line; dropped before `init`. The text goes through `%s`, so that nothing in it is taken for
/// a format.
pub(crate) fn emit(
    level: LogLevel,
    flags: u64,
    function: &'static CStr,
    line: u32,
    text: fmt::Arguments<'_>,
) {
    let Some(logger) = LOGGER.get() else { return };
    let mut bytes = text.to_string().into_bytes();
    bytes.retain(|&byte| byte != 0);
    let Ok(text) = CString::new(bytes) else { return };
    let line = i32::try_from(line).unwrap_or(i32::MAX);
    // SAFETY:
    // - `init`'s caller vouches that the logger is a printf-like function of this type, callable
    //   from any thread;
    // - function, format and the one argument that `%s` asks for are NUL-terminated and outlive the
    //   call.
    unsafe { logger(level.0, flags, function.as_ptr(), line, c"%s".as_ptr(), text.as_ptr()) };
}

/// The module path as the C string that loggers show as the place of a line.
macro_rules! place {
    () => {
        match core::ffi::CStr::from_bytes_with_nul(concat!(module_path!(), "\0").as_bytes()) {
            Ok(place) => place,
            Err(_) => c"tcpx_softnet_faults",
        }
    };
}

/// A WARN line.
macro_rules! log_warn {
    ($($text:tt)*) => {
        $crate::log::emit(
            tcpx_sys::LogLevel::WARN,
            tcpx_sys::subsystem::ALL,
            $crate::log::place!(),
            line!(),
            format_args!($($text)*),
        )
    };
}

pub(crate) use {log_warn as warn, place};
