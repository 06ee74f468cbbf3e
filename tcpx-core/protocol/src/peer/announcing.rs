//! How many receives each end announces that have no counterpart, and what else it makes the other
//! one keep. Pure.
//!
//! The end that hears of a receive keeps it until a send meets it, as it keeps messages that go
//! ahead, and notifications that its program has not taken. So it [says](super::room) how much may
//! come. A receive for which there is no room waits at its own end, in the order of the posts, and
//! holds up nothing but receives that were posted behind it: to the other end it is as if it were
//! posted when it is announced. A message that goes ahead meets it all the same.

use std::collections::TryReserveError;

use super::PeerProtocol;
use super::action::{Action, Violation};
use super::operation::OpState;
use super::receives::MessageEnd;
use super::stage::Stage;
use crate::frames::frame::{ANNOUNCE_FRAME_BYTES, Frame};
use crate::frames::keeping::Keeping;
use crate::types::{Direction, OpKey};

impl PeerProtocol {
    /// Receives of ours that the peer takes no announcement of for now.
    pub fn unannounced(&self) -> usize {
        self.announcing.unannounced.len()
    }

    /// Announces a receive.
    #[inline]
    pub(super) fn announce(&mut self, op: OpKey) {
        let Some(operation) = self.operations.get_mut(op) else { return };
        let posted = operation.posted;
        operation.place = self.eager.await_message(posted.tag, op);
        operation.state = OpState::Announced;
        let delivery = MessageEnd::delivery(self.last_announced.as_ref(), &posted.span);
        self.last_announced = Some(MessageEnd::new(posted.span, posted.bytes));
        let (recv, tag, bytes) = (op.to_wire(), posted.tag, posted.bytes);
        self.announcing.allowed.sent += 1;
        self.actions.push_back(Action::Send(Frame::Announce { recv, tag, bytes, delivery }));
    }

    /// Whether a receive that has waited is announced, as soon as the link has room.
    pub(super) fn announces_more(&self) -> bool {
        matches!(self.stage, Stage::Up { .. }) && self.announcing.has_next()
    }

    /// Announces the receive that has waited longest. False if there is none, or no room.
    pub(super) fn announce_next(&mut self) -> bool {
        if self.eager.link_room == 0 || !self.announces_more() {
            return false;
        }
        let Some((_, op)) = self.announcing.unannounced.pop_oldest() else { return false };
        self.eager.link_room = self.eager.link_room.saturating_sub(ANNOUNCE_FRAME_BYTES);
        self.announce(op);
        true
    }

    /// The peer takes so much of this, counted from the first one.
    pub(super) fn peer_takes(&mut self, what: Keeping, count: u64) {
        let allowed = match what {
            Keeping::Receives => &mut self.announcing.allowed,
            Keeping::Ahead => &mut self.eager.allowed,
            Keeping::Notes => &mut self.one_sided.notes.allowed,
        };
        if let Err(violation) = allowed.hear(what, count) {
            self.broken(violation);
        }
    }

    /// The peer sends more of this than it may.
    #[cold]
    pub(super) fn no_room(&mut self, what: Keeping) {
        let given = match what {
            Keeping::Receives => &self.announcing.given,
            Keeping::Ahead => &self.eager.given,
            Keeping::Notes => &self.one_sided.notes.given,
        };
        self.broken(Violation::NoRoom { what, limit: given.given() });
    }

    /// What the peer may send before this end says more.
    pub(super) fn let_send_at_first(&mut self) {
        for (what, count) in [
            (Keeping::Receives, self.announcing.given.first()),
            (Keeping::Ahead, self.eager.given.first()),
            (Keeping::Notes, self.one_sided.notes.given.first()),
        ] {
            if let Some(count) = count {
                self.actions.push_back(Action::Send(Frame::MaySend { what, count }));
            }
        }
    }

    /// Lets the peer send more of what is kept, if it is about to need that and there is memory.
    /// Notifications of a peer go on while this end leaves.
    #[inline]
    pub(super) fn let_send(&mut self) -> bool {
        let is_up = match &self.stage {
            Stage::Up { .. } => true,
            Stage::Closing(shutdown) if !shutdown.has_said_goodbye() => false,
            Stage::Connecting { .. } | Stage::Closing(_) | Stage::Over => return false,
        };
        // What one kind gives back may be what another one waits for.
        let receives = is_up && self.announcing.given.look(self.matcher.announced() as u64);
        let ahead = is_up && self.eager.given.look(self.eager.buffer_used);
        let notes = self.one_sided.notes.look();
        if !(receives || ahead || notes) {
            return false;
        }
        let said = self.actions.len();
        for (is_due, what, given) in [
            (receives, Keeping::Receives, &mut self.announcing.given),
            (ahead, Keeping::Ahead, &mut self.eager.given),
            (notes, Keeping::Notes, &mut self.one_sided.notes.given),
        ] {
            if is_due && let Some(count) = given.give() {
                self.actions.push_back(Action::Send(Frame::MaySend { what, count }));
            }
        }
        self.actions.len() > said
    }

    /// A message of the peer went ahead, and the receive of its tag that comes next waits to be
    /// announced: it has its message, as if it were posted now.
    pub(super) fn take_unannounced(&mut self, tag: i64) -> Option<OpKey> {
        self.announcing.unannounced.pop(tag)
    }

    /// Makes room for so many posts in the books.
    pub(super) fn make_room_to_announce(
        &mut self,
        direction: Direction,
        count: usize,
    ) -> Result<(), TryReserveError> {
        match direction {
            Direction::Send => Ok(()),
            Direction::Receive => self.announcing.make_room(count),
        }
    }
}
