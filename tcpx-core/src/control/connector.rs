//! The connecting end of a handshake: reaches one of the peer's addresses and proves the secret.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::control::conn_info::ConnInfo;
use crate::control::dialing::Dialing;
use crate::control::handshake_frame::HandshakeFrame;
use crate::control::hello::{Agreement, HandshakeError, Hello, Nonce, Proven, Role};
use crate::control::identity::{Identity, random};
use crate::control::introduction::Introduction;
use crate::control::socket::{LinkError, LinkSocket};
use crate::error::{Departure, DialFailure, Error, Phase, Result};
use crate::reactor::attention::Attention;
use crate::reactor::poller::{Poller, Target};
use crate::types::device::Device;

/// How long one address may take to answer a connection request before the next one is tried.
const DIAL_TIMEOUT: Duration = Duration::from_secs(3);

/// How far the attempt at one address has come.
#[derive(Debug)]
enum Attempt {
    /// The next address is to be tried.
    Next,
    /// A connection request is under way.
    Dialing(Dialing),
    /// Connected; the listener's challenge is to come.
    AwaitChallenge(LinkSocket),
    /// Said hello with this nonce; the listener's welcome is to come.
    AwaitWelcome(LinkSocket, Nonce),
    /// No address has led to the peer: this error, unless the peer comes in by this time.
    AwaitPeer(Error, Instant),
}

/// A peer that was reached and has proven itself.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) link: LinkSocket,
    pub(crate) agreement: Agreement,
    /// The hello that the peer gives up for this link.
    pub(crate) given_up: Option<Nonce>,
}

/// One attempt to reach a peer, over all its addresses.
#[derive(Debug)]
pub(crate) struct Connector {
    info: ConnInfo,
    /// Which connection of the two sessions it is to be.
    connection: u16,
    /// Addresses tried so far.
    tried: usize,
    attempt: Attempt,
    /// What went wrong with each address so far.
    failures: Vec<DialFailure>,
    has_awaited_peer: bool,
}

impl Connector {
    /// An attempt that has not begun: the first poll dials.
    pub(crate) fn new(info: ConnInfo, connection: u16) -> Self {
        Self {
            info,
            connection,
            tried: 0,
            attempt: Attempt::Next,
            failures: Vec::new(),
            has_awaited_peer: false,
        }
    }

    /// Where it leads to.
    pub(crate) fn info(&self) -> &ConnInfo {
        &self.info
    }

    /// Which connection of the two sessions it is to be.
    pub(crate) fn connection(&self) -> u16 {
        self.connection
    }

    /// The hello that was said and is not answered yet.
    pub(crate) fn unanswered(&self) -> Option<Nonce> {
        match self.attempt {
            Attempt::AwaitWelcome(_, nonce) => Some(nonce),
            _ => None,
        }
    }

    /// No address has led to the peer: waits until `until` for the peer to come in by itself, once.
    /// False: that is what it has done, or the error is another one.
    pub(crate) fn await_peer(&mut self, error: &Error, until: Instant) -> bool {
        let is_new = !mem::replace(&mut self.has_awaited_peer, true);
        let waits = is_new && matches!(error, Error::Unreachable { .. });
        if waits {
            self.attempt = Attempt::AwaitPeer(error.clone(), until);
        }
        waits
    }

    /// Why no address has led to the peer, while it may still come in.
    pub(crate) fn why_unreached(&self) -> Option<&Error> {
        match &self.attempt {
            Attempt::AwaitPeer(error, _) => Some(error),
            _ => None,
        }
    }

