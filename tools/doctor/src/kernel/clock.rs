#![allow(unsafe_code)]
//! State of the clock, by adjtimex.

use std::io;

/// Returns whether the kernel takes its clock for synchronised, which is what programs that set it
/// by another clock tell the kernel. Changes nothing.
///
/// # Errors
/// When a sandbox forbids the call.
pub(super) fn is_synchronised() -> io::Result<bool> {
    // SAFETY: `timex` consists of integers alone, for which zero is a value. A mode of zero asks,
    // and changes nothing.
    let mut clock: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `timex`, which `clock` is, and keeps no pointer.
    let state = unsafe { libc::adjtimex(&raw mut clock) };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(is_sound(state, clock.status))
}

/// Returns whether this answer is that of a synchronised clock.
const fn is_sound(state: i32, status: i32) -> bool {
    state != libc::TIME_ERROR && status & libc::STA_UNSYNC == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_synchronised_unless_the_kernel_says_otherwise() {
        assert!(is_sound(libc::TIME_OK, libc::STA_PLL));
        // A leap second is ahead.
        assert!(is_sound(libc::TIME_INS, libc::STA_PLL | libc::STA_INS));
        assert!(!is_sound(libc::TIME_ERROR, libc::STA_PLL | libc::STA_UNSYNC));
        assert!(!is_sound(libc::TIME_OK, libc::STA_UNSYNC));
        assert!(!is_sound(libc::TIME_ERROR, 0));
    }

    #[test]
    fn this_kernel_answers_or_forbids_the_question() {
        if let Err(error) = is_synchronised() {
            let denied = [libc::EPERM, libc::EACCES, libc::ENOSYS];
            assert!(denied.contains(&error.raw_os_error().unwrap_or_default()), "{error}");
        }
    }
}
