//! The control listener, and the connections that came in and have not become peers.
//!
//! Nobody can fill the table: an address has a share of it, and where there is no room the oldest connection that has
//! not proven itself gives way, a silent one first.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use crate::control::identity::Identity;
use crate::control::incoming::{Incoming, Reception};
use crate::error::{Error, Result};

/// Connections that are not peers yet. More wait in the system's queue.
const MAX_STRANGERS: usize = 256;
/// Those of one address that have not proven themselves.
const MAX_OF_ADDRESS: usize = 64;
/// Connections taken from the system in one round.
const ACCEPTS_PER_ROUND: usize = 64;
/// How often the listener is asked for new connections.
const LISTEN_INTERVAL: Duration = Duration::from_millis(1);
/// Time until the listener is asked again after it has failed, mostly because the process has no file descriptor left.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// How long a stranger may take to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// What the table knows of one connection when it looks who gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stranger {
    from: IpAddr,
    is_proven: bool,
    is_silent: bool,
}

/// Who gives way to a new connection from an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Free,
    /// After the connection at this place has gone.
    Instead(usize),
    /// Everybody in the table has proven itself.
    None,
}

/// Looks for room for one more connection from `from`. `strangers` are in the order in which they came.
fn room_for(from: IpAddr, strangers: &[Stranger]) -> Room {
    let unproven = |of: Option<IpAddr>| {
        move |stranger: &Stranger| !stranger.is_proven && of.is_none_or(|ip| ip == stranger.from)
    };
    let of_address = strangers.iter().filter(|stranger| unproven(Some(from))(stranger)).count();
    let whose = match (of_address >= MAX_OF_ADDRESS, strangers.len() >= MAX_STRANGERS) {
        (true, _) => Some(from),
        (false, true) => None,
        (false, false) => return Room::Free,
    };
    let may_go = unproven(whose);
    let silent = strangers.iter().position(|stranger| may_go(stranger) && stranger.is_silent);
    let oldest = silent.or_else(|| strangers.iter().position(&may_go));
    oldest.map_or(Room::None, Room::Instead)
}

/// The listener and its strangers.
#[derive(Debug)]
pub(crate) struct ControlListener {
    listener: TcpListener,
    listen_next: Option<Instant>,
    /// The listener's last answer was an error, which was logged.
    is_failing: bool,
    connections: Vec<Incoming>,
    patience: Duration,
}

impl ControlListener {
    /// Listens.
    pub(crate) fn listen(address: SocketAddr) -> Result<Self> {
        let bind = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true).map(|()| listener)
        };
        let listener =
            bind().map_err(|error| Error::io(format!("listening on {address}"), &error))?;
        let connections = Vec::new();
        let patience = HELLO_TIMEOUT;
        Ok(Self { listener, listen_next: None, is_failing: false, connections, patience })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        self.listener
            .local_addr()
            .map_err(|error| Error::io("asking for the listener's address", &error))
    }

    /// Takes connections in and hears what they say. Returns whether anything moved.
    pub(crate) fn progress(&mut self, now: Instant, identity: &Identity) -> bool {
        let mut moved = false;
        if self.listen_next.is_none_or(|next| now >= next) {
            moved = self.accept(now, identity);
            let pause = if self.is_failing { RETRY_INTERVAL } else { LISTEN_INTERVAL };
            self.listen_next = Some(now + pause);
        }
        self.connections.retain_mut(|incoming| match incoming.poll(now, identity) {
            Reception::Waiting | Reception::Proven => true,
            Reception::Refused(reason) => {
                tracing::warn!(from = incoming.address(), reason, "control connection refused");
                false
            }
        });
        moved
    }

    fn accept(&mut self, now: Instant, identity: &Identity) -> bool {
        let mut moved = false;
        for _ in 0..ACCEPTS_PER_ROUND {
            // While everybody has proven itself and waits, newcomers wait in the system's queue.
            if self.connections.len() >= MAX_STRANGERS
                && self.connections.iter().all(Incoming::is_proven)
            {
                break;
            }
            match self.listener.accept() {
                Ok((stream, address)) => {
                    moved = true;
                    self.is_failing = false;
                    if !self.make_room(address.ip()) {
                        tracing::warn!(from = %address, "control connection refused: too many wait");
                        continue;
                    }
                    match Incoming::greet(stream, address.ip(), self.patience, now, identity) {
                        Ok(new) => self.connections.push(new),
                        Err(error) => tracing::warn!(%error, "control connection lost"),
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_failing = false;
                    break;
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.is_failing, true) {
                        tracing::warn!(%error, "accepting control connections fails; it is tried again and again");
                    }
                    break;
                }
            }
        }
        moved
    }

    fn make_room(&mut self, from: IpAddr) -> bool {
        let strangers: Vec<Stranger> = self.connections.iter().map(stranger).collect();
        match room_for(from, &strangers) {
            Room::Free => true,
            Room::Instead(index) => {
                let gone = self.connections.remove(index);
                tracing::warn!(from = gone.address(), "control connection gave way to a newer one");
                true
            }
            Room::None => false,
        }
    }

    /// Takes out the oldest connection that has proven itself.
    pub(crate) fn take_proven(&mut self) -> Option<Incoming> {
        let index = self.connections.iter().position(Incoming::is_proven)?;
        Some(self.connections.remove(index))
    }
}