    /// What the attempt waits for, in words for errors: "the peer is ...".
    pub(crate) fn state(&self) -> &'static str {
        match self.attempt {
            Attempt::Next | Attempt::Dialing(_) => "being dialled",
            Attempt::AwaitChallenge(_) => {
                "connected, but its session has not answered: it makes progress only inside calls such as accept, or by a \
                 progress thread"
            }
            Attempt::AwaitWelcome(..) => {
                "greeted, but its session has not welcomed this one: it makes no progress, too many wait for its accept, \
                 or a connect of its own to this session is not answered"
            }
            Attempt::AwaitPeer(..) => {
                "reached at none of its addresses, and has not come in by itself"
            }
        }
    }

    /// Drives the attempt one step. Returns the link once the peer is proven.
    pub(crate) fn poll(
        &mut self,
        peer: &str,
        now: Instant,
        identity: &Identity,
    ) -> Result<Option<Reached>> {
        match mem::replace(&mut self.attempt, Attempt::Next) {
            Attempt::Next => self.dial_next(peer, now)?,
            Attempt::Dialing(dialing) => self.dialing(dialing, now, identity),
            Attempt::AwaitChallenge(link) => self.await_challenge(link, peer, now, identity)?,
            Attempt::AwaitWelcome(link, nonce) => {
                return self.await_welcome(link, nonce, peer, now, identity);
            }
            Attempt::AwaitPeer(error, until) if now < until => {
                self.attempt = Attempt::AwaitPeer(error, until);
            }
            Attempt::AwaitPeer(error, _) => return Err(error),
        }
        Ok(None)
    }

    /// Has the system say when something happens on the attempt's socket.
    pub(crate) fn watch(&mut self, poller: &Arc<Poller>, target: Target) {
        match &mut self.attempt {
            Attempt::Next | Attempt::AwaitPeer(..) => {}
            Attempt::Dialing(dialing) => dialing.watch(poller, target),
            Attempt::AwaitChallenge(link) | Attempt::AwaitWelcome(link, _) => {
                link.watch(poller, target);
            }
        }
    }

    /// When it is to be polled, apart from when something happens.
    pub(crate) fn attention(&self) -> Attention {
        let nothing = Attention::default();
        match &self.attempt {
            Attempt::Next => Attention { again: true, ..nothing },
            Attempt::Dialing(dialing) => Attention {
                polls: dialing.must_be_polled(),
                timeout: Some(dialing.give_up_at),
                ..nothing
            },
            Attempt::AwaitChallenge(link) | Attempt::AwaitWelcome(link, _) => {
                Attention { again: link.has_more(), polls: link.must_be_polled(), ..nothing }
            }
            Attempt::AwaitPeer(_, until) => Attention { timeout: Some(*until), ..nothing },
        }
    }

    fn dial_next(&mut self, peer: &str, now: Instant) -> Result<()> {
        let Some(address) = self.info.addresses.get(self.tried) else {
            let attempts = mem::take(&mut self.failures);
            return Err(Error::Unreachable { peer: peer.to_owned(), attempts });
        };
        self.tried += 1;
        match Dialing::start(*address, now + DIAL_TIMEOUT) {
            Ok(dialing) => self.attempt = Attempt::Dialing(dialing),
            Err(error) => self.failures.push(failed(*address, &error)),
        }
        Ok(())
    }

    fn dialing(&mut self, dialing: Dialing, now: Instant, identity: &Identity) {
        let address = dialing.address;
        let outcome = match dialing.is_connected() {
            Ok(true) => LinkSocket::new(dialing.into_stream(), identity.host_timeout, now)
                .map(Attempt::AwaitChallenge),
            Ok(false) if now < dialing.give_up_at => Ok(Attempt::Dialing(dialing)),
            Ok(false) => Err(std::io::ErrorKind::TimedOut.into()),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(attempt) => self.attempt = attempt,
            Err(error) => self.failures.push(failed(address, &error)),
        }
    }

    fn await_challenge(
        &mut self,
        mut link: LinkSocket,
        peer: &str,
        now: Instant,
        identity: &Identity,
    ) -> Result<()> {
        match link.receive(now) {
            Ok(None) => self.attempt = Attempt::AwaitChallenge(link),
            Ok(Some(HandshakeFrame::Challenge(challenge))) => {
                let theirs = challenge.check().map_err(|error| refused(peer, &error))?;
                let nonce = random()?;
                let to = Device::of_session(&self.info.session).number().unwrap_or_default();
                let hello = Hello { to, connection: self.connection, ..identity.hello(nonce) };
                let proven = hello.prove(Role::Connector, &theirs, &self.info.secret);
                let introduction = Introduction::new(proven, &identity.secret);
                link.queue(&HandshakeFrame::Hello(Box::new(introduction)));
                self.attempt = Attempt::AwaitWelcome(link, nonce);
            }
            Ok(Some(HandshakeFrame::Refuse(reason))) => {
                return Err(refused_by(peer, &reason));
            }
            other => self.give_up_link(&link, &other),
        }
        Ok(())
    }

    fn await_welcome(
        &mut self,
        mut link: LinkSocket,
        nonce: Nonce,
        peer: &str,
        now: Instant,
        identity: &Identity,
    ) -> Result<Option<Reached>> {
        if let Err(error) = link.flush() {
            self.give_up_link(&link, &Err(error));
            return Ok(None);
        }
        match link.receive(now) {
            Ok(None) => self.attempt = Attempt::AwaitWelcome(link, nonce),
            Ok(Some(HandshakeFrame::Welcome(proven))) => {
                let agreement = self
                    .check_welcome(&proven, &nonce, identity)
                    .map_err(|error| refused(peer, &error))?;
                let given_up = proven.hello.instead_of;
                return Ok(Some(Reached { link, agreement, given_up }));
            }
            Ok(Some(HandshakeFrame::Refuse(reason))) => {
                return Err(refused_by(peer, &reason));
            }
            // The link would have ended before if the secret were wrong. So this is the peer, and
            // no other address does better.
            Err(LinkError::Gone(how)) => {
                return Err(Error::PeerGone {
                    peer: peer.to_owned(),
                    phase: Phase::Handshake,
                    how,
                });
            }
            other => self.give_up_link(&link, &other),
        }
        Ok(None)
    }

    fn check_welcome(
        &self,
        proven: &Proven,
        nonce: &Nonce,
        identity: &Identity,
    ) -> std::result::Result<Agreement, HandshakeError> {
        proven.verify(Role::Listener, nonce, &self.info.secret)?;
        if proven.hello.session != self.info.session {
            return Err(HandshakeError::Proof);
        }
        identity.hello(*nonce).agree(&proven.hello)
    }

    /// Something else than the peer answers at this address: goes on to the next one.
    fn give_up_link(
        &mut self,
        link: &LinkSocket,
        what: &std::result::Result<Option<HandshakeFrame>, LinkError>,
    ) {
        let (kind, error) = match what {
            Ok(frame) => (None, format!("unexpected answer {frame:?}")),
            Err(LinkError::Gone(how)) => {
                let kind = if let Departure::LinkFailed { kind, .. } = how { *kind } else { None };
                (kind, how.to_string())
            }
            Err(LinkError::Frame(error)) => {
                (None, format!("it does not speak the control link protocol: {error}"))
            }
        };
        self.failures.push(DialFailure { address: link.peer_address(), kind, error });
    }
}

fn failed(address: SocketAddr, error: &io::Error) -> DialFailure {
    let address = address.to_string();
    DialFailure { address, kind: Some(error.kind()), error: error.to_string() }
}

/// This end refuses the peer.
fn refused(peer: &str, error: &HandshakeError) -> Error {
    Error::Handshake { peer: peer.to_owned(), reason: error.to_string() }
}

/// The peer refuses this end. "Here" and "there" in the reason are the peer's.
fn refused_by(peer: &str, reason: &str) -> Error {
    Error::Handshake { peer: peer.to_owned(), reason: format!("it says: {reason}") }
}
