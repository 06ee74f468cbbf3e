#![allow(unsafe_code)]
//! Requests of a program to helgrind: valgrind's client requests, which do nothing outside
//! valgrind.
//!
//! Numbers are those of valgrind's `helgrind.h`, which are part of its ABI.

use std::arch::asm;
use std::sync::{LockResult, Mutex, MutexGuard};

const HELGRIND: usize = (b'H' as usize) << 24 | (b'G' as usize) << 16;
/// Its first number with a meaning for threads.
const BASE: usize = HELGRIND + 256;
const RWLOCK_ACQUIRED: usize = BASE + 17;
const RWLOCK_RELEASED: usize = BASE + 18;
const SEND: usize = BASE + 33;
const RECEIVE: usize = BASE + 34;
const UNTRACK: usize = BASE + 39;

/// Waits for a lock that is reported to helgrind next.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> LockResult<MutexGuard<'_, T>> {
    mutex.lock()
}

/// The lock at `lock` is held from here on, by this thread alone.
pub(super) fn acquired<T: ?Sized>(lock: &T) {
    request(RWLOCK_ACQUIRED, address(lock), 1);
}

/// The lock at `lock` is about to be released.
pub(super) fn released<T: ?Sized>(lock: &T) {
    request(RWLOCK_RELEASED, address(lock), 0);
}

/// Everything before this happens before whatever follows an [`after`] of the same place.
pub(super) fn before<T: ?Sized>(place: &T) {
    request(SEND, address(place), 0);
}

/// See [`before`].
pub(super) fn after<T: ?Sized>(place: &T) {
    request(RECEIVE, address(place), 0);
}

/// Accesses to `place` itself are no races.
pub(super) fn untrack<T: ?Sized>(place: &T) {
    request(UNTRACK, address(place), size_of_val(place));
}

fn address<T: ?Sized>(place: &T) -> usize {
    std::ptr::from_ref(place).addr()
}

#[cfg(target_arch = "x86_64")]
fn request(code: usize, first: usize, second: usize) {
    let arguments = [code, first, second, 0, 0, 0];
    // SAFETY: the rotations sum to 128 bits, so rdi is what it was, and rbx is exchanged with
    // itself. Valgrind takes the sequence for a request. It reads the six words at rax, which
    // outlive the request, and answers in rdx.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") 0_usize => _,
            options(nostack),
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
compile_error!("client requests are written for x86-64 only; build without --cfg tcpx_helgrind");
