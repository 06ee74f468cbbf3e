#![allow(unsafe_code)]
//! Sockets whose buffers hold the same on every machine.

use std::ffi::c_int;

/// What a socket buffer is set to. The system grants up to 208 KiB anywhere, and twice of it for
/// its own bookkeeping.
const BUFFER_BYTES: c_int = 200_000;

/// Payload that certainly fits one connection while nobody reads.
pub const FITS_BYTES: usize = 150_000;

/// Payload that certainly does not fit, over up to two connections.
pub const OVERFLOWS_BYTES: usize = 4 << 20;

/// Gives every socket of this process buffers of one size. Otherwise the machine's settings decide
/// what fits, and they range from 16 KiB to many megabytes.
pub fn level() {
    let bytes = BUFFER_BYTES;
    for entry in std::fs::read_dir("/proc/self/fd").expect("Linux has it") {
        let name = entry.expect("it is readable").file_name();
        let fd: c_int = name.to_str().and_then(|name| name.parse().ok()).expect("a number");
        for option in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
            // SAFETY: the option's value is an int that outlives the call. What is no socket, or
            // was closed meanwhile, is refused; the sockets of other tests of this process may be
            // levelled as well.
            unsafe {
                libc::setsockopt(
                    fd,
                    libc::SOL_SOCKET,
                    option,
                    (&raw const bytes).cast(),
                    size_of::<c_int>() as libc::socklen_t,
                )
            };
        }
    }
}
