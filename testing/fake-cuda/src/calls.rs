#![allow(unsafe_code)]
//! Which functions were called, and how often. A test that says what a program may ask of a driver
//! in its data path reads it here.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_char;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

type Calls = BTreeMap<&'static str, u64>;

static CALLS: Mutex<Calls> = Mutex::new(BTreeMap::new());

thread_local! {
    /// Those of this thread.
    static HERE: RefCell<Calls> = const { RefCell::new(BTreeMap::new()) };
}

/// Counts a call of the function whose body this is.
pub(crate) fn count<F>(_: &F) {
    // "crate::module::cuStreamQuery::{{closure}}"
    let name = std::any::type_name::<F>().rsplit("::").nth(1).unwrap_or_default();
    *CALLS.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
    // A thread that ends has nobody left who asks.
    let _ = HERE.try_with(|calls| *calls.borrow_mut().entry(name).or_default() += 1);
}

/// Writes a line for each function that was called, its name and how often, as far as there is
/// room. Returns how many bytes all the lines have.
///
/// # Safety
/// `text` is valid for `capacity` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn tcpxFakeCudaCalls(text: *mut c_char, capacity: usize) -> usize {
    let calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the caller's promise.
    unsafe { write(&calls, text, capacity) }
}

/// The same for calls of this thread alone.
///
/// # Safety
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn tcpxFakeCudaCallsHere(text: *mut c_char, capacity: usize) -> usize {
    // SAFETY: the caller's promise.
    HERE.with(|calls| unsafe { write(&calls.borrow(), text, capacity) })
}

/// # Safety
/// `text` is valid for `capacity` bytes.
unsafe fn write(calls: &Calls, text: *mut c_char, capacity: usize) -> usize {
    let mut lines = String::new();
    for (name, times) in calls {
        // Writing to a String cannot fail.
        let _ = writeln!(lines, "{name} {times}");
    }
    let fits = lines.len().min(capacity);
    // SAFETY: the caller's promise; the lines are a string of our own.
    unsafe { text.copy_from_nonoverlapping(lines.as_ptr().cast(), fits) };
    lines.len()
}
