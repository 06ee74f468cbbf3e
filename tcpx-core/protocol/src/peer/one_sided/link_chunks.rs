//! Bytes of operations that travel on the link, chunk by chunk, at whichever end.
//!
//! A chunk is sent from where its bytes lie. Its receiver takes it in several reads, as its bytes
//! come, and asks before each read where they belong. What has come is in place as soon as it has
//! been handled. Nothing is under way that one end would have to wait for, so a write needs no
//! grant. A target that refuses a write, or takes its memory back, answers at once. It passes over
//! the chunks that come all the same, until the last one or the word that no more come.

use super::super::action::{Action, Landing, NoteUse};
use super::super::conversation::Conversation;
use super::super::lifecycle::stage::Stage;
use super::super::message::{Lane, Message, State};
use super::super::violation::Violation;
use super::OneSided;
use crate::frames::frame::Frame;
use crate::frames::messages::{LinkChunk, MessageId};
use crate::plans::piece_range::PieceRange;
use crate::types::{Direction, OpKey};

/// Pieces that a chunk is of, at most: it may be of a list of pieces of one byte.
pub(crate) const PIECES_PER_LINK_CHUNK: usize = 4096;

impl OneSided {
    /// Sends the bytes of an operation on a lane from now on.
    pub(super) fn begin_to_send(&mut self, cx: &mut Conversation, op: OpKey, lane: Lane) {
        let Some(message) = cx.operations.get_mut(op) else { return };
        message.state = State::Moving;
        let (bytes, is_served) = (message.posted.bytes, message.serves().is_some());
        if let Some(access) = &mut message.access {
            access.lane = lane;
        }
        if lane == Lane::Link && is_served {
            self.reads_on_link += bytes;
        }
        cx.schedule.push_access(op, message.cost(bytes), lane);
    }

    /// Sends the next chunk of the operation that has its turn, if the kernel takes it at once:
    /// otherwise it would be copied to wait.
    pub(super) fn next_link_chunk(&mut self, cx: &mut Conversation) -> bool {
        while let Some(op) = cx.schedule.link.front() {
            if !cx.is_scheduled(op) {
                cx.schedule.link.pop();
                continue;
            }
            if !cx.link.is_clear || cx.link.chunk_bytes == 0 || self.is_round_spent_on(cx, op) {
                return false;
            }
            self.send_link_chunk(cx, op);
            return true;
        }
        false
    }

    fn send_link_chunk(&mut self, cx: &mut Conversation, op: OpKey) {
        let most = cx.schedule.tuning.link_chunk(cx.link.chunk_bytes);
        let range = self.step_over(cx, op, (most, PIECES_PER_LINK_CHUNK));
        let (Some(range), Some(message)) = (range, cx.operations.get(op)) else {
            return cx.schedule.link.pop();
        };
        let of = match message.serves() {
            None => MessageId::Write(op.to_wire()),
            Some(_) => MessageId::Read(message.name),
        };
        // No chunk has more bytes than follow a frame.
        let frame = Frame::LinkChunk(LinkChunk { of, bytes: range.bytes() as u32 });
        cx.link.chunk_bytes = cx.link.chunk_bytes.saturating_sub(range.bytes());
        self.stats.link_bytes_sent += range.bytes();
        cx.schedule.link.sent_chunk(message.left() == 0);
        let bytes = Some((message.posted.transfer, range));
        cx.actions.push_back(Action::SendWithPayload { frame, bytes, note: None });
        self.check_moved(cx, op);
    }

    /// Steps over the next bytes of an operation, no more than these and of no more pieces. They
    /// are scheduled on the link, and moved by that.
    fn step_over(
        &mut self,
        cx: &mut Conversation,
        op: OpKey,
        (most, most_pieces): (u64, usize),
    ) -> Option<PieceRange> {
        let message = cx.operations.get_mut(op)?;
        let pieces = &message.access.as_ref()?.pieces;
        let (range, count) = PieceRange::take(&mut message.cursor, pieces, most, most_pieces);
        message.moved += range.bytes();
        self.bytes_scheduled(cx, op, (range.bytes(), count));
        Some(range)
    }