fn stranger(incoming: &Incoming) -> Stranger {
    let (is_proven, is_silent) = (incoming.is_proven(), incoming.is_silent());
    Stranger { from: incoming.from(), is_proven, is_silent }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;
    use crate::control::conn_info::ConnInfo;
    use crate::control::connector::Connector;
    use crate::settings::SessionOptions;

    fn of(host: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, host])
    }

    fn silent(host: u8) -> Stranger {
        Stranger { from: of(host), is_proven: false, is_silent: true }
    }

    #[test]
    fn the_oldest_silent_stranger_gives_way_and_nobody_who_is_proven() {
        let talking = |host| Stranger { is_silent: false, ..silent(host) };
        let proven = |host| Stranger { is_proven: true, is_silent: false, ..silent(host) };
        let table = |first: &[Stranger], rest: fn(u8) -> Stranger, total: usize| {
            let filler = (0..total - first.len()).map(|n| rest(100 + (n % 100) as u8));
            first.iter().copied().chain(filler).collect::<Vec<_>>()
        };
        for (from, strangers, expected) in [
            (1, vec![], Room::Free),
            (1, table(&[], silent, MAX_STRANGERS - 1), Room::Free),
            (1, table(&[], silent, MAX_STRANGERS), Room::Instead(0)),
            (1, table(&[talking(2), proven(3)], silent, MAX_STRANGERS), Room::Instead(2)),
            (1, table(&[proven(2), talking(3)], talking, MAX_STRANGERS), Room::Instead(1)),
            (1, table(&[], proven, MAX_STRANGERS), Room::None),
            // An address beyond its share only drives its own away.
            (1, vec![silent(1); MAX_OF_ADDRESS - 1], Room::Free),
            (1, [vec![silent(2)], vec![silent(1); MAX_OF_ADDRESS]].concat(), Room::Instead(1)),
            (2, vec![silent(1); MAX_OF_ADDRESS], Room::Free),
            // Those of it that are proven do not count.
            (1, vec![proven(1); MAX_OF_ADDRESS], Room::Free),
        ] {
            assert_eq!(room_for(of(from), &strangers), expected, "{from} to {strangers:?}");
        }
    }

    #[test]
    fn a_flood_of_many_addresses_never_keeps_a_newcomer_out() {
        let mut strangers = Vec::new();
        for step in 0..10 * MAX_STRANGERS {
            let host = (step % 200) as u8;
            match room_for(of(host), &strangers) {
                Room::Free => {}
                Room::Instead(index) => drop(strangers.remove(index)),
                Room::None => panic!("nobody is proven"),
            }
            strangers.push(silent(host));
            assert!(strangers.len() <= MAX_STRANGERS);
        }
    }

    fn identity() -> Identity {
        Identity::new(&SessionOptions::default(), "TCPXSoft_v7").expect("random bytes")
    }

    /// No stranger is turned out for being late here: each has an hour.
    #[test]
    fn a_peer_comes_in_past_silent_strangers_on_real_sockets() {
        let (ours, theirs) = (identity(), identity());
        let mut strangers = ControlListener::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        strangers.patience = Duration::from_secs(3_600);
        let address = strangers.address().unwrap();
        let mut silent = Vec::new();
        for _ in 0..2 * MAX_STRANGERS {
            silent.push(TcpStream::connect(address).unwrap());
            strangers.progress(Instant::now(), &ours);
        }
        let info = ConnInfo {
            session: ours.session,
            secret: ours.secret.clone(),
            addresses: vec![address],
        };
        let mut connector = Connector::new(info);
        let give_up_at = Instant::now() + Duration::from_secs(60);
        let proven = loop {
            let now = Instant::now();
            assert!(now < give_up_at, "the peer is {}", connector.state());
            assert!(connector.poll("ours", now, &theirs).expect("it is let in").is_none());
            strangers.progress(now, &ours);
            if let Some(proven) = strangers.take_proven() {
                break proven;
            }
        };
        assert!(proven.is_proven() && strangers.connections.len() <= MAX_OF_ADDRESS);
        drop(silent);
    }
}
