//! The listening end of a control link, before there is a peer: one connection that came in and what it has proven.

use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::control::handshake_frame::HandshakeFrame;
use crate::control::hello::{Agreement, Challenge, HandshakeError, Proven, Role};
use crate::control::identity::{Identity, random};
use crate::control::socket::{LinkError, LinkSocket};
use crate::error::{Error, Result};

/// One connection that came in.
#[derive(Debug)]
pub(crate) struct Incoming {
    link: LinkSocket,
    from: IpAddr,
    nonce: [u8; 32],
    give_up_at: Instant,
    proven: Option<(Proven, Agreement)>,
}

/// What became of an incoming connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reception {
    /// It has not said hello yet.
    Waiting,
    /// It has proven that it knows the secret and fits.
    Proven,
    /// It is to be dropped, and why.
    Refused(String),
}

impl Incoming {
    /// Greets a new connection.
    pub(crate) fn greet(
        stream: TcpStream,
        from: IpAddr,
        patience: Duration,
        now: Instant,
        identity: &Identity,
    ) -> Result<Self> {
        let mut link = LinkSocket::new(stream, identity.host_timeout, now)
            .map_err(|error| Error::io("accepting a control connection", &error))?;
        let nonce = random()?;
        link.queue(&HandshakeFrame::Challenge(Challenge::new(nonce)));
        Ok(Self { link, from, nonce, give_up_at: now + patience, proven: None })
    }

    /// One step.
    pub(crate) fn poll(&mut self, now: Instant, identity: &Identity) -> Reception {
        let outcome = self.link.flush().and_then(|_| self.link.receive(now));
        match (outcome, &self.proven) {
            (Ok(None), Some(_)) => Reception::Proven,
            (Ok(None), None) if now < self.give_up_at => Reception::Waiting,
            (Ok(None), None) => Reception::Refused("it said no hello in time".into()),
            (Ok(Some(HandshakeFrame::Hello(proven))), None) => {
                match self.check(&proven, identity) {
                    Ok(agreement) => {
                        self.proven = Some((*proven, agreement));
                        Reception::Proven
                    }
                    Err(misfit) => {
                        self.link.queue(&HandshakeFrame::Refuse(misfit.to_string()));
                        let _ = self.link.flush();
                        Reception::Refused(misfit.to_string())
                    }
                }
            }
            (Ok(Some(_)), _) => Reception::Refused("it said something else than hello".into()),
            (Err(LinkError::Gone(how)), _) => Reception::Refused(how.to_string()),
            (Err(LinkError::Frame(error)), _) => {
                Reception::Refused(format!("it does not speak the control link protocol: {error}"))
            }
        }
    }

    fn check(
        &self,
        proven: &Proven,
        identity: &Identity,
    ) -> std::result::Result<Agreement, HandshakeError> {
        proven.verify(Role::Connector, &self.nonce, &identity.secret)?;
        identity.hello([0; 32]).agree(&proven.hello)
    }

    pub(crate) fn is_proven(&self) -> bool {
        self.proven.is_some()
    }

    /// Whether it has sent nothing at all.
    pub(crate) fn is_silent(&self) -> bool {
        !self.link.has_heard()
    }

    /// The address it came from.
    pub(crate) fn from(&self) -> IpAddr {
        self.from
    }

    /// The address and port it came from, in words.
    pub(crate) fn address(&self) -> String {
        self.link.peer_address()
    }

    /// Welcomes a connection that has proven itself: its link, what both ends use, and the name it gave itself.
    pub(crate) fn welcome(
        mut self,
        identity: &Identity,
    ) -> Option<(LinkSocket, Agreement, String)> {
        let (proven, agreement) = self.proven?;
        let welcome = identity.hello(random().ok()?).prove(
            Role::Listener,
            &proven.hello.nonce,
            &identity.secret,
        );
        self.link.queue(&HandshakeFrame::Welcome(Box::new(welcome)));
        Some((self.link, agreement, proven.hello.name))
    }
}
