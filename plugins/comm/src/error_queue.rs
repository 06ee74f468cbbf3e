#![allow(unsafe_code)]
//! Notifications of zero-copy sends. The system reports the end of each send in the socket's error
//! queue.

use std::io;
use std::mem::size_of;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use libc::{c_int, cmsghdr, sock_extended_err, socklen_t};

/// `SO_EE_ORIGIN_ZEROCOPY` and `SO_EE_CODE_ZEROCOPY_COPIED` of the kernel's `errqueue.h`.
const ORIGIN: u8 = 5;
const COPIED: u8 = 1;

/// Range of calls that are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedSends {
    /// First call of the range, as the system numbers calls.
    pub from: u32,
    /// Last call of the range.
    pub to: u32,
    /// Whether the system copied the bytes after all.
    pub copied: bool,
}

/// Enables zero-copy sends on this socket.
///
/// # Errors
/// Returns the system's error, and `Unsupported` where the system does not know the option.
pub fn enable_zerocopy(socket: &TcpStream) -> io::Result<()> {
    let on: c_int = 1;
    let mut found: c_int = 0;
    let mut bytes = size_of::<c_int>() as socklen_t;
    let (fd, level, name) = (socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ZEROCOPY);
    // SAFETY: the descriptor is open as long as `socket` lives; the system reads `bytes` bytes.
    let set = unsafe { libc::setsockopt(fd, level, name, (&raw const on).cast(), bytes) };
    if set != 0 {
        return Err(io::Error::last_os_error());
    }
    // A system that ignores unknown options would never report the end of a send. SAFETY: as above;
    // the system writes at most `bytes` bytes to `found`, and their number to `bytes`.
    let got = unsafe { libc::getsockopt(fd, level, name, (&raw mut found).cast(), &raw mut bytes) };
    match (got, found) {
        (0, 1) => Ok(()),
        (0, _) => Err(io::ErrorKind::Unsupported.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the next range of ended calls, or `None` when the queue is empty.
#[must_use]
pub fn next_completed(socket: &TcpStream) -> Option<CompletedSends> {
    /// Buffer for one message with its address, and for others that a system may add.
    #[repr(align(8))]
    struct MessageBuffer([u8; 256]);
    loop {
        let mut room = MessageBuffer([0; 256]);
        // SAFETY: `msghdr` is plain C data for which all zeros is a valid value.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_control = room.0.as_mut_ptr().cast();
        message.msg_controllen = room.0.len() as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: `message` points to `room`, which has the given length and lives during the call.
        if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) } < 0 {
            return None;
        }
        // SAFETY: the system has filled in `message`, whose `room` is live and aligned.
        let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        while !header.is_null() {
            // SAFETY: not NULL, so it is a header within `room`.
            if let Some(error) = unsafe { extended_error(header) }
                && error.ee_origin == ORIGIN
                && error.ee_errno == 0
            {
                let copied = error.ee_code & COPIED != 0;
                return Some(CompletedSends { from: error.ee_info, to: error.ee_data, copied });
            }
            // SAFETY: `message` is as the system left it, and `header` one of its headers.
            header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
        }
    }
}

/// Returns the error in a control message, if the message has one.
///
/// # Safety
/// `header` must be a control message as the system wrote it.
unsafe fn extended_error(header: *const cmsghdr) -> Option<sock_extended_err> {
    // SAFETY: the caller's promise.
    let cmsghdr { cmsg_len, cmsg_level, cmsg_type, .. } = unsafe { header.read() };
    let is_error = matches!(
        (cmsg_level, cmsg_type),
        (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
    );
    // SAFETY: computes a number.
    let least = unsafe { libc::CMSG_LEN(size_of::<sock_extended_err>() as u32) };
    if !is_error || (cmsg_len as u64) < u64::from(least) {
        return None;
    }
    // SAFETY: the message is long enough for the struct, which consists of integers only. The read
    // needs no alignment.
    Some(unsafe { libc::CMSG_DATA(header).cast::<sock_extended_err>().read_unaligned() })
}
