//! The listening end of a handshake: one connection that came in, and what it has proven.

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

/// One connection that came in and is no peer yet.
#[derive(Debug)]
pub(crate) struct InboundHandshake {
    link: LinkSocket,
    from: IpAddr,
    nonce: Nonce,
    since: Instant,
    give_up_at: Instant,
    proven: Option<(Box<Introduction>, Agreement, ChannelClaim)>,
    /// It is not answered because this session is connecting to the other one itself.
    is_held: bool,
    /// How often it was driven.
    #[cfg(test)]
    pub(crate) polls: usize,
}

/// A peer that was welcomed.
#[derive(Debug)]
pub(crate) struct Welcomed {
    pub(crate) link: LinkSocket,
    pub(crate) agreement: Agreement,
    pub(crate) introduction: Box<Introduction>,
    pub(crate) channels: ChannelClaim,
}

/// How far a handshake has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HandshakeState {
    /// The other end has not said hello yet.
    AwaitingHello,
    /// The other end knows the secret and fits.
    Proven,
    /// The connection is to be dropped, and why.
    Refused(String),
    /// The other end has gone, and nobody misses it: it had said nothing, or has another link.
    Left,
}

impl InboundHandshake {
    /// Begins with a new connection: the first poll sends it the challenge. It should say hello
    /// until `give_up_at`.
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

    /// Drives the handshake one step: there is something to read, or room to write.
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
                            // More may have come with it, which the socket says nothing of.
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

    /// When it came.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// When its time to say hello is over.
    pub(crate) fn give_up_at(&self) -> Instant {
        self.give_up_at
    }

    /// Whether its time to say hello is over.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.proven.is_none() && now >= self.give_up_at
    }

    /// What is waited for on its socket.
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

    /// It has come for the session with this identity, and not for the one that listens: checks
    /// whether the two fit.
    pub(crate) fn hand_to(
        &mut self,
        identity: &Identity,
    ) -> std::result::Result<(), HandshakeError> {
        if let Some((said, agreement, channels)) = &mut self.proven {
            (*agreement, *channels) = agree(said, identity)?;
        }
        Ok(())
    }

    /// There is no room for it now. It may come again.
    pub(crate) fn turn_away(mut self) {
        self.link.queue(&HandshakeFrame::Busy);
        // Whoever does not take it knows as much.
        let _ = self.link.flush();
    }

    /// Sends the other end away.
    pub(crate) fn refuse(mut self, reason: String) {
        tracing::warn!(from = %self.address(), reason, "a session was sent away");
        self.link.queue(&HandshakeFrame::Refuse(reason));
        let _ = self.link.flush();
    }

    /// Whether the other end knows the secret and fits.
    pub(crate) fn is_proven(&self) -> bool {
        self.proven.is_some()
    }

    /// Who came in, once that is proven.
    pub(crate) fn introduction(&self) -> Option<&Introduction> {
        self.proven.as_ref().map(|(introduction, ..)| &**introduction)
    }

    /// It is not answered now: this session is connecting to the other one itself, or has not seen
    /// yet that the connection before has ended.
    pub(crate) fn hold(&mut self) {
        self.is_held = true;
    }

    /// Whether the other end has sent nothing at all.
    fn is_silent(&self) -> bool {
        !self.link.has_heard()
    }

    /// The address that the connection came from.
    pub(crate) fn from(&self) -> IpAddr {
        self.from
    }

    /// Address and port of the other end, in words.
    pub(crate) fn address(&self) -> String {
        self.link.peer_address()
    }

    /// Welcomes a proven peer. `instead_of`: the nonce of this end's own hello to it, if this link
    /// takes the place of that one.
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
/// What this end and the other will use, and the channels that it takes. Those are all that it says
/// in its welcome: both ends come to the same number.
fn agree(
    said: &Introduction,
    identity: &Identity,
) -> std::result::Result<(Agreement, ChannelClaim), HandshakeError> {
    let mut channels = identity.claim_channels();
    let agreement = identity.hello([0; 32], channels.count()).agree(&said.proven.hello)?;
    channels.keep(agreement.channels);
    Ok((agreement, channels))
}
