#![allow(unsafe_code)]
//! Counts of calls, by function. A test that says what a program may ask of a driver
//! in its data path reads it here.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

static CALLS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// Counts a call of the function whose body this is.
pub(crate) fn count<F>(_: &F) {
    // "crate::module::cuStreamQuery::{{closure}}"
    let name = std::any::type_name::<F>().rsplit("::").nth(1).unwrap_or_default();
    *CALLS.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
}

/// Writes a line for each function that was called, with its name and its number of calls, while
/// there is room. Returns how many bytes all the lines have.
///
/// # Safety
/// `text` is valid for `capacity` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn tcpxFakeCudaCalls(text: *mut c_char, capacity: usize) -> usize {
    let calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut lines = String::new();
    for (name, times) in calls.iter() {
        // Writing to a String cannot fail.
        let _ = writeln!(lines, "{name} {times}");
    }
    let fits = lines.len().min(capacity);
    // SAFETY: the caller's promise; the lines are a string of our own.
    unsafe { text.copy_from_nonoverlapping(lines.as_ptr().cast(), fits) };
    lines.len()
}
