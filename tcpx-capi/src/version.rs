#![allow(unsafe_code)]
//! The version of this library.

use std::ffi::{CStr, c_char};

use crate::abi::TCPX_ABI_VERSION;

/// The version with its terminating NUL.
const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no NUL inside"),
    };

/// Returns the version of the loaded library, such as "0.1.0". `TCPX_VERSION` is the version of the
/// header.
///
/// The pointer is never NULL, and the text is constant. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Returns the ABI version of the loaded library.
///
/// A program works with the library when this equals the `TCPX_ABI_VERSION` that it was compiled
/// against. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_abi_version() -> u32 {
    TCPX_ABI_VERSION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_package() {
        // SAFETY: a constant C string.
        let version = unsafe { CStr::from_ptr(tcpx_version()) };
        assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
        assert_eq!(tcpx_abi_version(), TCPX_ABI_VERSION);
    }
}
