//! How sends and receives find each other, and what then becomes one chunk.

use crate::control::frame::Frame;
use crate::control::hello::Agreement;
use crate::error::{Error, Result};
use crate::peer::Peer;
use crate::peer::protocol::coalescer::{Fit, Member, MessageEnd, Part, Receives};
use crate::peer::protocol::matcher::{Announced, Matched};
use crate::peer::session_context::SessionContext;
use crate::session::transfer::Post;
use crate::transfer::ledger::{Ledger, Op, OpState};
use crate::transfer::stripe::{chunk_count, deal};
use crate::types::{Direction, OpKey, Span};

/// Receives a peer may announce before it sends or receives anything: a bound on memory, far above any real backlog.
const MAX_ANNOUNCED: usize = 1 << 22;

impl Peer {
    /// A send was posted. Whoever posts calls [`close_run`](Self::close_run) in the end.
    pub(crate) fn post_send(
        &mut self,
        key: OpKey,
        span: Span,
        post: &Post,
        env: &SessionContext,
        ledger: &mut Ledger,
    ) {
        if let Some(met) = self.matcher.post_send(post.tag, key, post.bytes) {
            self.meet(post.tag, span, met, env, ledger);
        }
    }

    /// A receive was posted.
    pub(crate) fn post_recv(&mut self, key: OpKey, span: Span, post: &Post) {
        let landing = MessageEnd::landing(self.announced.as_ref(), &span);
        self.announced = Some(MessageEnd::new(span, post.bytes));
        let (recv, tag, bytes) = (key.to_wire(), post.tag, post.bytes);
        self.queue(&Frame::Announce { recv, tag, bytes, landing });
    }

    /// The other end posted a receive.
    pub(super) fn take_announced(
        &mut self,
        tag: i32,
        announced: Announced,
        env: &SessionContext,
        ledger: &mut Ledger,
    ) -> Result<()> {
        if self.matcher.announced() >= MAX_ANNOUNCED {
            return Err(
                self.protocol_error(format!("more than {MAX_ANNOUNCED} receives announced"))
            );
        }
        let Ok(met) = self.matcher.announce(tag, announced) else {
            let recv = announced.recv;
            return Err(self.protocol_error(format!("receive {recv:#x} was announced twice")));
        };
        if let Some(met) = met
            && let Some(span) = ledger.ops.get(met.send).map(|op| op.span)
        {
            self.meet(tag, span, met, env, ledger);
        }
        Ok(())
    }

    /// A send of ours found its receive.
    fn meet(
        &mut self,
        tag: i32,
        span: Span,
        met: Matched<OpKey>,
        env: &SessionContext,
        ledger: &mut Ledger,
    ) {
        let Matched { send, send_bytes: bytes, announced } = met;
        if bytes != announced.bytes {
            self.queue(&Frame::Mismatch { recv: announced.recv, send_bytes: bytes });
            let peer = self.name.to_string();
            let (send_bytes, recv_bytes) = (bytes, announced.bytes);
            ledger.end(send, Some(Error::SizeMismatch { peer, tag, send_bytes, recv_bytes }));
            return;
        }
        self.messages.sent += 1;
        let chunk_bytes = self.agreement.chunk_bytes;
        let member = Member { send, span, bytes, announced };
        match self.run.fit(&member, &env.run_limits(chunk_bytes)) {
            Fit::Joins => {}
            Fit::JoinsLast => self.close_stretches(true, env, ledger),
            Fit::Apart => self.close_run(env, ledger),
        }
        match self.run.join(member) {
            Some(before) => ledger.matched_behind(before, send),
            None => ledger.matched(send, chunk_count(bytes, chunk_bytes)),
        }
    }

    /// Deals what was matched last: nothing may join it any more.
    pub(crate) fn close_run(&mut self, env: &SessionContext, ledger: &mut Ledger) {
        self.close_stretches(false, env, ledger);
    }

    /// Deals the stretches of the open run, all of them or all but the last.
    fn close_stretches(&mut self, keeps_last: bool, env: &SessionContext, ledger: &mut Ledger) {
        let chunk_bytes = self.agreement.chunk_bytes;
        loop {
            let lane = self.send_lanes.get_mut(usize::from(self.next_channel));
            let is_staging = |memory| {
                let Some(lane) = lane else { return false };
                let prepared = lane.prepare_staging(memory, chunk_bytes, env, ledger);
                prepared.inspect_err(|reason| env.stop_gathering(reason)).is_ok()
            };
            let part = self.run.take(keeps_last, &env.run_limits(chunk_bytes), is_staging);
            let Some(part) = part else { return };
            ledger.ends_chunk(part.last);
            self.deal(part);
        }
    }

