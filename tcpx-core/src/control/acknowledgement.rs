#![allow(unsafe_code)]
//! Whether the peer's host still acknowledges what is sent to it.
//!
//! TCP_USER_TIMEOUT cannot tell. It also ends a connection whose peer does not read for a while,
//! though the peer's host acknowledges every probe of the closed window. A program without a
//! progress thread does not read for as long as it computes.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Unanswered probes of a closed window that mean something. A host answers no two within half a
/// second, so the second probe, sooner than that, often stays without an answer.
const PROBES: u8 = 2;

/// How long no acknowledgement has come. `None`: nothing that was sent waits for one.
pub(crate) fn overdue(stream: &TcpStream) -> io::Result<Option<Duration>> {
    let info = tcp_info(stream)?;
    let is_waiting = info.tcpi_unacked > 0 || info.tcpi_probes >= PROBES;
    Ok(is_waiting.then(|| Duration::from_millis(info.tcpi_last_ack_recv.into())))
}

fn tcp_info(stream: &TcpStream) -> io::Result<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut bytes = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is open as long as `stream` lives. The system writes at most `bytes`
    // bytes into `info`, and the new length into `bytes`.
    let rc = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the struct has integers only, so any bytes are a value. It was all zero before the
    // call, so it is initialised even where an older system wrote less.
    Ok(unsafe { info.assume_init() })
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpListener;
    use std::time::Instant;

    use tcpx_testkit::PATIENCE;

    use super::*;

    /// A host acknowledges the probes of a closed window, however long its program does not read.
    #[test]
    fn a_closed_window_is_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut reader, _) = listener.accept().unwrap();
        sender.set_nonblocking(true).unwrap();
        let end = Instant::now() + PATIENCE;
        // Full: this end's kernel takes nothing more, and the other end's answers each probe.
        let mut refused = 0;
        while refused < 20 {
            match sender.write(&[7; 65_536]) {
                Ok(_) => refused = 0,
                Err(error) if error.kind() == ErrorKind::WouldBlock => refused += 1,
                Err(error) => panic!("{error}"),
            }
            let overdue = overdue(&sender).unwrap().unwrap_or_default();
            assert!(overdue < PATIENCE / 2 && Instant::now() < end, "{overdue:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        reader.read_exact(&mut [0; 65_536]).unwrap();
    }

    #[test]
    fn what_is_not_connected_has_no_acknowledgements() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(overdue(&stream).unwrap(), None, "nothing was sent");
    }
}
