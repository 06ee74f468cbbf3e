//! Window of a comm: requests in flight, in the order that the plugin demands. Pure.
//!
//! A request goes posted → arrived → gone, strictly oldest first at each step. A send is gone as
//! soon as it is done (`finish` right after `arrive`); a receive holds its slot until its bytes
//! were unpacked and the plugin was notified.
//!
//! The window also bounds what a lane does at once, so that no thread waits long for the lock.
//! Pure.

use std::collections::VecDeque;

use crate::stats::ChannelStats;
use crate::stats::watch::lane::LaneSample;

/// Requests in flight on one comm, oldest first.
#[derive(Debug)]
pub(crate) struct Window<T> {
    requests: VecDeque<T>,
    /// Number of slots from the front that have arrived.
    arrived: usize,
    limit: usize,
}

impl<T> Window<T> {
    /// Returns a window of `limit` slots, at least one. Never allocates again.
    pub(crate) fn new(limit: usize) -> Self {
        let limit = limit.max(1);
        Self { requests: VecDeque::with_capacity(limit), arrived: 0, limit }
    }

    /// Returns whether one more request may be posted.
    pub(crate) fn has_room(&self) -> bool {
        self.requests.len() < self.limit
    }

    /// Requests that hold a slot.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Requests that have arrived and hold their slot.
    pub(crate) fn arrived(&self) -> usize {
        self.arrived
    }

    /// Returns the number of slots.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the sample of its lane as it is now, for the watch.
    pub(crate) fn sample(&self, stats: ChannelStats, chunk_bytes: u32) -> LaneSample {
        let (in_flight, arrived) = (self.len(), self.arrived);
        LaneSample { stats, in_flight, arrived, window: self.limit, chunk_bytes }
    }

    /// Adds a request that was posted. The caller asked [`has_room`](Self::has_room) first.
    pub(crate) fn post(&mut self, request: T) {
        debug_assert!(self.has_room());
        self.requests.push_back(request);
    }

    /// Returns whether any request has not arrived.
    pub(crate) fn has_posted(&self) -> bool {
        self.arrived < self.requests.len()
    }

    /// Returns the request that `test` must be called with next.
    pub(crate) fn oldest_posted(&mut self) -> Option<&mut T> {
        self.requests.get_mut(self.arrived)
    }

    /// Marks the oldest posted request as arrived: `test` said done for it.
    pub(crate) fn arrive(&mut self) {
        debug_assert!(self.arrived < self.requests.len());
        self.arrived += 1;
    }

    /// Returns the request that must leave next, if it has arrived.
    pub(crate) fn oldest_arrived(&self) -> Option<&T> {
        self.requests.front().filter(|_| self.arrived > 0)
    }

    /// Returns the request that arrived last, if its slot is still held.
    pub(crate) fn newest_arrived(&self) -> Option<&T> {
        self.arrived.checked_sub(1).and_then(|index| self.requests.get(index))
    }

    /// Frees the slot of the oldest request, which has arrived.
    pub(crate) fn finish(&mut self) -> Option<T> {
        self.arrived = self.arrived.checked_sub(1)?;
        self.requests.pop_front()
    }
}

/// Payload that one step of a lane moves where the calling thread copies it, about 50 µs of work:
/// the step ends with the chunk that reaches it.
pub(crate) const STEP_BYTES: u64 = 256 << 10;
/// Requests that one step finishes, about as long.
const STEP_REQUESTS: u32 = 32;

/// Result of one step of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub(crate) struct LaneStep {
    /// Whether anything was posted, sent, or has arrived.
    pub(crate) moved: bool,
    /// Whether the step ended because it was long enough: there is more to do at once, and no
    /// descriptor need become ready for it.
    pub(crate) more: bool,
}

/// Budget that a step has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepBudget {
    bytes: u64,
    requests: u32,
}

impl StepBudget {
    /// Makes the budget of a step that moves this many bytes, `u64::MAX` where the calling thread
    /// moves none.
    pub(super) fn new(bytes: u64) -> Self {
        Self { bytes, requests: STEP_REQUESTS }
    }

    /// Spends the budget on a request of this many bytes that has finished.
    pub(super) fn spend(&mut self, bytes: u32) {
        self.bytes = self.bytes.saturating_sub(u64::from(bytes));
        self.requests = self.requests.saturating_sub(1);
    }

    /// Returns whether the step has done enough.
    pub(super) fn is_spent(&self) -> bool {
        self.bytes == 0 || self.requests == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a plugin that counts: never more than the limit, and each step strictly in
        /// order.
        #[test]
        fn never_overruns_and_keeps_order(limit in 1usize..20, steps in proptest::collection::vec(0u8..3, 0..300)) {
            let mut window = Window::new(limit);
            let (mut posted, mut arrived, mut gone) = (0u32, 0u32, 0u32);
            for step in steps {
                match step {
                    0 if window.has_room() => {
                        window.post(posted);
                        posted += 1;
                    }
                    0 => prop_assert_eq!((posted - gone) as usize, limit, "full only when all slots are held"),
                    1 => match window.oldest_posted() {
                        Some(request) => {
                            prop_assert_eq!(*request, arrived);
                            window.arrive();
                            arrived += 1;
                        }
                        None => prop_assert_eq!(arrived, posted),
                    },
                    _ => {
                        let expected = (gone < arrived).then_some(gone);
                        prop_assert_eq!(window.oldest_arrived().copied(), expected);
                        let newest = (gone < arrived).then(|| arrived - 1);
                        prop_assert_eq!(window.newest_arrived().copied(), newest);
                        prop_assert_eq!(window.finish(), expected);
                        gone += u32::from(expected.is_some());
                    }
                }
                prop_assert_eq!(window.len() as u32, posted - gone);
                prop_assert_eq!(window.arrived() as u32, arrived - gone);
            }
        }
    }

    #[test]
    fn a_step_ends_with_enough_bytes_or_enough_requests() {
        let mut budget = StepBudget::new(100);
        budget.spend(99);
        assert!(!budget.is_spent());
        budget.spend(512);
        assert!(budget.is_spent());

        let mut budget = StepBudget::new(u64::MAX);
        (1..STEP_REQUESTS).for_each(|_| budget.spend(u32::MAX));
        assert!(!budget.is_spent(), "bytes that this thread does not copy");
        budget.spend(0);
        assert!(budget.is_spent());
    }
}