    fn deal(&mut self, part: Part<OpKey>) {
        let Part { first, bytes, names, gathered, .. } = part;
        let Agreement { channels, chunk_bytes, .. } = self.agreement;
        let first_channel = self.next_channel;
        let chunks = chunk_count(bytes, chunk_bytes);
        self.next_channel = ((u64::from(first_channel) + chunks) % u64::from(channels)) as u16;
        self.queue(&Frame::Match { first_channel, recvs: names });
        for (channel, deal) in deal(first, bytes, chunk_bytes, first_channel, channels) {
            self.send_lanes[usize::from(channel)].push(deal, gathered);
        }
    }

    /// Receives of ours were matched: one, or several that share a chunk.
    pub(super) fn take_match(
        &mut self,
        first_channel: u16,
        recvs: &[u64],
        ledger: &mut Ledger,
    ) -> Result<()> {
        let Agreement { channels, chunk_bytes, .. } = self.agreement;
        if first_channel >= channels || self.recv_lanes.is_empty() {
            return Err(self.protocol_error(format!("match on channel {first_channel}")));
        }
        let [first, behind @ ..] = recvs else { return Ok(()) };
        let first = self.own_receive(*first, ledger)?;
        let Some(op) = ledger.ops.get(first) else { return Ok(()) };
        let mut receives = Receives::new(op.span, op.bytes);
        ledger.matched(first, chunk_count(op.bytes, chunk_bytes));
        let mut before = first;
        for recv in behind {
            let key = self.own_receive(*recv, ledger)?;
            let Some(op) = ledger.ops.get(key) else { return Ok(()) };
            if !receives.join(op.span, op.bytes, chunk_bytes) {
                let detail = format!("receive {recv:#x} cannot share a chunk with the one before");
                return Err(self.protocol_error(detail));
            }
            ledger.matched_behind(before, key);
            before = key;
        }
        self.messages.received += recvs.len() as u64;
        let bytes = receives.bytes;
        for (channel, deal) in deal(first, bytes, chunk_bytes, first_channel, channels) {
            self.recv_lanes[usize::from(channel)].push(deal);
        }
        Ok(())
    }

    pub(super) fn take_mismatch(
        &mut self,
        recv: u64,
        send_bytes: u64,
        ledger: &mut Ledger,
    ) -> Result<()> {
        let key = self.own_receive(recv, ledger)?;
        if let Some(Op { tag, bytes, .. }) = ledger.ops.get(key).copied() {
            let peer = self.name.to_string();
            ledger.end(key, Some(Error::SizeMismatch { peer, tag, send_bytes, recv_bytes: bytes }));
        }
        Ok(())
    }

    /// Withdraws an operation that has no counterpart yet. A receive ends when the peer agrees.
    pub(crate) fn cancel(&mut self, key: OpKey, ledger: &mut Ledger) {
        let Some(op) = ledger.ops.get_mut(key) else { return };
        match (op.state, op.direction) {
            (OpState::Unmatched, Direction::Send) => {
                if self.matcher.withdraw_send(op.tag, key) {
                    ledger.end(key, Some(Error::Cancelled));
                }
            }
            (OpState::Unmatched, Direction::Receive) => {
                op.state = OpState::Cancelling;
                self.queue(&Frame::Cancel { recv: key.to_wire() });
            }
            (OpState::Cancelling | OpState::Matched, _) => {}
        }
    }

    /// A receive of ours that the peer names, as long as it waits for a match.
    pub(super) fn own_receive(&self, recv: u64, ledger: &Ledger) -> Result<OpKey> {
        let key = OpKey::from_wire(recv);
        let is_waiting = |op: &Op| {
            op.peer == self.key
                && op.direction == Direction::Receive
                && op.state != OpState::Matched
        };
        if ledger.ops.get(key).is_some_and(is_waiting) {
            return Ok(key);
        }
        Err(self
            .protocol_error(format!("it speaks of receive {recv:#x}, which does not wait here")))
    }
}
