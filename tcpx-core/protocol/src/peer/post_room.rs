//! Room for a batch of posts, made before any of them is posted: a program chooses how many they
//! are, and where memory runs out all of them are refused.

use std::collections::TryReserveError;

use super::PeerProtocol;
use super::coalescer::FEW;
use crate::frames::frame::{ANNOUNCE_FRAME_BYTES, ANSWER_FRAME_BYTES, EAGER_FRAME_BYTES};
use crate::types::Direction;

/// Operations that are posted between two polls of what they have queued: a bound on that queue.
pub const PORTION: usize = 1024;
/// Most actions that one post queues at once: a receive takes what is kept, says so, and ends.
const ACTIONS: usize = 3;

impl PeerProtocol {
    /// Makes room for operations that are posted next, [`PORTION`] at a time. Posting them
    /// allocates nothing then, until what was matched is planned.
    pub fn make_room(&mut self, direction: Direction, count: usize) -> Result<(), TryReserveError> {
        self.actions.try_reserve(ACTIONS * count.min(PORTION))?;
        match direction {
            Direction::Send => {
                let matched = self.matched_by(count);
                self.matcher.make_room(count)?;
                self.dealing.make_room(matched)?;
            }
            Direction::Receive => self.eager.make_room(count)?,
        }
        self.make_room_to_announce(direction, count)?;
        // The last one, since its room cannot be given back: it remembers which names were used.
        self.operations.try_reserve(count)
    }

    /// Gives room back that nothing needs.
    pub fn give_room_back(&mut self) {
        self.matcher.give_room_back();
        self.eager.give_room_back();
        self.announcing.unannounced.give_room_back();
        self.dealing.give_room_back();
    }

    /// How many of so many sends may find a receive at once.
    pub fn matched_by(&self, count: usize) -> usize {
        count.min(self.matcher.announced())
    }

    /// Most bytes of the frames that so many posts queue, those of the plans included.
    pub fn frame_bytes(&self, direction: Direction, count: usize) -> usize {
        match direction {
            Direction::Send => {
                let answers = self.matched_by(count).saturating_mul(ANSWER_FRAME_BYTES);
                let on_link = EAGER_FRAME_BYTES + self.eager.most_bytes();
                answers.saturating_add(on_link * count.min(FEW))
            }
            Direction::Receive => count.saturating_mul(ANNOUNCE_FRAME_BYTES),
        }
    }
}
