#![allow(unsafe_code)]
//! Sockets whose buffers hold the same number of bytes on every machine, and whose ends can be
//! waited for.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use tcpx_testkit::until;

/// `TCP_CLOSE_WAIT` of the kernel's `tcp_states.h`: the peer has closed.
const CLOSE_WAIT: u8 = 8;

/// What a socket buffer is set to. The system grants up to 208 KiB anywhere, and twice of it for
/// its own bookkeeping.
const BUFFER_BYTES: c_int = 200_000;

/// Payload that certainly fits one connection while the peer does not read.
pub(crate) const FITS_BYTES: usize = 150_000;

/// Payload that certainly does not fit, over up to two connections.
pub(crate) const OVERFLOWS_BYTES: usize = 4 << 20;

/// Gives every socket of this process buffers of one size. Otherwise the machine's settings decide
/// what fits, and they range from 16 KiB to many megabytes.
pub(crate) fn level() {
    let bytes = BUFFER_BYTES;
    for fd in descriptors() {
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

/// Waits until the peers of `count` sockets of this process have closed, as this end sees it.
pub(crate) fn wait_for_ends(count: usize) {
    until("the peers' ends", || {
        let ended = descriptors().into_iter().filter(|&fd| state(fd) == Some(CLOSE_WAIT));
        ended.count() == count
    });
}

/// Whether a socket of this process holds bytes for which its peer has no room.
pub(crate) fn is_any_held_up() -> bool {
    descriptors().into_iter().any(holds_bytes_back)
}

fn descriptors() -> Vec<c_int> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("Linux has it");
    let names = entries.map(|entry| entry.expect("it is readable").file_name());
    names.map(|name| name.to_str().and_then(|name| name.parse().ok()).expect("a number")).collect()
}

/// The TCP state of a descriptor, if it has one.
fn state(fd: c_int) -> Option<u8> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut bytes = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the system writes at most `bytes` bytes to `info`, and their number to `bytes`. What
    // is no TCP socket is refused.
    let rc = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    // SAFETY: the struct has only integers, for which all bytes are valid, and all of them were
    // zeroed before.
    (rc == 0).then(|| unsafe { info.assume_init() }.tcpi_state)
}

fn holds_bytes_back(fd: c_int) -> bool {
    /// `SIOCOUTQNSD` of the kernel's `sockios.h`: bytes that were not sent yet.
    const NOT_SENT: libc::Ioctl = 0x894b;
    let mut bytes: c_int = 0;
    // SAFETY: the system writes an int. What is no TCP socket refuses.
    let rc = unsafe { libc::ioctl(fd, NOT_SENT, &raw mut bytes) };
    rc == 0 && bytes > 0
}
