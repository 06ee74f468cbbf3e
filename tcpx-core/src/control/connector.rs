//! Connecting end of a handshake: reaches one of the peer's addresses and proves the secret.
//!
//! A slow address does not block the attempt: the next one is tried beside it. The listener that
//! speaks first is the peer's. A listener without room says so, and is tried again.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_protocol::frames::handshake_frame::{HandshakeFrame, Introduction};
use tcpx_protocol::frames::hello::{Agreement, HandshakeError, Hello, Nonce, Proven, Role};
use tcpx_protocol::types::memory::Device;

use crate::control::approach::{
    Approach, ApproachStep, gone, lost, refused, refused_by, unexpected,
};
use crate::control::identity::{ChannelClaim, Identity, ProvenLink, random};
use crate::control::key_exchange::{KeyExchange, KeyExchangeStep};
use crate::control::socket::{LinkError, LinkSocket};
use crate::error::{DialFailure, Error, Result};
use crate::reactor::Attention;
use crate::reactor::poller::{Poller, Target};

/// Time that the tried addresses may take before the next one is tried beside them.
const STAGGER: Duration = Duration::from_millis(250);
/// First pause before a listener that had no room is tried again. [`LONGEST_PAUSE`] is the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(640);

/// Hello that was said.
#[derive(Debug)]
struct SentHello {
    nonce: Nonce,
    channels: ChannelClaim,
}

/// Progress of the attempt.
#[derive(Debug)]
enum AddressAttempt {
    /// These addresses are being tried. At this time the next one is tried beside them.
    Approaching(Vec<Approach>, Instant),
    /// A listener had no room. All addresses are tried again at this time.
    Pause(Instant),
    /// The ends exchange keys, because the link is to be encrypted.
    ExchangingKeys(KeyExchange),
    /// This hello was said, and the listener's welcome is awaited.
    AwaitWelcome(LinkSocket, SentHello),
    /// No address has led to the peer. The attempt fails with this error unless the peer connects
    /// by this time.
    AwaitPeer(Error, Instant),
}

impl AddressAttempt {
    fn new() -> Self {
        Self::Approaching(Vec::new(), Instant::now())
    }
}

/// Peer that was reached and has proven itself.
#[derive(Debug)]
pub(crate) struct ReachedPeer {
    pub(crate) proven: ProvenLink,
    /// Nonce of the hello that the peer gives up for this link.
    pub(crate) given_up: Option<Nonce>,
}

/// One attempt to reach a peer, over all its addresses.
#[derive(Debug)]
pub(crate) struct Connector {
    info: ConnInfo,
    /// Number of this connection among those of the two sessions.
    connection: u16,
    /// Number of addresses tried so far.
    tried: usize,
    /// Whether a listener has no room for this end now.
    is_busy: bool,
    /// Length of the next pause.
    pause: Duration,
    attempt: AddressAttempt,
    /// Failure of each address so far.
    failures: Vec<DialFailure>,
    has_awaited_peer: bool,
}

impl Connector {
    /// Makes an attempt. The first poll dials.
    pub(crate) fn new(info: ConnInfo, connection: u16) -> Self {
        Self {
            info,
            connection,
            tried: 0,
            is_busy: false,
            pause: FIRST_PAUSE,
            attempt: AddressAttempt::new(),
            failures: Vec::new(),
            has_awaited_peer: false,
        }
    }

    /// Returns the connection info of the peer.
    pub(crate) fn info(&self) -> &ConnInfo {
        &self.info
    }

    /// Returns the number of this connection among those of the two sessions.
    pub(crate) fn connection(&self) -> u16 {
        self.connection
    }

    /// Returns the nonce of the hello that was said and is not answered yet.
    pub(crate) fn unanswered(&self) -> Option<Nonce> {
        match &self.attempt {
            AddressAttempt::AwaitWelcome(_, said) => Some(said.nonce),
            _ => None,
        }
    }

    /// Waits until `until` for the peer to connect by itself, because no address has led to the
    /// peer. Does so once. Returns false if the attempt has waited already, or if the error is
    /// another one.
    pub(crate) fn await_peer(&mut self, error: &Error, until: Instant) -> bool {
        let is_new = !mem::replace(&mut self.has_awaited_peer, true);
        let waits = is_new && matches!(error, Error::Unreachable { .. });
        if waits {
            self.attempt = AddressAttempt::AwaitPeer(error.clone(), until);
        }
        waits
    }

    /// Returns why no address has led to the peer, while the peer may still connect.
    pub(crate) fn why_unreached(&self) -> Option<&Error> {
        match &self.attempt {
            AddressAttempt::AwaitPeer(error, _) => Some(error),
            _ => None,
        }
    }

