//! Limits of what an end makes the other one keep: announced receives, messages ahead of them, and
//! notifications. [`room`](super::flow_control) says how much of each may come. Pure.

use super::PeerProtocol;
use super::lifecycle::stage::Stage;
use super::violation::Violation;
use crate::frames::eager_terms::CreditKind;
use crate::frames::frame::Frame;

impl PeerProtocol {
    /// Notes that the peer takes this much of something that is no chunk, counted from the first
    /// one.
    pub(super) fn handle_credit_of(
        &mut self,
        what: CreditKind,
        counts: &[u64],
    ) -> Result<(), Violation> {
        let count = counts.first().copied().unwrap_or_default();
        match what {
            CreditKind::Notes => self.one_sided.handle_credit_of(count),
            _ => self.tags.handle_credit_of(what, count),
        }
    }

    /// Says what the peer may send before this end says more.
    pub(super) fn let_send_at_first(&mut self) {
        let tags = self.tags.first_grants().into_iter().flatten();
        for (what, count) in tags.chain(self.one_sided.first_grants()) {
            self.cx.send(Frame::may_send(what, count));
        }
    }

    /// Lets the peer send more of what is kept, if it is about to need that and there is memory.
    /// Notifications of a peer go on while this end leaves.
    #[inline]
    pub(super) fn let_send(&mut self) -> bool {
        let is_up = match &self.cx.life.stage {
            Stage::Up { .. } => true,
            Stage::Closing(shutdown) if !shutdown.has_sent_goodbye() => false,
            Stage::Connecting { .. } | Stage::Closing(_) | Stage::Over => return false,
        };
        // Room that one kind gives back may be what another one waits for.
        let of_tags = if is_up { self.tags.needs_grant() } else { [false; 2] };
        let of_notes = self.one_sided.needs_grant();
        if of_tags == [false; 2] && !of_notes {
            return false;
        }
        let said = self.cx.actions.len();
        let tags = self.tags.grant_room(of_tags).into_iter().flatten();
        for (what, count) in tags.chain(self.one_sided.grant_room(of_notes)) {
            self.cx.send(Frame::may_send(what, count));
        }
        self.cx.actions.len() > said
    }

    /// Notes that the program has taken notifications of this peer that cost `cost` so far.
    pub fn handle_notes_taken(&mut self, cost: u64) {
        self.one_sided.notes_taken(cost);
    }

    /// Ends the share of the peer: others keep what is left of its notifications.
    pub fn let_go_of_notes(&mut self) {
        self.one_sided.let_go_of_notes();
    }

    /// Notifications of the program that the peer has no room for.
    pub fn unsent_notes(&self) -> usize {
        self.one_sided.unsent_notes()
    }

    /// Returns the cost of the notifications that wait to be sent.
    pub fn queued_notes(&self) -> u64 {
        self.one_sided.queued_notes()
    }
}
