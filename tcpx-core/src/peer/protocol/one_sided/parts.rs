//! Bytes of operations that travel on the link, part by part, at whichever end.
//!
//! A part is sent from where its bytes lie, and is in place as soon as its frame has been handled:
//! nothing of it is under way that one end would have to wait for. So a write needs no grant. A
//! target that refuses one, or takes its memory back, answers at once, and passes over the parts
//! that come all the same, until the last one or the word that no more come.

use std::sync::Arc;

use super::super::PeerProtocol;
use super::super::action::{Action, Landing, NoteUse, Violation};
use super::super::operation::OpState;
use super::{Listed, Role, Step};
use crate::control::frame::Frame;
use crate::control::frame::one_sided::OneSidedFrame;
use crate::transfer::stretch::Stretch;
use crate::types::remote_access::OperationKind;
use crate::types::{Direction, OpKey, TransferKey};

impl PeerProtocol {
    /// This end sends the bytes of an operation on the link from now on.
    pub(super) fn begin_parts(&mut self, op: OpKey) {
        let Some(operation) = self.operations.get_mut(op) else { return };
        let bytes = operation.posted.bytes;
        operation.state = OpState::Matched { bytes_left: bytes, bytes_dealt: 0 };
        let Some(listed) = self.one_sided.listed.get_mut(op) else { return };
        listed.is_on_link = true;
        if let Role::Serves(_) = listed.role {
            self.one_sided.reads_on_link += bytes;
        }
        self.one_sided.parts.push_back(op);
    }

    /// Sends the next part of the operation that has its turn, if the kernel takes it at once:
    /// otherwise it would be copied to wait.
    pub(super) fn part_next(&mut self) -> bool {
        while let Some(op) = self.one_sided.parts.front().copied() {
            if !self.is_dealt(op) {
                self.one_sided.parts.pop_front();
                continue;
            }
            if !self.eager.is_link_clear {
                return false;
            }
            self.deal_part(op);
            return true;
        }
        false
    }

    fn deal_part(&mut self, op: OpKey) {
        self.one_sided.parts.pop_front();
        self.one_sided.is_turn_of_parts = false;
        let Some(listed) = self.one_sided.listed.get_mut(op) else { return };
        let left = listed.pieces.bytes - listed.cursor.dealt;
        let stretch = Stretch::take(
            &mut listed.cursor,
            &listed.pieces,
            left.min(self.eager.terms.part_bytes),
        );
        let (kind, name) = match &listed.role {
            Role::Asks(_) => (OperationKind::Write, op.to_wire()),
            Role::Serves(serving) => (OperationKind::Read, serving.op),
        };
        let is_last = stretch.bytes() == left;
        // No part has more bytes than follow a frame.
        let bytes = stretch.bytes() as u32;
        let frame = Frame::OneSided(OneSidedFrame::Part { kind, op: name, bytes });
        self.eager.link_room = self.eager.link_room.saturating_sub(bytes as usize);
        self.one_sided.stats.link_bytes_sent += stretch.bytes();
        let transfer = self.part_moved(op, stretch.bytes());
        let bytes = Some((transfer, stretch));
        self.actions.push_back(Action::SendListed { frame, bytes, note: None });
        if !is_last {
            return self.one_sided.parts.push_back(op);
        }
        if let Some(Listed { role: Role::Serves(serving), .. }) = self.one_sided.listed.get(op) {
            let list = serving.list;
            self.read_is_dealt(list);
        }
        self.listed_moved(op);
    }

    /// So many bytes of an operation are dealt, and moved by that. Returns whose they are.
    fn part_moved(&mut self, op: OpKey, bytes: u64) -> TransferKey {
        let Some(operation) = self.operations.get_mut(op) else { return TransferKey::default() };
        if let OpState::Matched { bytes_left, bytes_dealt } = &mut operation.state {
            *bytes_left -= bytes;
            *bytes_dealt += bytes;
        }
        if operation.posted.direction == Direction::Send
            && let Some(Listed { role: Role::Serves(_), .. }) = self.one_sided.listed.get(op)
        {
            self.one_sided.reads_on_link -= bytes;
        }
        operation.posted.transfer
    }

    /// A part of an operation has come.
    pub(super) fn handle_part(&mut self, kind: OperationKind, name: u64, bytes: u32) -> Landing {
        let part = match kind {
            OperationKind::Write => self.part_of_write(name, bytes.into()),
            OperationKind::Read => self.part_of_read(OpKey::from_wire(name)),
        };
        let Part::Of(op) = part else {
            if let Part::Bad = part {
                self.broken(Violation::Part { op: name, bytes });
            }
            return Landing::Nowhere;
        };
        let Some(listed) = self.one_sided.listed.get_mut(op) else { return Landing::Nowhere };
        let left = listed.pieces.bytes - listed.cursor.dealt;
        if u64::from(bytes) > left {
            self.broken(Violation::Part { op: name, bytes });
            return Landing::Nowhere;
        }
        listed.is_on_link = true;
        let pieces = Arc::clone(&listed.pieces);
        let stretch = Stretch::take(&mut listed.cursor, &pieces, bytes.into());
        self.one_sided.stats.link_bytes_received += stretch.bytes();
        let transfer = self.part_moved(op, bytes.into());
        if kind == OperationKind::Read && u64::from(bytes) == left {
            self.all_dealt(op);
        }
        self.listed_moved(op);
        Landing::Pieces { transfer, stretch, note: NoteUse::None }
    }

    /// Which write of the peer a part is of.
    fn part_of_write(&mut self, name: u64, bytes: u64) -> Part {
        if let Some(left) = self.one_sided.unwanted.get_mut(&name) {
            let Some(rest) = left.checked_sub(bytes) else { return Part::Bad };
            *left = rest;
            if rest == 0 {
                self.one_sided.unwanted.remove(&name);
            }
            return Part::Unwanted;
        }
        if self.is_leaving_target().is_none() {
            return Part::Unwanted;
        }
        let Some(op) = self.one_sided.served.get(&name).copied() else { return Part::Bad };
        let takes_parts = self.one_sided.listed.get(op).is_some_and(|listed| listed.is_on_link);
        let is_write = self.operations[op].posted.direction == Direction::Receive;
        if is_write && takes_parts { Part::Of(op) } else { Part::Bad }
    }

    /// Which read of ours a part is of.
    fn part_of_read(&self, op: OpKey) -> Part {
        let Some(Listed { pieces, cursor, is_on_link, role: Role::Asks(asking), .. }) =
            self.one_sided.listed.get(op)
        else {
            return Part::Bad;
        };
        let is_awaited =
            matches!(asking.step, Step::Moving | Step::Halting { is_stopped: false, .. });
        let is_read = asking.list.kind == OperationKind::Read;
        let terms = &self.eager.terms;
        let is_allowed = terms.allows_access(pieces.bytes) && terms.reaches(pieces.memory);
        let begins_so = *is_on_link || cursor.dealt == 0;
        let takes_parts = is_awaited && is_read && is_allowed && begins_so;
        if takes_parts { Part::Of(op) } else { Part::Bad }
    }
}

/// What a part that has come is of.
enum Part {
    Of(OpKey),
    /// It was refused, or this end has left.
    Unwanted,
    /// The peer breaks the protocol.
    Bad,
}
