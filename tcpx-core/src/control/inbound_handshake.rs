//! Listening end of a handshake: one accepted connection, and what the other end has proven.

use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use tcpx_protocol::frames::handshake_frame::{HandshakeFrame, Introduction, TlsOpening};
use tcpx_protocol::frames::hello::{Agreement, Challenge, HandshakeError, Hello, Nonce, Role};
use tcpx_protocol::types::encryption::EncryptionMismatch;

use crate::control::epoll_set::Interest;
use crate::control::identity::{ChannelClaim, Identity, ProvenLink, random};
use crate::control::socket::{LinkError, LinkSocket};
use crate::control::tls::{self, PeerCredential, TlsHandshake};
use crate::error::{EncryptionProblem, Error, Result};

/// Accepted connection that is not a peer yet.
#[derive(Debug)]
pub(crate) struct InboundHandshake {
    link: LinkSocket,
    from: IpAddr,
    /// What the hello must answer: the challenge, or on an encrypted link what both ends have from
    /// their exchange of keys.
    nonce: Nonce,
    /// Exchange of keys that is under way.
    exchange: Option<Box<TlsHandshake>>,
    /// What the other end has proven itself with, on an encrypted link.
    credential: Option<PeerCredential>,
    since: Instant,
    due: Duration,
    proven: Option<(Box<Introduction>, Agreement, ChannelClaim)>,
    /// Number of times that the handshake was driven.
    #[cfg(test)]
    pub(crate) polls: usize,
}

/// Peer that was welcomed.
#[derive(Debug)]
pub(crate) struct Welcomed {
    pub(crate) proven: ProvenLink,
    pub(crate) introduction: Box<Introduction>,
}

/// Progress of a handshake.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HandshakeState {
    /// The other end has not said hello yet.
    AwaitingHello,
    /// The other end knows the secret and is compatible.
    Proven,
    /// The connection is to be dropped, for this reason.
    Refused(String),
    /// The other end has left and is not needed: it had said nothing, or has not waited for the
    /// answer to its hello.
    Left,
}

/// Reason why the other end is sent away.
#[derive(Debug)]
enum Refusal {
    /// It has said what it must not say now, and gets no answer.
    Unheard,
    /// It gets this reason.
    Told(String),
}

impl From<HandshakeError> for Refusal {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Encryption(mismatch) => mismatch.into(),
            error => Self::Told(error.to_string()),
        }
    }
}

impl From<EncryptionMismatch> for Refusal {
    fn from(mismatch: EncryptionMismatch) -> Self {
        EncryptionProblem::from(mismatch).into()
    }
}

impl From<EncryptionProblem> for Refusal {
    fn from(problem: EncryptionProblem) -> Self {
        Self::Told(problem.text_for_peer())
    }
}

impl InboundHandshake {
    /// Begins with a new connection. The first poll sends the challenge. The hello is due at
    /// `due`, on the listener's clock.
    pub(crate) fn start(
        stream: TcpStream,
        from: IpAddr,
        due: Duration,
        now: Instant,
        identity: &Identity,
    ) -> Result<Self> {
        let mut link = LinkSocket::new(stream, identity.host_timeout, now)
            .map_err(|error| Error::io("accepting a control connection", &error))?;
        let nonce = random()?;
        link.queue(&HandshakeFrame::Challenge(Challenge::new(nonce)));
        Ok(Self {
            link,
            from,
            nonce,
            exchange: None,
            credential: None,
            since: now,
            due,
            proven: None,
            #[cfg(test)]
            polls: 0,
        })
    }

    /// Drives the handshake one step, because the socket is readable or writable.
    pub(crate) fn poll(&mut self, now: Instant, identity: &Identity) -> HandshakeState {
        #[cfg(test)]
        {
            self.polls += 1;
        }
        let mut outcome = self.link.flush().and_then(|_| self.link.receive(now));
        loop {
            return match (outcome, &self.proven) {
                (Ok(None), Some(_)) => HandshakeState::Proven,
                (Ok(None), None) => HandshakeState::AwaitingHello,
                (Ok(Some(frame)), _) => match self.hear(frame, identity) {
                    Ok(()) => {
                        outcome = match self.is_proven() {
                            // The other end may have left since: it has given its hello up.
                            true => self.link.receive(now),
                            // More frames may have come in the same read, which the socket does not
                            // report again.
                            false => self.link.next_frame(),
                        };
                        continue;
                    }
                    Err(Refusal::Unheard) => {
                        HandshakeState::Refused("it said something else than hello".into())
                    }
                    Err(Refusal::Told(reason)) => {
                        self.link.queue(&HandshakeFrame::Refuse(reason.clone()));
                        let _ = self.link.flush();
                        HandshakeState::Refused(reason)
                    }
                },
                (Err(LinkError::Gone(_)), proven) if self.is_silent() || proven.is_some() => {
                    HandshakeState::Left
                }
                (Err(LinkError::Gone(how)), _) => HandshakeState::Refused(how.to_string()),
                (Err(LinkError::Frame(error)), _) => HandshakeState::Refused(format!(
                    "it does not speak the control link protocol: {error}"
                )),
            };
        }
    }

    /// Acts on a frame of the other end.
    fn hear(
        &mut self,
        frame: HandshakeFrame,
        identity: &Identity,
    ) -> std::result::Result<(), Refusal> {
        match (frame, &mut self.exchange) {
            _ if self.proven.is_some() => Err(Refusal::Unheard),
            (HandshakeFrame::Hello(said), None) => {
                let (agreement, channels) = self.check(&said, identity)?;
                self.proven = Some((said, agreement, channels));
                Ok(())
            }
            (HandshakeFrame::Opening(opening), None) if self.credential.is_none() => {
                self.open(&opening, identity)
            }
            (HandshakeFrame::Tls(bytes), Some(_)) => self.exchange_keys(&bytes),
            _ => Err(Refusal::Unheard),
        }
    }

