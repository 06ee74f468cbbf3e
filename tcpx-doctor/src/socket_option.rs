#![allow(unsafe_code)]
//! Socket options that no crate knows.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an option to `value`, as it is.
pub(crate) fn set_socket_option(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &[u8],
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `socket` is borrowed, so the descriptor is open; the kernel reads at most `length` bytes from `value`, which
    // has exactly that many, and keeps no pointer.
    let status =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), length) };
    // The option for returning tokens answers with a count of them.
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
