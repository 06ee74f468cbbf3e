//! Watch of a comm's sockets for dead connections.
//!
//! A stuck request looks at the sockets about once a second; so does a caller of `check`. A socket
//! is dead when it was reset, or when nothing answered the system's probes of an idle one. It is
//! also dead when bytes are under way and the peer's host has acknowledged nothing for the limit.
//! This last case is not left to TCP_USER_TIMEOUT, which would also end a peer that merely does not
//! read for a while.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tcpx_comm::wire::Side;

use super::options::CommOptions;
use super::tcp_state::{TcpState, probe};

/// Time for which a request is stuck before each look.
const LOOK_AFTER: Duration = Duration::from_secs(1);
/// The longest time between two looks that counts as silence of the peer's host.
const LONGEST_GAP: Duration = Duration::from_secs(2);

/// Most that the system's clock and ours may differ by. An acknowledgement that is closer than this
/// before a look may have come after it.
const CLOCKS_DIFFER: Duration = Duration::from_millis(50);

/// Reason why a socket is dead.
#[derive(Debug, thiserror::Error)]
pub(super) enum SocketDeath {
    /// The connection is no more, and no byte is left to be read. Holds what the system says of it.
    #[error("{}", .0.as_ref().map_or("the connection is closed".to_owned(), io::Error::to_string))]
    Closed(Option<io::Error>),
    /// The peer's host has acknowledged nothing for this time.
    #[error("the peer's host has acknowledged nothing for {:.1} s", .0.as_secs_f64())]
    Silent(Duration),
}

/// Observations of one socket.
#[derive(Clone, Copy, Debug, Default)]
struct Unacknowledged {
    /// Time for which bytes were seen to wait while none was acknowledged; `None`: none wait.
    waited: Option<Duration>,
}

impl Unacknowledged {
    /// Takes `silence`, the time for which nothing was acknowledged, if bytes wait. After an idle
    /// hour this is an hour, though the bytes were only just sent. Returns how long they have
    /// waited.
    fn update(&mut self, silence: Option<Duration>, since: Duration) -> Option<Duration> {
        self.waited = silence.map(|silence| match self.waited {
            Some(waited) if silence >= since + CLOCKS_DIFFER => waited + since.min(LONGEST_GAP),
            _ => Duration::ZERO,
        });
        self.waited.min(silence)
    }
}

/// Watches the sockets of one comm: the data sockets in order, then the control socket.
#[derive(Debug)]
pub(super) struct Liveness {
    side: Side,
    limit: Option<Duration>,
    checked_at: Instant,
    sockets: Vec<Unacknowledged>,
    /// Request that was not done at the last test, and the time since when it is stuck, or when it
    /// was last looked at.
    stuck: Option<(u64, Instant)>,
    is_dead: bool,
    /// Whether looks are turned off.
    skips_liveness: bool,
}

impl Liveness {
    /// Creates a watch of these sockets, which begins now.
    pub(super) fn new<'a>(
        sockets: impl Iterator<Item = &'a TcpStream>,
        side: Side,
        options: &CommOptions<'_>,
    ) -> Self {
        let limit = options.peer_timeout;
        let mut liveness = Self {
            side,
            limit,
            checked_at: Instant::now(),
            sockets: Vec::new(),
            stuck: None,
            is_dead: false,
            skips_liveness: options.hooks.get().is_some_and(|hooks| hooks.skips_liveness()),
        };
        liveness.set_limit(sockets, limit);
        liveness
    }

    /// Sets another limit for the same sockets.
    pub(super) fn set_limit<'a>(
        &mut self,
        sockets: impl Iterator<Item = &'a TcpStream>,
        limit: Option<Duration>,
    ) {
        self.limit = limit;
        self.sockets.clear();
        if self.skips_liveness {
            return;
        }
        for socket in sockets {
            self.sockets.push(Unacknowledged::default());
            // A socket that takes no option any more is dead. The next look finds that.
            let _ = probe(socket, limit);
        }
    }

    /// Returns how long the peer's host may be silent.
    pub(super) fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Returns whether a socket was found dead.
    pub(super) fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// Notes that request `number` was tested and is not done. Returns whether it is time to look
    /// why.
    pub(super) fn is_stuck(&mut self, number: u64) -> bool {
        if self.is_dead || self.skips_liveness {
            return false;
        }
        let now = Instant::now();
        match &mut self.stuck {
            Some((known, since)) if *known == number => {
                let is_due = now.saturating_duration_since(*since) >= LOOK_AFTER;
                if is_due {
                    *since = now;
                }
                is_due
            }
            other => {
                *other = Some((number, now));
                false
            }
        }
    }

    /// Looks at the sockets. Returns the first dead one, once. `is_read`: no byte that has come
    /// waits in the comm to be used. A receive comm is alive until the last bytes before a reset
    /// are used.
    pub(super) fn check<'a>(
        &mut self,
        sockets: impl Iterator<Item = &'a TcpStream> + Clone,
        is_read: bool,
    ) -> Option<(usize, SocketDeath)> {
        if self.is_dead || self.skips_liveness {
            return None;
        }
        let now = Instant::now();
        let since = now.saturating_duration_since(self.checked_at);
        self.checked_at = now;
        let (mut silent, mut closed) = (None, None);
        for (index, (socket, seen)) in sockets.clone().zip(&mut self.sockets).enumerate() {
            let Ok(state) = TcpState::of(socket) else { continue };
            let waited = seen.update(state.unacknowledged, since);
            let too_long = waited.filter(|waited| self.limit.is_some_and(|it| *waited >= it));
            silent = silent.or(too_long.map(|waited| (index, SocketDeath::Silent(waited))));
            closed = closed.or(state.is_closed.then_some(index));
        }
        let closed = || match (closed?, self.side) {
            (_, Side::Recv) if !is_read => None,
            (index, side) => Some((index, SocketDeath::Closed(end_of(sockets, index, side)?))),
        };
        let dead = silent.or_else(closed);
        self.is_dead = dead.is_some();
        dead
    }
}