    /// Begins to exchange keys with an end that proves the secret. Until then the connection has
    /// cost one MAC.
    fn open(
        &mut self,
        opening: &TlsOpening,
        identity: &Identity,
    ) -> std::result::Result<(), Refusal> {
        opening.verify(&self.nonce, &identity.secret)?;
        if !identity.encryption.agree(opening.encryption)? {
            return Err(HandshakeError::LinkEncryption(true).into());
        }
        let credentials = &identity.credentials;
        credentials.kind().agree(opening.credential).map_err(EncryptionProblem::from)?;
        self.exchange = Some(Box::new(tls::listen(credentials)?));
        Ok(())
    }

    /// Takes bytes of the exchange of keys. When it is done, the link is encrypted.
    fn exchange_keys(&mut self, bytes: &[u8]) -> std::result::Result<(), Refusal> {
        let Some(exchange) = &mut self.exchange else { return Err(Refusal::Unheard) };
        exchange.read(bytes)?;
        for frame in HandshakeFrame::of_tls(&exchange.take_output()) {
            self.link.queue(&frame);
        }
        if let Some(exchange) = self.exchange.take_if(|exchange| exchange.is_done()) {
            let secrets = exchange.finish()?;
            self.nonce = secrets.nonce;
            self.credential = Some(secrets.peer.clone());
            self.link.encrypt(secrets, Role::Listener);
        }
        Ok(())
    }

    /// Returns the time at which the connection came.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Returns the time on the listener's clock at which the hello is due.
    pub(crate) fn due(&self) -> Duration {
        self.due
    }

    /// Returns the events to wait for on the socket.
    pub(crate) fn interest(&self) -> Interest {
        if self.link.unsent_bytes() == 0 { Interest::Read } else { Interest::ReadWrite }
    }

    fn check(
        &self,
        said: &Introduction,
        identity: &Identity,
    ) -> std::result::Result<(Agreement, ChannelClaim), Refusal> {
        said.proven.verify(Role::Connector, &self.nonce, &identity.secret)?;
        if let Some(credential) = &self.credential {
            credential.check(&said.proven.hello)?;
        }
        let (agreement, channels) = agree(said, identity)?;
        Ok((agreement.of_link(self.link.is_encrypted())?, channels))
    }

    /// Moves the handshake to the session with this identity, which the other end asked for instead
    /// of the listening one. Checks whether the two ends are compatible.
    pub(crate) fn hand_to(
        &mut self,
        identity: &Identity,
    ) -> std::result::Result<(), HandshakeError> {
        if let Some((said, agreement, channels)) = &mut self.proven {
            (*agreement, *channels) = agree(said, identity)?;
            agreement.of_link(self.link.is_encrypted())?;
        }
        Ok(())
    }

    /// Turns the connection away for lack of room. The other end may try again.
    pub(crate) fn reject(mut self) {
        self.link.queue(&HandshakeFrame::Busy);
        // A peer that does not take the frame sees the connection close, which says the same.
        let _ = self.link.flush();
    }

    /// Refuses the other end, and sends it the reason.
    pub(crate) fn refuse(mut self, reason: String) {
        tracing::warn!(from = %self.address(), reason, "a session was sent away");
        self.link.queue(&HandshakeFrame::Refuse(reason));
        let _ = self.link.flush();
    }

    /// Returns whether the other end knows the secret and is compatible.
    pub(crate) fn is_proven(&self) -> bool {
        self.proven.is_some()
    }

    /// Returns the introduction of the other end, once it is proven.
    pub(crate) fn introduction(&self) -> Option<&Introduction> {
        self.proven.as_ref().map(|(introduction, ..)| &**introduction)
    }

    /// Returns whether the other end has sent nothing at all.
    fn is_silent(&self) -> bool {
        !self.link.has_heard()
    }

    /// Returns the address that the connection came from.
    pub(crate) fn from(&self) -> IpAddr {
        self.from
    }

    /// Returns address and port of the other end, in words.
    pub(crate) fn address(&self) -> String {
        self.link.peer_address()
    }

    /// Welcomes a proven peer. `instead_of` is the nonce of this end's own hello to the peer, if
    /// this link takes the place of that connection.
    pub(crate) fn welcome(
        mut self,
        identity: &Identity,
        instead_of: Option<Nonce>,
    ) -> Option<Welcomed> {
        let (introduction, agreement, channels) = self.proven?;
        let nics = identity.nics.links(self.link.local_ip());
        let hello = Hello { instead_of, nics, ..identity.hello(random().ok()?, channels.count()) };
        let welcome = hello.prove(Role::Listener, introduction.nonce(), &identity.secret);
        self.link.queue(&HandshakeFrame::Welcome(Box::new(welcome)));
        let peer_nics = introduction.proven.hello.nics.clone();
        let proven = ProvenLink { link: self.link, agreement, channels, peer_nics };
        Some(Welcomed { proven, introduction })
    }
}

impl AsFd for InboundHandshake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}
/// Returns what both ends will use, and the channels that this end takes. The welcome offers
/// exactly these channels, so both ends come to the same number.
fn agree(
    said: &Introduction,
    identity: &Identity,
) -> std::result::Result<(Agreement, ChannelClaim), HandshakeError> {
    let mut channels = identity.claim_channels();
    let agreement = identity.hello([0; 32], channels.count()).agree(&said.proven.hello)?;
    channels.keep(agreement.channels);
    Ok((agreement, channels))
}
