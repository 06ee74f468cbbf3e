//! How many receives each end announces that have no counterpart. Pure.
//!
//! The end that hears of a receive keeps it until a send meets it. So it says how many may be
//! announced, counted from the first one, as far as it has memory: some at first, and more as they
//! are matched, or as long as others do not need it. Numbers only grow, and need no answer. A
//! receive for which there is none waits at its own end, in the order of the posts, and holds up
//! nothing but receives that were posted behind it: to the other end it is as if it were posted
//! when it is announced. A message that goes ahead meets it all the same.

use std::collections::TryReserveError;

use super::PeerProtocol;
use super::action::{Action, Violation};
use super::operation::OpState;
use super::receives::MessageEnd;
use super::stage::Stage;
use crate::control::frame::{ANNOUNCE_FRAME_BYTES, Frame};
use crate::types::{Direction, OpKey};

impl PeerProtocol {
    /// Receives of ours that the peer takes no announcement of for now.
    pub(crate) fn unannounced(&self) -> usize {
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
        self.announcing.said += 1;
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

    /// The peer takes so many receives, counted from the first one.
    pub(super) fn peer_takes_announcements(&mut self, receives: u64) {
        let before = std::mem::replace(&mut self.announcing.allowed, receives);
        if receives < before {
            self.broken(Violation::AnnouncementsTakenBack { before, now: receives });
        }
    }

    /// Lets the peer announce more receives, if it is about to need that and there is memory.
    #[inline]
    pub(super) fn let_announce(&mut self) -> bool {
        if !matches!(self.stage, Stage::Up { .. }) {
            return false;
        }
        let Some(receives) = self.announcing.renew(self.matcher.announced() as u64) else {
            return false;
        };
        self.actions.push_back(Action::Send(Frame::MayAnnounce { receives }));
        true
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
