#![allow(unsafe_code)]
//! Call counts of a driver for tests.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};

/// Functions that queue copies and marks, and ask whether they have ended, and no others.
pub const QUEUEING_CALLS: [&str; 6] = [
    "cuCtxGetCurrent",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuMemcpyAsync",
    "cuStreamWriteValue32_v2",
    "cuStreamQuery",
];

/// Returns the functions called since [`driver_calls`] returned `before`, and the number of their
/// calls.
///
/// # Panics
/// Panics where the driver does not count.
#[must_use]
pub fn driver_calls_since(before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut calls = driver_calls().expect("a driver that counts");
    for (name, times) in &mut calls {
        *times -= before.get(name).copied().unwrap_or(0);
    }
    calls.retain(|_, times| *times > 0);
    calls
}

/// Returns the number of calls of each driver function so far. Returns `None` over a real driver,
/// which does not count.
///
/// # Panics
/// Panics when a driver for tests reports its counts in an unknown form.
#[must_use]
pub fn driver_calls() -> Option<BTreeMap<String, u64>> {
    type Calls = unsafe extern "C" fn(*mut c_char, usize) -> usize;
    let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD;
    // SAFETY: the name is NUL-terminated, and only a library that is already loaded is opened.
    let driver = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), flags) };
    if driver.is_null() {
        return None;
    }
    // SAFETY: `driver` is a library that stays loaded: this reference to it is never released.
    let symbol: *mut c_void = unsafe { libc::dlsym(driver, c"tcpxFakeCudaCalls".as_ptr()) };
    if symbol.is_null() {
        return None;
    }
    // SAFETY: only the driver for tests has this symbol, and there it is a function of this type.
    let calls = unsafe { std::mem::transmute::<*mut c_void, Calls>(symbol) };
    let mut text = vec![0_u8; 64 << 10];
    // SAFETY: the buffer has this many bytes.
    let bytes = unsafe { calls(text.as_mut_ptr().cast(), text.len()) };
    text.truncate(bytes);
    let text = String::from_utf8(text).expect("names and numbers");
    let line = |line: &str| {
        let (name, times) = line.split_once(' ').expect("a name and a number");
        (name.to_owned(), times.parse().expect("a number"))
    };
    Some(text.lines().map(line).collect())
}
