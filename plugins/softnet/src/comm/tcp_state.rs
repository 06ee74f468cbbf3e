#![allow(unsafe_code)]
//! State of one connection, as the system knows it.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// `TCP_CLOSE` of the kernel's `tcp_states.h`: the connection is no more.
const CLOSED: u8 = 7;
/// Number of unanswered probes of a closed window that mean a silent peer. A host answers no two
/// probes within half a second. The second probe comes sooner than that, so it often stays without
/// an answer.
const WINDOW_PROBES: u8 = 2;
/// Probes of an idle connection without an answer before the system ends it: as many as fit into
/// the time, at most one a second, and no fewer than these, because one may be lost.
const PROBES: (u64, u64) = (3, 5);
/// The longest time that the system takes, in seconds.
const MAX_SECONDS: u64 = 32_767;

/// One connection as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TcpState {
    /// It was reset, or the system has given it up. Bytes that came before may still be there.
    pub(super) is_closed: bool,
    /// Time for which the peer's host has acknowledged nothing; `None`: nothing waits for it.
    pub(super) unacknowledged: Option<Duration>,
}

impl TcpState {
    pub(super) fn of(socket: &TcpStream) -> io::Result<Self> {
        let info = tcp_info(socket)?;
        let is_waiting = info.tcpi_unacked > 0 || info.tcpi_probes >= WINDOW_PROBES;
        let silence = Duration::from_millis(info.tcpi_last_ack_recv.into());
        Ok(Self {
            is_closed: info.tcpi_state == CLOSED,
            unacknowledged: is_waiting.then_some(silence),
        })
    }
}

fn tcp_info(socket: &TcpStream) -> io::Result<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut bytes = size_of::<libc::tcp_info>() as libc::socklen_t;
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the descriptor is open as long as `socket` lives. The system writes at most `bytes`
    // bytes to `info`, and their number to `bytes`.
    let rc = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, info.as_mut_ptr().cast(), &raw mut bytes)
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the struct has only integers, for which all bytes are valid, and all of them were
    // zeroed before.
    Ok(unsafe { info.assume_init() })
}

/// Makes the system probe an idle connection, and end it when nothing answers for `limit`. The
/// system takes whole seconds, and at least four. `None`: it does not probe.
pub(super) fn probe(socket: &TcpStream, limit: Option<Duration>) -> io::Result<()> {
    let socket = SockRef::from(socket);
    let Some(limit) = limit else { return socket.set_keepalive(false) };
    let (least, most) = PROBES;
    let seconds = limit.as_secs().min(MAX_SECONDS);
    let idle = (seconds / 2).max(1);
    let interval = ((seconds.saturating_sub(idle)) / most).max(1);
    let probes = (seconds.saturating_sub(idle) / interval).clamp(least, most);
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(idle))
        .with_interval(Duration::from_secs(interval))
        // At most five.
        .with_retries(probes as u32);
    socket.set_tcp_keepalive(&keepalive)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let left = TcpStream::connect(listener.local_addr().expect("address")).expect("connects");
        (left, listener.accept().expect("it has come").0)
    }

    #[test]
    fn a_connection_that_was_reset_is_closed() {
        let (left, right) = pair();
        let alive = TcpState { is_closed: false, unacknowledged: None };
        assert_eq!(TcpState::of(&left).expect("info"), alive);
        SockRef::from(&right).set_linger(Some(Duration::ZERO)).expect("linger");
        drop(right);
        let give_up_at = std::time::Instant::now() + Duration::from_secs(60);
        while !TcpState::of(&left).expect("info").is_closed {
            assert!(std::time::Instant::now() < give_up_at);
        }
    }

    #[test]
    fn the_system_probes_for_as_long_as_was_asked() {
        let (left, _right) = pair();
        let socket = SockRef::from(&left);
        // The limit; idle time, interval and probes.
        for (limit, idle, interval, probes) in [
            (Duration::from_millis(100), 1, 1, 3),
            (Duration::from_secs(3), 1, 1, 3),
            (Duration::from_secs(10), 5, 1, 5),
            (Duration::from_secs(20), 10, 2, 5),
            (Duration::from_secs(86_400), 16_383, 3_276, 5),
        ] {
            probe(&left, Some(limit)).expect("options");
            assert!(socket.keepalive().expect("option"));
            let seconds = Duration::from_secs;
            assert_eq!(socket.tcp_keepalive_time().expect("option"), seconds(idle), "{limit:?}");
            let found = socket.tcp_keepalive_interval().expect("option");
            assert_eq!(found, seconds(interval), "{limit:?}");
            assert_eq!(socket.tcp_keepalive_retries().expect("option"), probes, "{limit:?}");
        }
        probe(&left, None).expect("options");
        assert!(!socket.keepalive().expect("option"));
    }
}