    /// Returns what the attempt waits for, in words for errors: "the peer is ...".
    pub(crate) fn state(&self) -> &'static str {
        match &self.attempt {
            AddressAttempt::Approaching(ways, _) if !ways.iter().any(Approach::is_connected) => {
                "being dialled"
            }
            AddressAttempt::Pause(_) => {
                "there, but too many others come to its session now; it is asked again and again"
            }
            AddressAttempt::Approaching(..) => {
                "connected, but its session has not answered: it makes progress only inside calls such as accept, or by a \
                 progress thread"
            }
            AddressAttempt::ExchangingKeys(_) => "connected, and exchanges keys",
            AddressAttempt::AwaitWelcome(..) => {
                "greeted, but its session has not welcomed this one: it makes no progress, too many wait for its accept, \
                 or a connect of its own to this session is not answered"
            }
            AddressAttempt::AwaitPeer(..) => {
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
    ) -> Result<Option<ReachedPeer>> {
        match mem::replace(&mut self.attempt, AddressAttempt::new()) {
            AddressAttempt::Approaching(ways, next_at) => {
                self.approach(ways, next_at, peer, now, identity)?;
            }
            AddressAttempt::Pause(until) if now < until => {
                self.attempt = AddressAttempt::Pause(until)
            }
            // The attempt begins anew.
            AddressAttempt::Pause(_) => {}
            AddressAttempt::ExchangingKeys(exchange) => {
                self.exchange_keys(exchange.step(now), peer, now, identity)?;
            }
            AddressAttempt::AwaitWelcome(link, said) => {
                return self.await_welcome(link, said, peer, now, identity);
            }
            AddressAttempt::AwaitPeer(error, until) if now < until => {
                self.attempt = AddressAttempt::AwaitPeer(error, until);
            }
            AddressAttempt::AwaitPeer(error, _) => return Err(error),
        }
        Ok(None)
    }

    /// Registers the attempt's sockets with the poller.
    pub(crate) fn watch(&mut self, poller: &Arc<Poller>, target: Target) {
        match &mut self.attempt {
            AddressAttempt::Pause(_) | AddressAttempt::AwaitPeer(..) => {}
            AddressAttempt::Approaching(ways, _) => {
                ways.iter_mut().for_each(|way| way.watch(poller, target));
            }
            AddressAttempt::ExchangingKeys(exchange) => exchange.watch(poller, target),
            AddressAttempt::AwaitWelcome(link, _) => link.watch(poller, target),
        }
    }

    /// Returns when to poll the attempt, if no event comes earlier.
    pub(crate) fn attention(&self) -> Attention {
        let nothing = Attention::default();
        match &self.attempt {
            AddressAttempt::Approaching(ways, _) if ways.is_empty() => {
                Attention { again: true, ..nothing }
            }
            AddressAttempt::Approaching(ways, next_at) => {
                let is_more = self.tried < self.info.addresses.len();
                let first = Attention { timeout: is_more.then_some(*next_at), ..nothing };
                ways.iter().map(Approach::attention).fold(first, Attention::with)
            }
            AddressAttempt::ExchangingKeys(exchange) => exchange.attention(),
            AddressAttempt::AwaitWelcome(link, _) => {
                Attention { again: link.has_more(), polls: link.must_be_polled(), ..nothing }
            }
            AddressAttempt::Pause(until) | AddressAttempt::AwaitPeer(_, until) => {
                Attention { timeout: Some(*until), ..nothing }
            }
        }
    }

    /// Drives all approaches, and begins the next one when they take long or have failed.
    fn approach(
        &mut self,
        ways: Vec<Approach>,
        mut next_at: Instant,
        peer: &str,
        now: Instant,
        identity: &Identity,
    ) -> Result<()> {
        // Before anything is said.
        let is_encrypted = identity
            .encryption
            .agree(self.info.encryption)
            .map_err(|mismatch| refused(peer, &mismatch.into()))?;
        let mut pending = Vec::new();
        for way in ways {
            match way.step(now, identity.host_timeout) {
                ApproachStep::Pending(way) => pending.push(way),
                ApproachStep::Failed(failure) => self.failures.push(failure),
                ApproachStep::Heard(link, HandshakeFrame::Challenge(challenge)) => {
                    // The other approaches end here.
                    let nonce = challenge.check().map_err(|error| refused(peer, &error))?;
                    if !is_encrypted {
                        return self.send_hello(link, &nonce, identity);
                    }
                    let exchange = KeyExchange::begin(link, &nonce, (peer, &self.info), identity)?;
                    self.attempt = AddressAttempt::ExchangingKeys(exchange);
                    return Ok(());
                }
                ApproachStep::Heard(_, HandshakeFrame::Refuse(reason)) => {
                    return Err(refused_by(peer, &reason));
                }
                ApproachStep::Heard(_, HandshakeFrame::Busy) => self.is_busy = true,
                ApproachStep::Heard(link, frame) => self.failures.push(unexpected(&link, &frame)),
            }
        }
        if pending.is_empty() || now >= next_at {
            while let Some(address) = self.info.addresses.get(self.tried) {
                self.tried += 1;
                match Approach::start(*address, now + identity.dial_timeout) {
                    Ok(way) => {
                        pending.push(way);
                        next_at = now + STAGGER;
                        break;
                    }
                    Err(failure) => self.failures.push(failure),
                }
            }
        }
        if !pending.is_empty() {
            self.attempt = AddressAttempt::Approaching(pending, next_at);
            return Ok(());
        }
        if self.is_busy {
            self.pause(now);
            return Ok(());
        }
        let attempts = mem::take(&mut self.failures);
        Err(Error::Unreachable { peer: peer.to_owned(), attempts })
    }

    /// Schedules a retry of all addresses. Each pause is longer than the one before, and spread at
    /// random: ends of one flood do not return together.
    fn pause(&mut self, now: Instant) {
        let [spread, ..] = random().unwrap_or([128; 32]);
        self.attempt =
            AddressAttempt::Pause(now + self.pause.mul_f64(0.5 + f64::from(spread) / 255.0));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        (self.tried, self.is_busy) = (0, false);
        self.failures.clear();
    }

    fn send_hello(
        &mut self,
        mut link: LinkSocket,
        theirs: &Nonce,
        identity: &Identity,
    ) -> Result<()> {
        let (nonce, channels) = (random()?, identity.claim_channels());
        let to = Device::of_session(&self.info.session).number().unwrap_or_default();
        let (connection, nics) = (self.connection, identity.nics.links(link.local_ip()));
        let hello = Hello { to, connection, nics, ..identity.hello(nonce, channels.count()) };
        let proven = hello.prove(Role::Connector, theirs, &self.info.secret);
        let said = SentHello { nonce, channels };
        let introduction = Introduction::new(proven, &identity.secret);
        link.queue(&HandshakeFrame::Hello(Box::new(introduction)));
        self.attempt = AddressAttempt::AwaitWelcome(link, said);
        Ok(())
    }

    /// Acts on a step of the exchange of keys.
    fn exchange_keys(
        &mut self,
        step: KeyExchangeStep,
        peer: &str,
        now: Instant,
        identity: &Identity,
    ) -> Result<()> {
        match step {
            KeyExchangeStep::Pending(exchange) => {
                self.attempt = AddressAttempt::ExchangingKeys(exchange);
            }
            KeyExchangeStep::Done(link, nonce) => return self.send_hello(link, &nonce, identity),
            KeyExchangeStep::Heard(_, HandshakeFrame::Busy) => self.pause(now),
            KeyExchangeStep::Heard(_, HandshakeFrame::Refuse(reason)) => {
                return Err(refused_by(peer, &reason));
            }
            KeyExchangeStep::Heard(link, frame) => self.failures.push(unexpected(&link, &frame)),
            KeyExchangeStep::Lost(_, LinkError::Gone(how)) => return Err(gone(peer, how)),
            KeyExchangeStep::Lost(link, error) => self.failures.push(lost(&link, &error)),
            KeyExchangeStep::Failed(problem) => {
                return Err(Error::Encryption { peer: peer.to_owned(), problem });
            }
        }
        Ok(())
    }

    fn await_welcome(
        &mut self,
        mut link: LinkSocket,
        said: SentHello,
        peer: &str,
        now: Instant,
        identity: &Identity,
    ) -> Result<Option<ReachedPeer>> {
        // Bytes that the listener sent before it hung up are still unread.
        let flushed = link.flush();
        match link.receive(now) {
            Ok(None) => match flushed {
                Ok(_) => self.attempt = AddressAttempt::AwaitWelcome(link, said),
                Err(error) => self.failures.push(lost(&link, &error)),
            },
            Ok(Some(HandshakeFrame::Busy)) => self.pause(now),
            Ok(Some(HandshakeFrame::Welcome(proven))) => {
                let agreement = self
                    .check_welcome(&proven, &said, identity)
                    .and_then(|agreement| agreement.of_link(link.is_encrypted()))
                    .map_err(|error| refused(peer, &error))?;
                let Hello { nics: peer_nics, instead_of: given_up, .. } = proven.hello;
                let mut channels = said.channels;
                channels.keep(agreement.channels);
                let proven = ProvenLink { link, agreement, channels, peer_nics };
                return Ok(Some(ReachedPeer { proven, given_up }));
            }
            Ok(Some(HandshakeFrame::Refuse(reason))) => return Err(refused_by(peer, &reason)),
            Err(LinkError::Gone(how)) => match link.answer_in_clear() {
                Some(HandshakeFrame::Refuse(reason)) => return Err(refused_by(peer, &reason)),
                Some(HandshakeFrame::Busy) => self.pause(now),
                _ => return Err(gone(peer, how)),
            },
            Ok(Some(frame)) => self.failures.push(unexpected(&link, &frame)),
            Err(error) => self.failures.push(lost(&link, &error)),
        }
        Ok(None)
    }

    fn check_welcome(
        &self,
        proven: &Proven,
        said: &SentHello,
        identity: &Identity,
    ) -> std::result::Result<Agreement, HandshakeError> {
        proven.verify(Role::Listener, &said.nonce, &self.info.secret)?;
        if proven.hello.session != self.info.session {
            return Err(HandshakeError::Proof);
        }
        identity.hello(said.nonce, said.channels.count()).agree(&proven.hello)
    }
}
