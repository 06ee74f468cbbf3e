//! A transfer: sends and receives with one peer that are waited for together.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::error::{Error, Phase, Result};
use crate::session::wait::WaitLimit;
use crate::session::{Outcome, Shared};
use crate::transfer::ledger::{Op, OpState, TransferCounts};
use crate::types::{Direction, TransferKey};

/// One send or receive to post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// Registration id.
    pub memory: u64,
    /// Byte offset in the registration.
    pub offset: u64,
    /// Bytes. The other end must post the same number.
    pub bytes: u64,
    /// Tag. The other end's post with the same tag is the counterpart; equal tags match in the order of posting.
    pub tag: i32,
}

/// Sends and receives that were posted together.
///
/// Dropping it withdraws what has no counterpart yet. What has one goes on in the background: its registration stays in
/// use until then, so that [`Session::deregister_memory`](crate::Session::deregister_memory) says when memory is free.
#[derive(Debug)]
pub struct Transfer {
    shared: Arc<Shared>,
    key: TransferKey,
}

impl Transfer {
    pub(crate) fn new(shared: Arc<Shared>, key: TransferKey) -> Self {
        Self { shared, key }
    }

    /// Posts a send.
    ///
    /// # Errors
    /// [`Error::UnknownRegistration`], [`Error::Registration`] when it does not fit, [`Error::PeerState`] or the peer's
    /// error when it is not up. Nothing was posted then.
    pub fn post_send(&self, post: Post) -> Result<()> {
        self.post(Direction::Send, &[post])
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    pub fn post_recv(&self, post: Post) -> Result<()> {
        self.post(Direction::Receive, &[post])
    }

    /// Posts many sends: all of them, or none when one is wrong.
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    pub fn post_send_batch(&self, posts: &[Post]) -> Result<()> {
        self.post(Direction::Send, posts)
    }

    /// Posts many receives: all of them, or none when one is wrong.
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    pub fn post_recv_batch(&self, posts: &[Post]) -> Result<()> {
        self.post(Direction::Receive, posts)
    }

    fn post(&self, direction: Direction, posts: &[Post]) -> Result<()> {
        let mut guard = self.shared.engine();
        let engine: &mut Engine = &mut guard;
        let peer_key = engine.ledger.transfers.get(self.key).ok_or(Error::Closed)?.peer;
        engine.peer_up(peer_key)?;
        let receives = direction == Direction::Receive;
        for post in posts {
            engine.ledger.registrations.span(post.memory, post.offset, post.bytes, receives)?;
        }
        for post in posts {
            let span =
                engine.ledger.registrations.span(post.memory, post.offset, post.bytes, receives)?;
            let key = engine.ledger.post(Op {
                transfer: self.key,
                peer: peer_key,
                direction,
                tag: post.tag,
                span,
                bytes: post.bytes,
                state: OpState::Unmatched,
                chunks_left: 0,
                next: None,
            });
            let Some(peer) = engine.peers.get_mut(peer_key) else { return Err(Error::Closed) };
            match direction {
                Direction::Send => peer.post_send(key, span, post, &engine.env, &mut engine.ledger),
                Direction::Receive => peer.post_recv(key, span, post),
            }
        }
        if let Some(peer) = engine.peers.get_mut(peer_key) {
            peer.close_run(&engine.env, &mut engine.ledger);
        }
        Ok(())
    }

    /// Whether every operation has ended; makes one round of progress.
    ///
    /// # Errors
    /// The first error of its operations, once all have ended.
    pub fn is_complete(&self) -> Result<bool> {
        let mut engine = self.shared.engine();
        engine.progress(std::time::Instant::now());
        Ok(matches!(outcome(&engine, self.key)?, Outcome::Done(())))
    }

    /// Waits until every operation has ended, for `timeout` or, with `None`, without limit.
    ///
    /// # Errors
    /// The first error of its operations; [`Error::Deadline`] while some have not ended: waiting again is possible.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        let patience = timeout.map_or_else(WaitLimit::endless, WaitLimit::for_time);
        self.shared.wait(
            patience,
            |engine| outcome(engine, self.key),
            |engine, waited, now| {
                let Some(transfer) = engine.ledger.transfers.get(self.key) else { return Error::Closed };
                let (peer, counts) = (transfer.peer, transfer.counts);
                let unmatched = unmatched(engine, self.key);
                let mut error = engine.deadline(Phase::Receive, Some(peer), waited, now);
                if let Error::Deadline { detail, phase, .. } = &mut error {
                    if engine.ledger.ops.values().any(|op| op.transfer == self.key && op.direction == Direction::Send) {
                        *phase = Phase::Send;
                    }
                    *detail = format!(
                        "{} of {} operations and {} of {} chunks are done, {unmatched}; peer is {detail}",
                        counts.operations_done, counts.operations_posted, counts.chunks_done, counts.chunks_posted
                    );
                }
                error
            },
        )
    }

    /// Withdraws every operation that has no counterpart. Those end with [`Error::Cancelled`], receives once the peer has
    /// agreed; what was matched before runs to its end. Wait for the transfer to know when its memory is free.
    pub fn cancel(&self) {
        let mut guard = self.shared.engine();
        let engine: &mut Engine = &mut guard;
        let Some(peer) = engine.ledger.transfers.get(self.key).map(|transfer| transfer.peer) else {
            return;
        };
        for op in engine.ledger.select(|op| op.transfer == self.key) {
            if let Some(peer) = engine.peers.get_mut(peer) {
                peer.cancel(op, &mut engine.ledger);
            }
        }
    }

    /// Numbers so far.
    ///
    /// # Errors
    /// [`Error::Closed`] when the session is gone.
    pub fn counts(&self) -> Result<TransferCounts> {
        self.shared
            .engine()
            .ledger
            .transfers
            .get(self.key)
            .map(|transfer| transfer.counts)
            .ok_or(Error::Closed)
    }

    /// The first error of its operations so far, while others may go on.
    pub fn error(&self) -> Option<Error> {
        self.shared
            .engine()
            .ledger
            .transfers
            .get(self.key)
            .and_then(|transfer| transfer.error.clone())
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.cancel();
        self.shared.engine().ledger.detach(self.key);
    }
}

/// How many operations have no counterpart, and what one of them waits for.
fn unmatched(engine: &Engine, key: TransferKey) -> String {
    let is_unmatched = |op: &&Op| op.transfer == key && op.state != OpState::Matched;
    let count = engine.ledger.ops.values().filter(is_unmatched).count();
    let one = engine.ledger.ops.values().find(is_unmatched).map(|op| match op.direction {
        Direction::Send => format!(": the send with tag {} waits for the peer's receive", op.tag),
        Direction::Receive => {
            format!(": the receive with tag {} waits for the peer's send", op.tag)
        }
    });
    format!("{count} operations have no counterpart{}", one.unwrap_or_default())
}

fn outcome(engine: &Engine, key: TransferKey) -> Result<Outcome<()>> {
    let transfer = engine.ledger.transfers.get(key).ok_or(Error::Closed)?;
    if !transfer.is_complete() {
        return Ok(Outcome::NotYet);
    }
    transfer.error.clone().map_or(Ok(Outcome::Done(())), Err)
}
