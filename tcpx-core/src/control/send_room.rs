#![allow(unsafe_code)]
//! How many bytes of a connection the kernel takes at once.

use std::mem::size_of_val;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// Where the numbers stand that the system tells of a socket's memory, as `linux/sock_diag.h` has
/// them.
const SEND_BUFFER: usize = 3;
const SEND_QUEUED: usize = 5;
const NUMBERS: usize = SEND_QUEUED + 1;

/// How many bytes the next write is likely to take. The system counts its own notes of them too, so
/// that it may take somewhat less, or one piece of some KiB more. `None`: it does not say.
pub(super) fn of(stream: &TcpStream) -> Option<u64> {
    let mut numbers = [0u32; NUMBERS];
    let mut bytes = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the descriptor is open as long as `stream` lives. The system writes at most `bytes`
    // bytes into `numbers`, and the new length into `bytes`.
    let rc = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    let is_told = rc == 0 && bytes as usize == size_of_val(&numbers);
    is_told.then(|| numbers[SEND_BUFFER].saturating_sub(numbers[SEND_QUEUED]).into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use tcpx_testkit::until;

    use super::*;

    #[test]
    fn room_is_there_until_the_kernel_takes_no_more() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _never_reads = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        assert!(of(&stream).unwrap() >= 4096, "{:?}", of(&stream));
        // What the other host acknowledges late makes room again.
        until("the kernel takes no more", || {
            while let Ok(bytes) = stream.write(&[7; 4096]) {
                assert!(bytes > 0);
            }
            of(&stream) == Some(0)
        });
    }
}
