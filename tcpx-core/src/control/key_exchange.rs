//! Exchange of keys at the connecting end of an encrypted link, between the listener's challenge
//! and this end's hello.

use std::sync::Arc;
use std::time::Instant;

use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_protocol::frames::handshake_frame::{HandshakeFrame, TlsOpening};
use tcpx_protocol::frames::hello::{Nonce, Role};

use crate::control::identity::{Identity, random};
use crate::control::socket::{LinkError, LinkSocket};
use crate::control::tls::{self, TlsHandshake};
use crate::error::{EncryptionProblem, Error, Result};
use crate::reactor::Attention;
use crate::reactor::poller::{Poller, Target};

/// Exchange that is under way.
#[derive(Debug)]
pub(super) struct KeyExchange {
    link: LinkSocket,
    tls: Box<TlsHandshake>,
}

/// Outcome of a step.
#[derive(Debug)]
pub(super) enum KeyExchangeStep {
    /// The exchange goes on.
    Pending(KeyExchange),
    /// The link is encrypted from here on. The hello answers this value.
    Done(LinkSocket, Nonce),
    /// The listener has said something else.
    Heard(LinkSocket, HandshakeFrame),
    /// The link has ended.
    Lost(LinkSocket, LinkError),
    /// The listener is not the right one, or does not speak as this end does.
    Failed(EncryptionProblem),
}

impl KeyExchange {
    /// Proves the secret to the listener with this challenge, and shows it this end's part of the
    /// keys.
    pub(super) fn begin(
        mut link: LinkSocket,
        challenge: &Nonce,
        (peer, info): (&str, &ConnInfo),
        identity: &Identity,
    ) -> Result<Self> {
        let agreed = identity.credentials.kind().agree(info.credential);
        let tls = agreed
            .map_err(EncryptionProblem::from)
            .and_then(|()| tls::connect(&identity.credentials, info.session, peer))
            .map_err(|problem| Error::Encryption { peer: peer.to_owned(), problem })?;
        let said = (identity.encryption, identity.credentials.kind());
        let opening = TlsOpening::new(said, random()?, challenge, &info.secret);
        link.queue(&HandshakeFrame::Opening(opening));
        let mut exchange = Self { link, tls: Box::new(tls) };
        exchange.say();
        Ok(exchange)
    }

    fn say(&mut self) {
        for frame in HandshakeFrame::of_tls(&self.tls.take_output()) {
            self.link.queue(&frame);
        }
    }

    /// Drives the exchange one step.
    pub(super) fn step(mut self, now: Instant) -> KeyExchangeStep {
        // Bytes that the listener sent before it hung up are still unread.
        let flushed = self.link.flush();
        match (self.link.receive(now), flushed) {
            (Ok(None), Ok(_)) => KeyExchangeStep::Pending(self),
            (Ok(None), Err(error)) | (Err(error), _) => KeyExchangeStep::Lost(self.link, error),
            (Ok(Some(HandshakeFrame::Tls(bytes))), _) => self.read(&bytes),
            (Ok(Some(frame)), _) => KeyExchangeStep::Heard(self.link, frame),
        }
    }

    fn read(mut self, bytes: &[u8]) -> KeyExchangeStep {
        let read = self.tls.read(bytes);
        self.say();
        if let Err(problem) = read {
            // The listener learns the reason, if it can.
            let _ = self.link.flush();
            return KeyExchangeStep::Failed(problem);
        }
        if !self.tls.is_done() {
            return KeyExchangeStep::Pending(self);
        }
        let Self { mut link, tls } = self;
        match tls.finish() {
            Ok(secrets) => {
                let nonce = secrets.nonce;
                link.encrypt(secrets, Role::Connector);
                KeyExchangeStep::Done(link, nonce)
            }
            Err(problem) => KeyExchangeStep::Failed(problem),
        }
    }

    /// Registers the socket with the poller.
    pub(super) fn watch(&mut self, poller: &Arc<Poller>, target: Target) {
        self.link.watch(poller, target);
    }

    /// Returns when to step, if no event comes earlier.
    pub(super) fn attention(&self) -> Attention {
        let polls = self.link.must_be_polled();
        Attention { again: self.link.has_more(), polls, ..Attention::default() }
    }
}