    /// Handles a chunk of an operation that has come.
    pub(in super::super) fn handle_link_chunk(
        &mut self,
        cx: &mut Conversation,
        chunk: LinkChunk,
    ) -> Landing {
        let LinkChunk { of, bytes } = chunk;
        let op = match self.chunk_target(cx, chunk) {
            ChunkTarget::Message(op) => op,
            ChunkTarget::Discarded(write) => {
                self.pass_over(write, bytes);
                return Landing::Nowhere;
            }
            ChunkTarget::Unknown => {
                cx.broken(Violation::Part { of, bytes });
                return Landing::Nowhere;
            }
        };
        if let Some(access) = cx.operations.get_mut(op).and_then(|it| it.access.as_mut()) {
            access.lane = Lane::Link;
        }
        let range = self.step_over(cx, op, (bytes.into(), usize::MAX));
        let Some(range) = range else { return Landing::Nowhere };
        let transfer = cx.operations[op].posted.transfer;
        self.stats.link_bytes_received += range.bytes();
        self.check_moved(cx, op);
        Landing::Pieces { transfer, range, note: NoteUse::None }
    }

    /// Returns the place of the bytes of a chunk that is on its way, as things stand now. `None`:
    /// nowhere.
    pub(in super::super) fn place_of(
        &self,
        cx: &Conversation,
        chunk: LinkChunk,
    ) -> Option<PieceRange> {
        if let Stage::Over = cx.life.stage {
            return None;
        }
        let ChunkTarget::Message(op) = self.chunk_target(cx, chunk) else { return None };
        let message = cx.operations.get(op)?;
        Some(PieceRange::ahead(
            message.cursor,
            &message.access.as_ref()?.pieces,
            chunk.bytes.into(),
        ))
    }

    /// Returns the operation that a chunk is of.
    fn chunk_target(&self, cx: &Conversation, chunk: LinkChunk) -> ChunkTarget {
        let op = match chunk.of {
            MessageId::Write(op) => self.write_target(cx, op, chunk.bytes),
            MessageId::Read(op) => read_target(cx, OpKey::from_wire(op)),
            MessageId::Receive(_) | MessageId::Eager(_) => ChunkTarget::Unknown,
        };
        let ChunkTarget::Message(op) = op else { return op };
        let is_fit = u64::from(chunk.bytes) <= cx.operations[op].left();
        if is_fit { ChunkTarget::Message(op) } else { ChunkTarget::Unknown }
    }

    /// Returns the write of the peer that a chunk is of.
    fn write_target(&self, cx: &Conversation, write: u64, bytes: u32) -> ChunkTarget {
        if let Some(left) = self.unwanted.get(&write) {
            let is_fit = u64::from(bytes) <= *left;
            return if is_fit { ChunkTarget::Discarded(write) } else { ChunkTarget::Unknown };
        }
        if cx.life.is_leaving_target().is_none() {
            return ChunkTarget::Discarded(write);
        }
        let Some(op) = self.served.get(&write).copied() else { return ChunkTarget::Unknown };
        let message = &cx.operations[op];
        let is_write = message.posted.direction == Direction::Receive;
        if is_write && message.is_on_link() {
            ChunkTarget::Message(op)
        } else {
            ChunkTarget::Unknown
        }
    }

    /// Passes over a chunk of a write that was refused.
    fn pass_over(&mut self, write: u64, bytes: u32) {
        let Some(left) = self.unwanted.get_mut(&write) else { return };
        *left = left.saturating_sub(bytes.into());
        if *left == 0 {
            self.unwanted.remove(&write);
        }
    }
}

/// Returns the read of ours that a chunk is of.
fn read_target(cx: &Conversation, op: OpKey) -> ChunkTarget {
    let takes_chunks = |message: &&Message| {
        let posted = message.posted;
        message.request().is_some()
            && posted.direction == Direction::Receive
            && message.takes_more()
            && cx.link.terms.takes_access(posted.bytes, posted.span.memory)
            && (message.is_on_link() || message.cursor.scheduled == 0)
    };
    cx.operations
        .get(op)
        .filter(takes_chunks)
        .map_or(ChunkTarget::Unknown, |_| ChunkTarget::Message(op))
}

/// Operation that a chunk is of.
enum ChunkTarget {
    Message(OpKey),
    /// A write of this name that was refused, or that comes after this end has left.
    Discarded(u64),
    /// The peer breaks the protocol.
    Unknown,
}
