//! Listening end of a handshake: one accepted connection, and what the other end has proven.

use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use tcpx_protocol::frames::handshake_frame::{HandshakeFrame, Introduction};
use tcpx_protocol::frames::hello::{Agreement, Challenge, HandshakeError, Hello, Nonce, Role};
use tcpx_protocol::frames::records::RecordKeys;

use crate::control::epoll_set::Interest;
use crate::control::identity::{ChannelClaim, Identity, random};
use crate::control::socket::{LinkError, LinkSocket};
use crate::error::{Error, Result};

/// Accepted connection that is not a peer yet.
#[derive(Debug)]
pub(crate) struct InboundHandshake {
    link: LinkSocket,
    from: IpAddr,
    nonce: Nonce,
    since: Instant,
    give_up_at: Instant,
    proven: Option<(Box<Introduction>, Agreement, ChannelClaim)>,
    /// Whether the answer is held back, because this session is connecting to the other one itself.
    is_held: bool,
    /// Number of times that the handshake was driven.
    #[cfg(test)]
    pub(crate) polls: usize,
}

/// Peer that was welcomed.
#[derive(Debug)]
pub(crate) struct Welcomed {
    pub(crate) link: LinkSocket,
    pub(crate) agreement: Agreement,
    pub(crate) introduction: Box<Introduction>,
    pub(crate) channels: ChannelClaim,
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
    /// The other end has left and is not needed: either it had said nothing, or it has another
    /// link.
    Left,
}

impl InboundHandshake {
    /// Begins with a new connection. The first poll sends the challenge. The hello is due at
    /// `give_up_at`.
    pub(crate) fn start(
        stream: TcpStream,
        from: IpAddr,
        give_up_at: Instant,
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
            since: now,
            give_up_at,
            proven: None,
            is_held: false,
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
                (Ok(Some(HandshakeFrame::Hello(said))), None) => {
                    match self.check(&said, identity) {
                        Ok((agreement, channels)) => {
                            self.proven = Some((said, agreement, channels));
                            // More frames may have come in the same read, which the socket does not
                            // report again.
                            outcome = self.link.next_frame();
                            continue;
                        }
                        Err(error) => {
                            self.link.queue(&HandshakeFrame::Refuse(error.to_string()));
                            let _ = self.link.flush();
                            HandshakeState::Refused(error.to_string())
                        }
                    }
                }
                (Ok(Some(_)), _) => {
                    HandshakeState::Refused("it said something else than hello".into())
                }
                (Err(LinkError::Gone(_)), _) if self.is_silent() || self.is_held => {
                    HandshakeState::Left
                }
                (Err(LinkError::Gone(how)), _) => HandshakeState::Refused(how.to_string()),
                (Err(LinkError::Frame(error)), _) => HandshakeState::Refused(format!(
                    "it does not speak the control link protocol: {error}"
                )),
            };
        }
    }

    /// Returns the time at which the connection came.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Returns the time at which the hello is due.
    pub(crate) fn give_up_at(&self) -> Instant {
        self.give_up_at
    }

    /// Returns whether the hello is overdue.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.proven.is_none() && now >= self.give_up_at
    }

    /// Returns the events to wait for on the socket.
    pub(crate) fn interest(&self) -> Interest {
        if self.link.unsent_bytes() == 0 { Interest::Read } else { Interest::ReadWrite }
    }

    fn check(
        &self,
        said: &Introduction,
        identity: &Identity,
    ) -> std::result::Result<(Agreement, ChannelClaim), HandshakeError> {
        said.proven.verify(Role::Connector, &self.nonce, &identity.secret)?;
        agree(said, identity)
    }

    /// Moves the handshake to the session with this identity, which the other end asked for instead
    /// of the listening one. Checks whether the two ends are compatible.
    pub(crate) fn hand_to(
        &mut self,
        identity: &Identity,
    ) -> std::result::Result<(), HandshakeError> {
        if let Some((said, agreement, channels)) = &mut self.proven {
            (*agreement, *channels) = agree(said, identity)?;
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

    /// Holds the answer back. Either this session is connecting to the other one itself, or it has
    /// not seen the previous connection end.
    pub(crate) fn hold(&mut self) {
        self.is_held = true;
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
        let hello = Hello { instead_of, ..identity.hello(random().ok()?, channels.count()) };
        let welcome = hello.prove(Role::Listener, introduction.nonce(), &identity.secret);
        let macs = [introduction.mac(), &welcome.mac];
        let keys =
            agreement.authenticates.then(|| RecordKeys::derive(&identity.secret, macs[0], macs[1]));
        self.link.queue(&HandshakeFrame::Welcome(Box::new(welcome)));
        if let Some(keys) = keys {
            self.link.authenticate(keys, Role::Listener);
        }
        Some(Welcomed { link: self.link, agreement, introduction, channels })
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