/// Returns why a closed connection has ended, if the system knows. `None`: a receiver has bytes to
/// read on some socket.
fn end_of<'a>(
    sockets: impl Iterator<Item = &'a TcpStream>,
    closed: usize,
    side: Side,
) -> Option<Option<io::Error>> {
    let mut why = None;
    for (index, socket) in sockets.enumerate() {
        match socket.peek(&mut [0]) {
            Ok(1..) if side == Side::Recv => return None,
            // The bytes are in memory of a NIC, which no caller can peek at.
            Err(error) if side == Side::Recv && is_unreadable(&error) => return None,
            Err(error) if index == closed => why = Some(error),
            _ => {}
        }
    }
    Some(why)
}

fn is_unreadable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EFAULT)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use socket2::SockRef;

    use super::*;
    use crate::comm::zerocopy::ZeroCopy;
    use crate::hooks::HookSet;

    const SECOND: Duration = Duration::from_secs(1);

    /// Watches sockets of a receive comm.
    fn watch(sockets: &[&TcpStream], side: Side, limit: Option<Duration>) -> Liveness {
        let options = CommOptions {
            number: 0,
            threads: 0,
            cpus: None,
            recv_sync: false,
            inline_bytes: 0,
            peer_timeout: limit,
            zerocopy: ZeroCopy::Off,
            clears_counts: false,
            hooks: HookSet::default(),
        };
        Liveness::new(sockets.iter().copied(), side, &options)
    }

    #[test]
    fn bytes_wait_since_they_were_first_seen_to() {
        let mut seen = Unacknowledged::default();
        let hour = 3_600 * SECOND;
        assert_eq!(seen.update(None, SECOND), None);
        assert_eq!(seen.update(Some(hour), SECOND), Some(Duration::ZERO), "only just sent");
        assert_eq!(seen.update(Some(hour + SECOND), SECOND), Some(SECOND));
        let later = hour + 2 * SECOND;
        assert_eq!(seen.update(Some(2 * later), later), Some(3 * SECOND), "no call was made");
        assert_eq!(seen.update(Some(SECOND / 2), SECOND), Some(Duration::ZERO), "acknowledged");
        assert_eq!(
            seen.update(Some(SECOND), SECOND),
            Some(Duration::ZERO),
            "perhaps after the look"
        );
        assert_eq!(seen.update(Some(2 * SECOND), SECOND), Some(SECOND));
        assert_eq!(seen.update(None, SECOND), None);
        assert_eq!(seen.update(Some(hour), SECOND), Some(Duration::ZERO));
    }

    #[test]
    fn one_request_that_is_not_done_is_stuck_about_once_a_second() {
        let mut liveness = watch(&[], Side::Send, None);
        assert!(!liveness.is_stuck(7), "it was only just tested");
        liveness.stuck = liveness.stuck.map(|(number, since)| (number, since - LOOK_AFTER));
        assert!(liveness.is_stuck(7));
        assert!(!liveness.is_stuck(7), "it was looked after");
        liveness.stuck = liveness.stuck.map(|(number, since)| (number, since - LOOK_AFTER));
        assert!(!liveness.is_stuck(8), "another one moves");
    }

    #[test]
    fn a_reset_socket_is_dead_once_its_bytes_are_read() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("address");
        let mut left = TcpStream::connect(address).expect("connects");
        let (mut right, _) = listener.accept().expect("it has come");
        let mut liveness = watch(&[&left], Side::Recv, Some(3_600 * SECOND));
        assert!(liveness.check([&left].into_iter(), true).is_none(), "it is idle");
        right.write_all(b"last").expect("room");
        while left.peek(&mut [0; 4]).expect("bytes") < 4 {}
        SockRef::from(&right).set_linger(Some(Duration::ZERO)).expect("linger");
        drop(right);
        let give_up_at = Instant::now() + 60 * SECOND;
        while !TcpState::of(&left).expect("info").is_closed {
            assert!(Instant::now() < give_up_at);
        }
        assert!(liveness.check([&left].into_iter(), true).is_none(), "four bytes are left");
        assert!(liveness.check([&left].into_iter(), false).is_none());
        left.read_exact(&mut [0; 4]).expect("they came before the reset");
        let dead = liveness.check([&left].into_iter(), true);
        assert!(matches!(dead, Some((0, SocketDeath::Closed(_)))), "{dead:?}");
        assert!(liveness.is_dead() && liveness.check([&left].into_iter(), true).is_none());
    }
}
