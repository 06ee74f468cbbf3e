//! Deferral of what the peer has scheduled and this end has not planned yet. Pure.
//!
//! A section of a list of short pieces is one frame, and a plan of it names every piece. So a peer
//! that says sections and does not send their chunks could have this end make any amount of plans.
//! While much is under way, what the peer schedules waits here as it was said, in order: plans are
//! made as chunks arrive.

use std::collections::VecDeque;
use std::sync::Arc;

use super::action::Action;
use super::lifecycle::Actions;
use super::violation::Violation;
use crate::plans::piece_cursor::{ListedSection, PieceCursor};
use crate::plans::pieces::Pieces;
use crate::plans::plan::{ChunkPlan, SpareLists};

/// Most receives that wait. At worst a correct peer schedules each pair of a list by itself. It has
/// few pairs of short lists, as [`MAX_ACTIVE_REQUESTS`](super::one_sided::MAX_ACTIVE_REQUESTS) of
/// these are under way. Of long lists it schedules no more than it may have under way.
const MOST_WAITING: usize = 1 << 21;

/// Something that the peer has scheduled.
#[derive(Debug)]
enum DeferredPlan {
    Plan(ChunkPlan),
    /// A section of a list, which begins at the cursor.
    Section {
        pieces: Arc<Pieces>,
        cursor: PieceCursor,
        section: ListedSection,
    },
}

/// Queue of what the peer has scheduled and this end has not planned.
#[derive(Debug)]
pub(super) struct Deferral {
    /// In the order in which it was scheduled.
    waiting: VecDeque<DeferredPlan>,
    /// [Cost](Pieces::cost) of having under way what is planned of lists and has not arrived.
    planned: u64,
    /// Most of that.
    most_planned: u64,
}

impl Deferral {
    pub(super) fn new(most_planned: u64) -> Self {
        Self { waiting: VecDeque::new(), planned: 0, most_planned }
    }

    fn plans_more(&self) -> bool {
        self.planned < self.most_planned
    }

    fn defer(&mut self, scheduled: DeferredPlan) -> Result<(), Violation> {
        if self.waiting.len() >= MOST_WAITING {
            return Err(Violation::TooManyDealt { limit: MOST_WAITING });
        }
        self.waiting.push_back(scheduled);
        Ok(())
    }

    /// Plans chunks that the peer has scheduled, or lets them wait.
    #[inline]
    pub(super) fn receive_chunks(
        &mut self,
        plan: ChunkPlan,
        actions: &mut Actions,
    ) -> Result<(), Violation> {
        if !self.waiting.is_empty() {
            return self.defer(DeferredPlan::Plan(plan));
        }
        actions.push_back(Action::ReceiveChunks(plan));
        Ok(())
    }

    /// Plans a section of a list that the peer has scheduled, or lets it wait. The section begins
    /// at the cursor, and the cursor steps over it.
    pub(super) fn receive_section(
        &mut self,
        pieces: Arc<Pieces>,
        cursor: &mut PieceCursor,
        section: ListedSection,
        (spare, actions): (&mut SpareLists, &mut Actions),
    ) -> Result<(), Violation> {
        if self.waiting.is_empty() && self.plans_more() {
            self.plan_section(&pieces, cursor, section, spare, actions);
            return Ok(());
        }
        let from = *cursor;
        cursor.skip(&pieces, section.bytes, usize::MAX);
        self.defer(DeferredPlan::Section { pieces, cursor: from, section })
    }

    fn plan_section(
        &mut self,
        pieces: &Pieces,
        cursor: &mut PieceCursor,
        section: ListedSection,
        spare: &mut SpareLists,
        actions: &mut Actions,
    ) {
        let planned = self.planned.saturating_add(pieces.cost(section.bytes));
        self.planned = planned;
        let mut plans = cursor.schedule(pieces, section);
        while let Some(plan) = plans.next_plan(|| spare.take()) {
            actions.push_back(Action::ReceiveChunks(plan));
        }
    }

    /// Notes that a part of lists that costs this much has arrived.
    pub(super) fn list_arrived(&mut self, cost: u64) {
        self.planned = self.planned.saturating_sub(cost);
    }

    /// Plans what waits, until the room is used up.
    #[inline]
    pub(super) fn plan_waiting(&mut self, spare: &mut SpareLists, actions: &mut Actions) {
        while self.plans_more() && self.plan_first(spare, actions) {}
    }

    /// Plans all that waits: something is scheduled that must not wait for its room. What is
    /// planned and does not arrive may be what that is about.
    #[cold]
    pub(super) fn plan_all(&mut self, spare: &mut SpareLists, actions: &mut Actions) {
        while self.plan_first(spare, actions) {}
    }

    /// Plans the first that waits. Returns false when there is nothing.
    fn plan_first(&mut self, spare: &mut SpareLists, actions: &mut Actions) -> bool {
        let first = self.waiting.pop_front();
        let is_there = first.is_some();
        if let Some(scheduled) = first {
            match scheduled {
                DeferredPlan::Plan(plan) => actions.push_back(Action::ReceiveChunks(plan)),
                DeferredPlan::Section { pieces, mut cursor, section } => {
                    self.plan_section(&pieces, &mut cursor, section, spare, actions);
                }
            }
        }
        is_there
    }
}
