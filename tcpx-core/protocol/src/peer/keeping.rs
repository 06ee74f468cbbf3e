//! What an end makes the other one keep: announced receives, messages ahead of them, and
//! notifications. [`room`](super::room) says how much of each may come. Pure.

use super::PeerProtocol;
use super::action::{Action, Violation};
use super::stage::Stage;
use crate::frames::eager_terms::Keeping;
use crate::frames::frame::Frame;

impl PeerProtocol {
    /// The peer takes so much of this, counted from the first one.
    pub(super) fn peer_takes(&mut self, what: Keeping, count: u64) -> Result<(), Violation> {
        let allowed = match what {
            Keeping::Receives => &mut self.tags.announcing.allowed,
            Keeping::Ahead => &mut self.tags.eager.allowed,
            Keeping::Notes => &mut self.one_sided.notes.allowed,
        };
        allowed.hear(what, count)
    }

    /// What the peer may send before this end says more.
    pub(super) fn let_send_at_first(&mut self) {
        for (what, count) in [
            (Keeping::Receives, self.tags.announcing.given.first()),
            (Keeping::Ahead, self.tags.eager.given.first()),
            (Keeping::Notes, self.one_sided.notes.given.first()),
        ] {
            if let Some(count) = count {
                self.cx.actions.push_back(Action::Send(Frame::MaySend { what, count }));
            }
        }
    }

    /// Lets the peer send more of what is kept, if it is about to need that and there is memory.
    /// Notifications of a peer go on while this end leaves.
    #[inline]
    pub(super) fn let_send(&mut self) -> bool {
        let is_up = match &self.cx.life.stage {
            Stage::Up { .. } => true,
            Stage::Closing(shutdown) if !shutdown.has_said_goodbye() => false,
            Stage::Connecting { .. } | Stage::Closing(_) | Stage::Over => return false,
        };
        // What one kind gives back may be what another one waits for.
        let receives =
            is_up && self.tags.announcing.given.look(self.tags.matcher.announced() as u64);
        let ahead = is_up && self.tags.eager.given.look(self.tags.eager.buffer_used);
        let notes = self.one_sided.notes.look();
        if !(receives || ahead || notes) {
            return false;
        }
        let said = self.cx.actions.len();
        for (is_due, what, given) in [
            (receives, Keeping::Receives, &mut self.tags.announcing.given),
            (ahead, Keeping::Ahead, &mut self.tags.eager.given),
            (notes, Keeping::Notes, &mut self.one_sided.notes.given),
        ] {
            if is_due && let Some(count) = given.give() {
                self.cx.actions.push_back(Action::Send(Frame::MaySend { what, count }));
            }
        }
        self.cx.actions.len() > said
    }

    /// The program has taken notifications of this peer that cost so much so far.
    pub fn handle_notes_taken(&mut self, cost: u64) {
        self.one_sided.notes.take(cost);
    }

    /// The peer ends: what is left of its notifications is kept by others.
    pub fn let_go_of_notes(&mut self) {
        self.one_sided.notes.given.let_go();
    }

    /// Notifications of the program that the peer has no room for.
    pub fn unsent_notes(&self) -> usize {
        self.one_sided.notes.waiting()
    }

    /// What notifications cost that wait to be sent.
    pub fn queued_notes(&self) -> u64 {
        self.one_sided.notes.queued()
    }
}
