//! Bytes of operations that travel on the link, part by part, at whichever end.
//!
//! A part is sent from where its bytes lie. Its receiver takes it in several reads, as its bytes
//! come, and asks before each read where they belong. What has come is in place as soon as it has
//! been handled. Nothing is under way that one end would have to wait for, so a write needs no
//! grant. A target that refuses a write, or takes its memory back, answers at once. It passes over
//! the parts that come all the same, until the last one or the word that no more come.

use super::super::action::{Action, Landing, NoteUse, Violation};
use super::super::conversation::Conversation;
use super::super::lifecycle::stage::Stage;
use super::super::message::{Lane, Message, State};
use super::OneSided;
use crate::frames::frame::Frame;
use crate::frames::messages::{LinkPart, MessageId};
use crate::plans::stretch::Stretch;
use crate::types::{Direction, OpKey};

/// Pieces that a part is of, at most: it may be of a list of pieces of one byte.
pub(crate) const PIECES_A_PART: usize = 4096;

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

    /// Sends the next part of the operation that has its turn, if the kernel takes it at once:
    /// otherwise it would be copied to wait.
    pub(super) fn part_next(&mut self, cx: &mut Conversation) -> bool {
        while let Some(op) = cx.schedule.link.front() {
            if !cx.is_dealt(op) {
                cx.schedule.link.pop();
                continue;
            }
            if !cx.link.is_clear || cx.link.chunk_bytes == 0 || self.is_round_spent_on(cx, op) {
                return false;
            }
            self.deal_part(cx, op);
            return true;
        }
        false
    }

    fn deal_part(&mut self, cx: &mut Conversation, op: OpKey) {
        let most = cx.schedule.tuning.link_chunk(cx.link.chunk_bytes);
        let stretch = self.step_over(cx, op, (most, PIECES_A_PART));
        let (Some(stretch), Some(message)) = (stretch, cx.operations.get(op)) else {
            return cx.schedule.link.pop();
        };
        let of = match message.serves() {
            None => MessageId::Write(op.to_wire()),
            Some(_) => MessageId::Read(message.name),
        };
        // No part has more bytes than follow a frame.
        let frame = Frame::Part(LinkPart { of, bytes: stretch.bytes() as u32 });
        cx.link.chunk_bytes = cx.link.chunk_bytes.saturating_sub(stretch.bytes());
        self.stats.link_bytes_sent += stretch.bytes();
        cx.schedule.link.sent_chunk(message.left() == 0);
        let bytes = Some((message.posted.transfer, stretch));
        cx.actions.push_back(Action::SendListed { frame, bytes, note: None });
        self.bytes_moved(cx, op);
    }

    /// Steps over the next bytes of an operation, no more than these and of no more pieces. They
    /// are dealt on the link, and moved by that.
    fn step_over(
        &mut self,
        cx: &mut Conversation,
        op: OpKey,
        (most, most_pieces): (u64, usize),
    ) -> Option<Stretch> {
        let message = cx.operations.get_mut(op)?;
        let pieces = &message.access.as_ref()?.pieces;
        let (stretch, count) = Stretch::take(&mut message.cursor, pieces, most, most_pieces);
        message.moved += stretch.bytes();
        self.bytes_dealt(cx, op, (stretch.bytes(), count));
        Some(stretch)
    }

    /// Handles a part of an operation that has come.
    pub(in super::super) fn handle_part(
        &mut self,
        cx: &mut Conversation,
        part: LinkPart,
    ) -> Landing {
        let LinkPart { of, bytes } = part;
        let op = match self.whose(cx, part) {
            Whose::Of(op) => op,
            Whose::Unwanted(write) => {
                self.pass_over(write, bytes);
                return Landing::Nowhere;
            }
            Whose::Nobodys => {
                cx.broken(Violation::Part { of, bytes });
                return Landing::Nowhere;
            }
        };
        if let Some(access) = cx.operations.get_mut(op).and_then(|it| it.access.as_mut()) {
            access.lane = Lane::Link;
        }
        let stretch = self.step_over(cx, op, (bytes.into(), usize::MAX));
        let Some(stretch) = stretch else { return Landing::Nowhere };
        let transfer = cx.operations[op].posted.transfer;
        self.stats.link_bytes_received += stretch.bytes();
        self.bytes_moved(cx, op);
        Landing::Pieces { transfer, stretch, note: NoteUse::None }
    }

    /// Returns the place of the bytes of a part that is on its way, as things stand now. `None`:
    /// nowhere.
    pub(in super::super) fn place_of(&self, cx: &Conversation, part: LinkPart) -> Option<Stretch> {
        if let Stage::Over = cx.life.stage {
            return None;
        }
        let Whose::Of(op) = self.whose(cx, part) else { return None };
        let message = cx.operations.get(op)?;
        Some(Stretch::ahead(message.cursor, &message.access.as_ref()?.pieces, part.bytes.into()))
    }

    /// Returns the operation that a part is of.
    fn whose(&self, cx: &Conversation, part: LinkPart) -> Whose {
        let op = match part.of {
            MessageId::Write(op) => self.whose_write(cx, op, part.bytes),
            MessageId::Read(op) => whose_read(cx, OpKey::from_wire(op)),
            MessageId::Receive(_) | MessageId::Ahead(_) => Whose::Nobodys,
        };
        let Whose::Of(op) = op else { return op };
        let is_fit = u64::from(part.bytes) <= cx.operations[op].left();
        if is_fit { Whose::Of(op) } else { Whose::Nobodys }
    }

    /// Returns the write of the peer that a part is of.
    fn whose_write(&self, cx: &Conversation, write: u64, bytes: u32) -> Whose {
        if let Some(left) = self.unwanted.get(&write) {
            let is_fit = u64::from(bytes) <= *left;
            return if is_fit { Whose::Unwanted(write) } else { Whose::Nobodys };
        }
        if cx.life.is_leaving_target().is_none() {
            return Whose::Unwanted(write);
        }
        let Some(op) = self.served.get(&write).copied() else { return Whose::Nobodys };
        let message = &cx.operations[op];
        let is_write = message.posted.direction == Direction::Receive;
        if is_write && message.is_on_link() { Whose::Of(op) } else { Whose::Nobodys }
    }

    /// Passes over a part of a write that was refused.
    fn pass_over(&mut self, write: u64, bytes: u32) {
        let Some(left) = self.unwanted.get_mut(&write) else { return };
        *left = left.saturating_sub(bytes.into());
        if *left == 0 {
            self.unwanted.remove(&write);
        }
    }
}

/// Returns the read of ours that a part is of.
fn whose_read(cx: &Conversation, op: OpKey) -> Whose {
    let takes_parts = |message: &&Message| {
        let posted = message.posted;
        message.asking().is_some()
            && posted.direction == Direction::Receive
            && message.takes_more()
            && cx.link.terms.takes_access(posted.bytes, posted.span.memory)
            && (message.is_on_link() || message.cursor.dealt == 0)
    };
    cx.operations.get(op).filter(takes_parts).map_or(Whose::Nobodys, |_| Whose::Of(op))
}

/// Operation that a part is of.
enum Whose {
    Of(OpKey),
    /// A write of this name that was refused, or that comes after this end has left.
    Unwanted(u64),
    /// The peer breaks the protocol.
    Nobodys,
}
