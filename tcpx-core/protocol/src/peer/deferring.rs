//! Receives that the peer has dealt and that are not planned yet.
//!
//! A section of a list of short pieces is one frame, and a plan of it names every piece. So a peer
//! that says sections and does not send their chunks could have this end make any amount of plans.
//! While much is under way, what the peer deals waits here as it was said, in order: plans are made
//! as chunks arrive. Pure.

use std::sync::Arc;

use super::PeerProtocol;
use super::action::{Action, Violation};
use super::deferral::Dealt;
use crate::plans::piece_cursor::{ListedSection, PieceCursor};
use crate::plans::pieces::Pieces;
use crate::plans::plan::ChunkPlan;
use crate::types::OpKey;

/// Most receives that wait. At worst a correct peer deals each pair of a list by itself; it has few
/// pairs of short lists, [`MAX_ASKED`](super::one_sided::MAX_ASKED) of which are under way, and
/// deals no more of long ones than it may have under way.
const MOST_WAITING: usize = 1 << 21;

impl PeerProtocol {
    /// The peer has dealt this.
    #[inline]
    pub(super) fn receive_chunks(&mut self, plan: ChunkPlan) {
        if self.deferral.waiting.is_empty() {
            return self.actions.push_back(Action::ReceiveChunks(plan));
        }
        self.defer(Dealt::Plan(plan));
    }

    /// The peer has dealt a section of a list, which begins at the cursor. That steps over it.
    pub(super) fn receive_section(
        &mut self,
        pieces: Arc<Pieces>,
        cursor: &mut PieceCursor,
        section: ListedSection,
    ) {
        if self.deferral.waiting.is_empty() && self.plans_more() {
            return self.plan_receive(&pieces, cursor, section);
        }
        let from = *cursor;
        cursor.skip(&pieces, section.bytes, usize::MAX);
        self.defer(Dealt::Section { pieces, cursor: from, section });
    }

    fn plans_more(&self) -> bool {
        self.deferral.planned < self.one_sided.terms.planned
    }

    fn defer(&mut self, dealt: Dealt) {
        if self.deferral.waiting.len() >= MOST_WAITING {
            return self.broken(Violation::TooManyDealt { limit: MOST_WAITING });
        }
        self.deferral.waiting.push_back(dealt);
    }

    fn plan_receive(&mut self, pieces: &Pieces, cursor: &mut PieceCursor, section: ListedSection) {
        let planned = self.deferral.planned.saturating_add(pieces.cost(section.bytes));
        self.deferral.planned = planned;
        self.make_plans(cursor, pieces, section, Action::ReceiveChunks);
    }

    /// So many bytes of a list have arrived.
    pub(super) fn list_arrived(&mut self, op: OpKey, bytes: u64) {
        let Some(listed) = self.one_sided.listed.get(op) else { return };
        let cost = listed.pieces.cost(bytes);
        self.deferral.planned = self.deferral.planned.saturating_sub(cost);
    }

    /// Plans what waits, as far as there is room.
    #[inline]
    pub(super) fn plan_waiting(&mut self) {
        while self.plans_more()
            && let Some(dealt) = self.deferral.waiting.pop_front()
        {
            match dealt {
                Dealt::Plan(plan) => self.actions.push_back(Action::ReceiveChunks(plan)),
                Dealt::Section { pieces, mut cursor, section } => {
                    self.plan_receive(&pieces, &mut cursor, section);
                }
            }
        }
    }
}
