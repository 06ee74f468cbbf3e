//! Part of a case, which is one size of a plan.

use std::ops::Range;

use super::operations::OneSided;
use super::plan::{Batch, Mode, Plan};

/// A part of a case.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedCase<'a> {
    pub(super) plan: &'a Plan,
    /// Bytes of one message.
    pub(super) bytes: u64,
    /// Iterations, uncounted and counted.
    pub(super) iterations: u64,
    /// Uncounted iterations, which come first.
    pub(super) warmup: u64,
    /// Number of the first message, which selects its payload.
    pub(super) first_message: u64,
    /// Whether it is the first part of the case.
    pub(super) is_first: bool,
}

impl PlannedCase<'_> {
    /// Returns the messages of one iteration, or the descriptors of one operation.
    pub(super) fn messages(&self) -> u64 {
        match self.plan.mode {
            Mode::Messages(Batch { messages, .. }) => messages.into(),
            Mode::OneSided(OneSided { descriptors, .. }) => descriptors.into(),
            Mode::Throughput | Mode::Bidirectional | Mode::Latency | Mode::Notifications => 1,
        }
    }

    /// Returns the bytes of one iteration, or of one operation.
    pub(super) fn total_bytes(&self) -> u64 {
        self.bytes * self.messages()
    }

    /// Returns whether an iteration is measured, and no warmup.
    pub(super) fn is_counted(&self, iteration: u64) -> bool {
        iteration >= self.warmup
    }

    /// Returns how many of these iterations are measured.
    pub(super) fn counted_of(&self, iterations: &Range<u64>) -> u64 {
        iterations.end.saturating_sub(iterations.start.max(self.warmup))
    }

    /// Returns how many iterations are counted.
    pub(super) fn counted(&self) -> u64 {
        self.iterations - self.warmup
    }

    /// Returns the first size of a plan as one part.
    #[cfg(test)]
    pub(super) fn whole(plan: &Plan) -> PlannedCase<'_> {
        let warmup = u64::from(plan.warmup);
        let iterations = warmup + u64::from(plan.iterations);
        let bytes = plan.sizes[0];
        PlannedCase { plan, bytes, iterations, warmup, first_message: 0, is_first: true }
    }
}
