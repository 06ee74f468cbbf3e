//! What each frame of the control link does to a peer.

use crate::chunk::{chunk_count, deal};
use crate::env::Env;
use crate::error::{Departure, Error, Phase, Result};
use crate::farewell::Farewell;
use crate::ledger::{Direction, Ledger, Op, OpKey, OpState};
use crate::link::frame::Frame;
use crate::link::hello::Agreement;
use crate::matching::{Announced, Met};
use crate::peer::{Peer, Stage};

/// Receives a peer may announce before it sends or receives anything: a bound on memory, far above any real backlog.
const MAX_ANNOUNCED: usize = 1 << 22;

impl Peer {
    /// Acts on one frame of the control link.
    pub(super) fn handle(&mut self, frame: Frame, env: &Env, ledger: &mut Ledger) -> Result<()> {
        match (frame, &mut self.stage) {
            (Frame::Handles(handles), Stage::Comms(setup)) => {
                if !setup.take_handles(&handles, env) {
                    return Err(self.protocol_error(format!("{} connect handles", handles.len())));
                }
            }
            (Frame::Ready, Stage::Comms(setup)) => setup.peer_is_ready(),
            (Frame::Announce { recv, tag, bytes }, _) => {
                self.announced(recv, tag, bytes, ledger)?
            }
            (Frame::Match { recv, first_channel }, _) => {
                self.matched(recv, first_channel, ledger)?
            }
            (Frame::Mismatch { recv, send_bytes }, _) => {
                self.mismatched(recv, send_bytes, ledger)?
            }
            (Frame::Cancel { recv }, _) => {
                // Matched meanwhile? Then the match is on its way and wins.
                if self.matcher.withdraw_receive(recv) {
                    self.queue(&Frame::Cancelled { recv });
                }
            }
            (Frame::Cancelled { recv }, _) => {
                let key = self.own_receive(recv, ledger)?;
                ledger.end(key, Some(Error::Cancelled));
            }
            (Frame::Ping, _) => self.queue(&Frame::Pong),
            (Frame::Pong, _) => {}
            // It was up before us and is through already: its goodbye is answered once our comms are connected.
            (Frame::Goodbye, Stage::Comms(setup)) => setup.peer_said_goodbye(),
            (Frame::Goodbye, Stage::Up) => self.got_goodbye(ledger),
            (Frame::Goodbye, Stage::Closing(farewell)) => farewell.got_goodbye(),
            (Frame::Closed, Stage::Closing(farewell)) if farewell.expects_closed() => {
                farewell.got_closed()
            }
            (Frame::Abort(reason), _) => {
                return Err(self.gone(Departure::Abort(reason), self.phase()));
            }
            (frame, _) => {
                return Err(
                    self.protocol_error(format!("{frame:?} while the peer is {}", self.state()))
                );
            }
        }
        Ok(())
    }

    /// A goodbye is answered by a program that knows of the peer: one that no accept has asked for yet waits for it.
    pub(super) fn got_goodbye(&mut self, ledger: &mut Ledger) {
        if self.name.is_bound() {
            self.answer_goodbye(ledger);
        } else {
            self.parted_early = true;
        }
    }

    /// The peer posts nothing more: what has no counterpart will never have one.
    pub(super) fn answer_goodbye(&mut self, ledger: &mut Ledger) {
        self.stage = Stage::Closing(Farewell::answering());
        let error = self.gone(Departure::Goodbye, Phase::Receive);
        self.end_unmatched(ledger, &error);
    }

    pub(super) fn gone(&self, how: Departure, phase: Phase) -> Error {
        Error::PeerGone { peer: self.name.to_string(), phase, how }
    }

    /// A receive of ours that the peer names, as long as it waits for a match.
    fn own_receive(&self, recv: u64, ledger: &Ledger) -> Result<OpKey> {
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

    fn announced(&mut self, recv: u64, tag: i32, bytes: u64, ledger: &mut Ledger) -> Result<()> {
        if self.matcher.announced() >= MAX_ANNOUNCED {
            return Err(
                self.protocol_error(format!("more than {MAX_ANNOUNCED} receives announced"))
            );
        }
        match self.matcher.announce(tag, Announced { recv, bytes }) {
            Ok(Some(met)) => self.meet(tag, met, ledger),
            Ok(None) => {}
            Err(_) => {
                return Err(self.protocol_error(format!("receive {recv:#x} was announced twice")));
            }
        }
        Ok(())
    }

    fn matched(&mut self, recv: u64, first_channel: u16, ledger: &mut Ledger) -> Result<()> {
        let key = self.own_receive(recv, ledger)?;
        if first_channel >= self.agreement.channels || self.recv_lanes.is_empty() {
            return Err(self.protocol_error(format!("match on channel {first_channel}")));
        }
        let Some(bytes) = ledger.ops.get(key).map(|op| op.bytes) else { return Ok(()) };
        let Agreement { channels, chunk_bytes, .. } = self.agreement;
        self.messages.received += 1;
        ledger.matched(key, chunk_count(bytes, chunk_bytes));
        for (channel, deal) in deal(key, bytes, chunk_bytes, first_channel, channels) {
            self.recv_lanes[usize::from(channel)].push(deal);
        }
        Ok(())
    }

    fn mismatched(&mut self, recv: u64, send_bytes: u64, ledger: &mut Ledger) -> Result<()> {
        let key = self.own_receive(recv, ledger)?;
        if let Some(Op { tag, bytes, .. }) = ledger.ops.get(key).copied() {
            let peer = self.name.to_string();
            ledger.end(key, Some(Error::SizeMismatch { peer, tag, send_bytes, recv_bytes: bytes }));
        }
        Ok(())
    }

    /// A send of ours found its receive.
    pub(super) fn meet(&mut self, tag: i32, met: Met<OpKey>, ledger: &mut Ledger) {
        let Met { send, recv, send_bytes, recv_bytes } = met;
        if send_bytes != recv_bytes {
            self.queue(&Frame::Mismatch { recv, send_bytes });
            let peer = self.name.to_string();
            ledger.end(send, Some(Error::SizeMismatch { peer, tag, send_bytes, recv_bytes }));
            return;
        }
        let Agreement { channels, chunk_bytes, .. } = self.agreement;
        let first_channel = self.next_channel;
        let chunks = chunk_count(send_bytes, chunk_bytes);
        self.next_channel = ((u64::from(first_channel) + chunks) % u64::from(channels)) as u16;
        self.queue(&Frame::Match { recv, first_channel });
        self.messages.sent += 1;
        ledger.matched(send, chunks);
        for (channel, deal) in deal(send, send_bytes, chunk_bytes, first_channel, channels) {
            self.send_lanes[usize::from(channel)].push(deal);
        }
    }

    fn end_unmatched(&mut self, ledger: &mut Ledger, error: &Error) {
        for key in self.matcher.drain_sends().collect::<Vec<_>>() {
            ledger.end(key, Some(error.clone()));
        }
        ledger.end_of_peer(self.key, error, |op| op.state != OpState::Matched);
    }
}
