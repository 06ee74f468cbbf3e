#![allow(unsafe_code)]
//! State of a TCP connection in the kernel: whether the other host acknowledges sent bytes, how
//! many bytes the socket takes at once, retransmits and round-trip times.

use std::io;
use std::mem::{MaybeUninit, size_of, size_of_val};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use crate::stats::tcp::TcpStats;

/// Number of unanswered probes of a closed window that is significant. A host answers no two probes
/// within half a second. The second probe is sooner than that, and often stays unanswered.
const PROBES: u8 = 2;

/// Returns for how long no acknowledgement has come. `None`: no sent byte is unacknowledged.
pub(crate) fn overdue(stream: &TcpStream) -> io::Result<Option<Duration>> {
    let info = tcp_info(stream)?;
    let is_waiting = info.tcpi_unacked > 0 || info.tcpi_probes >= PROBES;
    Ok(is_waiting.then(|| Duration::from_millis(info.tcpi_last_ack_recv.into())))
}

/// Returns the figures of a connection on which bytes were sent. `None`: none were, or the
/// descriptor is no TCP connection.
pub(crate) fn stats(stream: impl AsFd) -> Option<TcpStats> {
    let info = tcp_info(stream).ok().filter(|info| info.tcpi_data_segs_out > 0)?;
    Some(TcpStats::of_connection(info.tcpi_total_retrans, info.tcpi_rtt))
}

/// Returns how many segments with bytes were sent.
#[cfg(test)]
pub(crate) fn segments_sent(stream: &TcpStream) -> u32 {
    tcp_info(stream).expect("a connection").tcpi_data_segs_out
}

fn tcp_info(stream: impl AsFd) -> io::Result<libc::tcp_info> {
    let stream = stream.as_fd();
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
    // SAFETY: the struct has integers only, so any bytes are a value. All bytes were zero before
    // the call, so they are initialised even where an older system wrote fewer.
    Ok(unsafe { info.assume_init() })
}

/// Indices of the numbers that describe a socket's memory, as `linux/sock_diag.h` has them.
const SEND_BUFFER: usize = 3;
const SEND_QUEUED: usize = 5;
const NUMBERS: usize = SEND_QUEUED + 1;

/// Returns how many bytes the next write is likely to take. The system counts its own bookkeeping
/// too. So a write may take somewhat less, or one piece of some KiB more. `None`: the system does
/// not say.
pub(crate) fn of(stream: &TcpStream) -> Option<u64> {
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
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpListener;
    use std::time::Instant;

    use tcpx_testkit::{PATIENCE, until};

    use super::*;

    /// A host acknowledges the probes of a closed window, however long its program does not read.
    #[test]
    fn a_closed_window_is_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut reader, _) = listener.accept().unwrap();
        sender.set_nonblocking(true).unwrap();
        let end = Instant::now() + PATIENCE;
        // The window is full: this end's kernel takes nothing more, and the other end's answers
        // each probe.
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

    #[test]
    fn only_a_connection_on_which_bytes_were_sent_has_figures() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut reader, _) = listener.accept().unwrap();
        assert_eq!(stats(&stream), None);
        let (local, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(stats(local), None, "it is no TCP connection");
        stream.write_all(&[7; 8]).unwrap();
        reader.read_exact(&mut [0; 8]).unwrap();
        until("the bytes are acknowledged", || overdue(&stream).unwrap().is_none());
        let found = stats(&stream).unwrap();
        assert!(found.connections == 1 && found.rtt_us_max > 0, "{found:?}");
        assert_eq!(stats(&reader), None, "it has only received");
    }

    #[test]
    fn room_is_there_until_the_kernel_takes_no_more() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _never_reads = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        assert!(of(&stream).unwrap() >= 4096, "{:?}", of(&stream));
        // A late acknowledgement from the other host makes room again.
        until("the kernel takes no more", || {
            while let Ok(bytes) = stream.write(&[7; 4096]) {
                assert!(bytes > 0);
            }
            of(&stream) == Some(0)
        });
    }
}
