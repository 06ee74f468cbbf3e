//! The way to one address of a peer, until the listener there has spoken.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::control::dialing::Dialing;
use crate::control::handshake_frame::HandshakeFrame;
use crate::control::socket::{LinkError, LinkSocket};
use crate::error::{Departure, DialFailure};
use crate::reactor::attention::Attention;
use crate::reactor::poller::{Poller, Target};

/// How long an address may take to answer a connection request.
const DIAL_TIMEOUT: Duration = Duration::from_secs(3);

/// One address, and how far the way to it has come.
#[derive(Debug)]
pub(super) struct Approach {
    address: SocketAddr,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// A connection request is under way.
    Dialing(Dialing),
    /// Connected; the listener's challenge is to come.
    AwaitChallenge(LinkSocket),
}

/// What a step has come to.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing yet.
    Pending(Approach),
    /// The first frame of whoever listens there.
    Heard(LinkSocket, HandshakeFrame),
    /// It leads nowhere.
    Failed(DialFailure),
}

impl Approach {
    /// Begins to connect.
    pub(super) fn start(address: SocketAddr, now: Instant) -> Result<Self, DialFailure> {
        let dialing = Dialing::start(address, now + DIAL_TIMEOUT);
        let dialing = dialing.map_err(|error| failed(address, &error))?;
        Ok(Self { address, stage: Stage::Dialing(dialing) })
    }

    /// Whether there is a connection.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.stage, Stage::AwaitChallenge(_))
    }

    /// Goes one step further.
    pub(super) fn step(self, now: Instant, host_timeout: Option<Duration>) -> Step {
        let Self { address, stage } = self;
        let pending = |stage| Step::Pending(Self { address, stage });
        match stage {
            Stage::Dialing(dialing) => match dialing.is_connected() {
                Ok(true) => match LinkSocket::new(dialing.into_stream(), host_timeout, now) {
                    Ok(link) => pending(Stage::AwaitChallenge(link)),
                    Err(error) => Step::Failed(failed(address, &error)),
                },
                Ok(false) if now < dialing.give_up_at => pending(Stage::Dialing(dialing)),
                Ok(false) => Step::Failed(failed(address, &io::ErrorKind::TimedOut.into())),
                Err(error) => Step::Failed(failed(address, &error)),
            },
            Stage::AwaitChallenge(mut link) => match link.receive(now) {
                Ok(None) => pending(Stage::AwaitChallenge(link)),
                Ok(Some(frame)) => Step::Heard(link, frame),
                Err(error) => Step::Failed(lost(&link, &error)),
            },
        }
    }

    /// Has the system say when something happens on its socket.
    pub(super) fn watch(&mut self, poller: &Arc<Poller>, target: Target) {
        match &mut self.stage {
            Stage::Dialing(dialing) => dialing.watch(poller, target),
            Stage::AwaitChallenge(link) => link.watch(poller, target),
        }
    }

    /// When it is to be stepped, apart from when something happens.
    pub(super) fn attention(&self) -> Attention {
        match &self.stage {
            Stage::Dialing(dialing) => Attention {
                polls: dialing.must_be_polled(),
                timeout: Some(dialing.give_up_at),
                ..Attention::default()
            },
            Stage::AwaitChallenge(link) => Attention {
                again: link.has_more(),
                polls: link.must_be_polled(),
                ..Attention::default()
            },
        }
    }
}

fn failed(address: SocketAddr, error: &io::Error) -> DialFailure {
    let address = address.to_string();
    DialFailure { address, kind: Some(error.kind()), error: error.to_string() }
}

/// Something else than a listener of this protocol is there, or it went away.
pub(super) fn lost(link: &LinkSocket, error: &LinkError) -> DialFailure {
    let (kind, error) = match error {
        LinkError::Gone(how) => {
            let kind = if let Departure::LinkFailed { kind, .. } = how { *kind } else { None };
            (kind, how.to_string())
        }
        LinkError::Frame(error) => {
            (None, format!("it does not speak the control link protocol: {error}"))
        }
    };
    DialFailure { address: link.peer_address(), kind, error }
}

/// It said something else than is due.
pub(super) fn unexpected(link: &LinkSocket, frame: &HandshakeFrame) -> DialFailure {
    let error = format!("unexpected answer {frame:?}");
    DialFailure { address: link.peer_address(), kind: None, error }
}
