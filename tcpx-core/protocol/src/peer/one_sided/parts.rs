//! Bytes of operations that travel on the link, part by part, at whichever end.
//!
//! A part is sent from where its bytes lie. Who receives it takes it in several, as its bytes come,
//! and asks before each read where they belong; what has come is in place as soon as it has been
//! handled. Nothing is under way that one end would have to wait for, so a write needs no grant. A
//! target that refuses one, or takes its memory back, answers at once, and passes over the parts
//! that come all the same, until the last one or the word that no more come.

use std::sync::Arc;

use super::super::action::{Action, Landing, NoteUse, Violation};
use super::super::conversation::Conversation;
use super::super::lifecycle::stage::Stage;
use super::super::operation::OpState;
use super::OneSided;
use super::{Listed, Role, Step};
use crate::frames::frame::Frame;
use crate::frames::messages::{LinkPart, MessageId};
use crate::plans::stretch::Stretch;
use crate::types::memory::OperationKind;
use crate::types::{Direction, OpKey, TransferKey};

/// Pieces that a part is of, at most: it may be of a list of pieces of one byte.
pub(crate) const PIECES_A_PART: usize = 4096;

impl OneSided {
    /// This end sends the bytes of an operation on the link from now on.
    pub(super) fn begin_parts(&mut self, cx: &mut Conversation, op: OpKey) {
        let Some(operation) = cx.operations.get_mut(op) else { return };
        let bytes = operation.posted.bytes;
        operation.state = OpState::Matched { bytes_left: bytes, bytes_dealt: 0 };
        let Some(listed) = self.listed.get_mut(op) else { return };
        listed.is_on_link = true;
        if let Role::Serves(_) = listed.role {
            self.reads_on_link += bytes;
        }
        self.parts.push_back(op);
    }

