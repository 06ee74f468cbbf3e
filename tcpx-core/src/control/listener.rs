//! The control listener, and the inbound handshakes: connections that have not become peers yet.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use crate::control::admission::{Admission, MAX_HANDSHAKES, Occupant, admit};
use crate::control::identity::Identity;
use crate::control::inbound_handshake::{HandshakeState, InboundHandshake};
use crate::error::{Error, Result};

/// Connections taken from the system in one round.
const ACCEPTS_PER_ROUND: usize = 64;
/// How often the listener is asked for new connections.
const LISTEN_INTERVAL: Duration = Duration::from_millis(1);
/// Time until the listener is asked again after it has failed. Mostly the process has no file
/// descriptor left.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// How long a connection may take to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

fn occupant(handshake: &InboundHandshake) -> Occupant {
    let (is_proven, is_silent) = (handshake.is_proven(), handshake.is_silent());
    Occupant { from: handshake.from(), is_proven, is_silent }
}

/// The listener and its table of handshakes.
#[derive(Debug)]
pub(crate) struct ControlListener {
    listener: TcpListener,
    /// When the listener is asked for connections again.
    listen_next: Option<Instant>,
    /// The listener's last answer was an error, which was logged.
    is_failing: bool,
    /// In the order in which they came.
    handshakes: Vec<InboundHandshake>,
    hello_timeout: Duration,
}

impl ControlListener {
    /// Listens at an address. Port 0 lets the system choose one.
    pub(crate) fn listen(address: SocketAddr) -> Result<Self> {
        let bind = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true).map(|()| listener)
        };
        let listener =
            bind().map_err(|error| Error::io(format!("listening on {address}"), &error))?;
        Ok(Self {
            listener,
            listen_next: None,
            is_failing: false,
            handshakes: Vec::new(),
            hello_timeout: HELLO_TIMEOUT,
        })
    }

    /// The address and port at which it listens.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        self.listener
            .local_addr()
            .map_err(|error| Error::io("asking for the listener's address", &error))
    }

    /// Accepts new connections and drives every handshake one step. Returns whether anything moved.
    pub(crate) fn progress(&mut self, now: Instant, identity: &Identity) -> bool {
        let mut moved = false;
        if self.listen_next.is_none_or(|next| now >= next) {
            moved = self.accept(now, identity);
            let pause = if self.is_failing { RETRY_INTERVAL } else { LISTEN_INTERVAL };
            self.listen_next = Some(now + pause);
        }
        self.handshakes.retain_mut(|handshake| match handshake.poll(now, identity) {
            HandshakeState::AwaitingHello | HandshakeState::Proven => true,
            HandshakeState::Refused(reason) => {
                tracing::warn!(from = handshake.address(), reason, "control connection refused");
                false
            }
        });
        moved
    }

    fn accept(&mut self, now: Instant, identity: &Identity) -> bool {
        let mut moved = false;
        for _ in 0..ACCEPTS_PER_ROUND {
            // While all are proven and wait to become peers, new ones wait in the system's queue.
            if self.handshakes.len() >= MAX_HANDSHAKES
                && self.handshakes.iter().all(InboundHandshake::is_proven)
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
                    match InboundHandshake::start(
                        stream,
                        address.ip(),
                        self.hello_timeout,
                        now,
                        identity,
                    ) {
                        Ok(new) => self.handshakes.push(new),
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
        let table: Vec<Occupant> = self.handshakes.iter().map(occupant).collect();
        match admit(from, &table) {
            Admission::Free => true,
            Admission::Evict(index) => {
                let evicted = self.handshakes.remove(index);
                let from = evicted.address();
                tracing::warn!(from, "control connection evicted for a newer one");
                true
            }
            Admission::Full => false,
        }
    }

    /// Takes out the oldest handshake that is proven.
    pub(crate) fn take_proven(&mut self) -> Option<InboundHandshake> {
        let index = self.handshakes.iter().position(InboundHandshake::is_proven)?;
        Some(self.handshakes.remove(index))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;
    use crate::control::admission::MAX_UNPROVEN_PER_ADDRESS;
    use crate::control::conn_info::ConnInfo;
    use crate::control::connector::Connector;
    use crate::settings::SessionOptions;

    fn identity() -> Identity {
        Identity::new(&SessionOptions::default(), "TCPXSoft_v7").expect("random bytes")
    }

    /// No connection is refused for being late here: each has an hour.
    #[test]
    fn a_peer_comes_in_past_silent_connections_on_real_sockets() {
        let (ours, theirs) = (identity(), identity());
        let mut listener = ControlListener::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        listener.hello_timeout = Duration::from_secs(3_600);
        let address = listener.address().unwrap();
        let mut silent = Vec::new();
        for _ in 0..2 * MAX_HANDSHAKES {
            silent.push(TcpStream::connect(address).unwrap());
            listener.progress(Instant::now(), &ours);
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
            listener.progress(now, &ours);
            if let Some(proven) = listener.take_proven() {
                break proven;
            }
        };
        assert!(proven.is_proven() && listener.handshakes.len() <= MAX_UNPROVEN_PER_ADDRESS);
        drop(silent);
    }
}