    /// Whether any operation sends its bytes in parts.
    pub(in super::super) fn sends_parts(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Sends the next part of the operation that has its turn, if the kernel takes it at once:
    /// otherwise it would be copied to wait.
    pub(super) fn part_next(&mut self, cx: &mut Conversation) -> bool {
        while let Some(op) = self.parts.front().copied() {
            if !self.is_dealt(op) {
                self.parts.pop_front();
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
        self.parts.pop_front();
        self.is_turn_of_parts = false;
        let Some(listed) = self.listed.get_mut(op) else { return };
        let left = listed.pieces.bytes - listed.cursor.dealt;
        let most = cx.schedule.tuning.link_chunk(cx.link.chunk_bytes);
        let (stretch, pieces) =
            Stretch::take(&mut listed.cursor, &listed.pieces, most, PIECES_A_PART);
        let of = match &listed.role {
            Role::Asks(_) => MessageId::Write(op.to_wire()),
            Role::Serves(serving) => {
                cx.work.spend(pieces as u64);
                MessageId::Read(serving.op)
            }
        };
        let is_last = stretch.bytes() == left;
        // No part has more bytes than follow a frame.
        let frame = Frame::Part(LinkPart { of, bytes: stretch.bytes() as u32 });
        cx.link.chunk_bytes = cx.link.chunk_bytes.saturating_sub(stretch.bytes());
        self.stats.link_bytes_sent += stretch.bytes();
        let transfer = self.part_moved(cx, op, stretch.bytes());
        let bytes = Some((transfer, stretch));
        cx.actions.push_back(Action::SendListed { frame, bytes, note: None });
        if !is_last {
            return self.parts.push_back(op);
        }
        if let Some(Listed { role: Role::Serves(serving), .. }) = self.listed.get(op) {
            let list = serving.list;
            self.read_is_dealt(list);
        }
        self.listed_moved(cx, op);
    }

    /// So many bytes of an operation are dealt, and moved by that. Returns whose they are.
    fn part_moved(&mut self, cx: &mut Conversation, op: OpKey, bytes: u64) -> TransferKey {
        let Some(operation) = cx.operations.get_mut(op) else { return TransferKey::default() };
        if let OpState::Matched { bytes_left, bytes_dealt } = &mut operation.state {
            *bytes_left -= bytes;
            *bytes_dealt += bytes;
        }
        if operation.posted.direction == Direction::Send
            && let Some(Listed { role: Role::Serves(_), .. }) = self.listed.get(op)
        {
            self.reads_on_link -= bytes;
        }
        operation.posted.transfer
    }

    /// A part of an operation has come.
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
        let Some(listed) = self.listed.get_mut(op) else { return Landing::Nowhere };
        let left = listed.pieces.bytes - listed.cursor.dealt;
        listed.is_on_link = true;
        let pieces = Arc::clone(&listed.pieces);
        let (stretch, count) = Stretch::take(&mut listed.cursor, &pieces, bytes.into(), usize::MAX);
        cx.work.spend(count as u64);
        self.stats.link_bytes_received += stretch.bytes();
        let transfer = self.part_moved(cx, op, bytes.into());
        if matches!(of, MessageId::Read(_)) && u64::from(bytes) == left {
            self.all_dealt(op);
        }
        self.listed_moved(cx, op);
        Landing::Pieces { transfer, stretch, note: NoteUse::None }
    }

    /// Where the bytes of a part belong that is on its way, as things stand now. `None`: nowhere.
    pub(in super::super) fn place_of(&self, cx: &Conversation, part: LinkPart) -> Option<Stretch> {
        if let Stage::Over = cx.life.stage {
            return None;
        }
        let Whose::Of(op) = self.whose(cx, part) else { return None };
        let listed = self.listed.get(op)?;
        Some(Stretch::ahead(listed.cursor, &listed.pieces, part.bytes.into()))
    }

    /// Which operation a part is of.
    fn whose(&self, cx: &Conversation, part: LinkPart) -> Whose {
        let op = match part.of {
            MessageId::Write(op) => self.whose_write(cx, op, part.bytes),
            MessageId::Read(op) => self.whose_read(cx, OpKey::from_wire(op)),
            MessageId::Receive(_) | MessageId::Ahead(_) => Whose::Nobodys,
        };
        let Whose::Of(op) = op else { return op };
        let left = |listed: &Listed| listed.pieces.bytes - listed.cursor.dealt;
        let is_fit = self.listed.get(op).is_some_and(|it| u64::from(part.bytes) <= left(it));
        if is_fit { Whose::Of(op) } else { Whose::Nobodys }
    }

    /// Which write of the peer.
    fn whose_write(&self, cx: &Conversation, write: u64, bytes: u32) -> Whose {
        if let Some(left) = self.unwanted.get(&write) {
            let is_fit = u64::from(bytes) <= *left;
            return if is_fit { Whose::Unwanted(write) } else { Whose::Nobodys };
        }
        if cx.life.is_leaving_target().is_none() {
            return Whose::Unwanted(write);
        }
        let Some(op) = self.served.get(&write).copied() else { return Whose::Nobodys };
        let takes_parts = self.listed.get(op).is_some_and(|listed| listed.is_on_link);
        let is_write = cx.operations[op].posted.direction == Direction::Receive;
        if is_write && takes_parts { Whose::Of(op) } else { Whose::Nobodys }
    }

    /// Which read of ours.
    fn whose_read(&self, cx: &Conversation, op: OpKey) -> Whose {
        let Some(Listed { pieces, cursor, is_on_link, role: Role::Asks(asking), .. }) =
            self.listed.get(op)
        else {
            return Whose::Nobodys;
        };
        let is_awaited =
            matches!(asking.step, Step::Moving | Step::Halting { is_stopped: false, .. });
        let is_read = asking.list.kind == OperationKind::Read;
        let is_allowed = cx.link.terms.takes_access(pieces.bytes, pieces.memory);
        let begins_so = *is_on_link || cursor.dealt == 0;
        let takes_parts = is_awaited && is_read && is_allowed && begins_so;
        if takes_parts { Whose::Of(op) } else { Whose::Nobodys }
    }

    /// A part of a write has come that was refused.
    fn pass_over(&mut self, write: u64, bytes: u32) {
        let Some(left) = self.unwanted.get_mut(&write) else { return };
        *left = left.saturating_sub(bytes.into());
        if *left == 0 {
            self.unwanted.remove(&write);
        }
    }
}

/// What a part that comes is of.
enum Whose {
    Of(OpKey),
    /// A write of this name that was refused, or that comes after this end has left.
    Unwanted(u64),
    /// The peer breaks the protocol.
    Nobodys,
}
