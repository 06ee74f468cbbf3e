//! Ring of the sixteen requests of a comm, in order. Pure: no byte moves here.
//!
//! Requests are numbered from 0 over the life of the comm; request k lives in slot k mod 16. Four
//! cursors split the live ones, oldest first:
//!
//! ```text
//!   freed ..... reported ..... queued ..... posted
//!         done,         all of it    waiting for
//!         unconsumed    on sockets   room or records
//! ```
//! A send is freed when `test` reports it; a receive when it is consumed.

use tcpx_sys::MAX_REQUESTS;

/// Answer of `test` about a request before its completion is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestOrder {
    /// It is the oldest request that is on the sockets: report it if it has finished.
    Oldest,
    /// No request is on the sockets: return 0, not done.
    NothingMoves,
    /// Another request is the oldest: the caller broke the order.
    OutOfOrder {
        /// Number of the request that must be tested.
        expected: u64,
    },
    /// The request was freed, or never posted.
    Stale,
}

/// Reason why `irecvConsumed` is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConsumeError {
    /// No request is done and unconsumed.
    NoneDone,
    /// Another request is the oldest done request.
    OutOfOrder {
        /// Number of the request that must be consumed.
        expected: u64,
    },
}

/// Bits of a request's number that its id carries.
pub(crate) const NUMBER_BITS: u32 = 20;

/// The requests and the four cursors.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    slots: [Option<T>; MAX_REQUESTS],
    freed: u64,
    reported: u64,
    queued: u64,
    posted: u64,
}

impl<T> Ring<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: [const { None }; MAX_REQUESTS], freed: 0, reported: 0, queued: 0, posted: 0 }
    }

    /// Returns the slot of a request number, which is also its slot in the unpack queue.
    pub(crate) const fn slot(number: u64) -> usize {
        (number % MAX_REQUESTS as u64) as usize
    }

    /// Returns whether sixteen requests are live.
    pub(crate) fn is_full(&self) -> bool {
        self.posted - self.freed == MAX_REQUESTS as u64
    }

    /// Adds a request and returns its number, or `None` when sixteen are live.
    pub(crate) fn post(&mut self, request: T) -> Option<u64> {
        if self.is_full() {
            return None;
        }
        let number = self.posted;
        self.slots[Self::slot(number)] = Some(request);
        self.posted += 1;
        Some(number)
    }

    /// Returns the live request with this number.
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        if !(self.freed..self.posted).contains(&number) {
            return None;
        }
        self.slots[Self::slot(number)].as_ref()
    }

    /// Returns the live request with this number.
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        if !(self.freed..self.posted).contains(&number) {
            return None;
        }
        self.slots[Self::slot(number)].as_mut()
    }

    /// Returns the number of the live request whose number ends in these bits, or a number that is
    /// never live.
    pub(crate) fn number_from_low_bits(&self, low: u32) -> u64 {
        let mask = (1u64 << NUMBER_BITS) - 1;
        let live = (self.freed..self.posted).find(|number| number & mask == u64::from(low));
        live.unwrap_or(u64::MAX)
    }

    /// Returns the first posted request that is not wholly on the sockets yet, if there is one.
    pub(crate) fn next_to_queue(&self) -> Option<u64> {
        (self.queued < self.posted).then_some(self.queued)
    }

    /// Returns the first request that is not wholly on the sockets yet, posted or still to come.
    pub(crate) fn first_unqueued(&self) -> u64 {
        self.queued
    }

    /// Marks the request that [`Self::next_to_queue`] names as wholly on the sockets.
    pub(crate) fn mark_queued(&mut self) {
        debug_assert!(self.queued < self.posted, "nothing to queue");
        self.queued += 1;
    }

    /// Returns the number of the oldest request that has not been reported done, if there is one.
    pub(crate) fn oldest_unreported(&self) -> Option<u64> {
        (self.reported < self.posted).then_some(self.reported)
    }

    /// Returns whether `number` is the only request that has not been reported done.
    pub(crate) fn is_only_unreported(&self, number: u64) -> bool {
        self.reported == number && self.posted == number + 1
    }

    /// Returns whether no request is live.
    pub(crate) fn is_empty(&self) -> bool {
        self.freed == self.posted
    }

    /// Returns how many requests were ever posted.
    pub(crate) fn posted(&self) -> u64 {
        self.posted
    }

    /// Returns what `test` has to do for request `number`.
    pub(crate) fn test_order(&self, number: u64) -> TestOrder {
        if !(self.freed..self.posted).contains(&number) {
            TestOrder::Stale
        } else if !self.is_moving() {
            TestOrder::NothingMoves
        } else if number == self.reported {
            TestOrder::Oldest
        } else {
            TestOrder::OutOfOrder { expected: self.reported }
        }
    }

    /// Returns whether a request is on the sockets and not reported.
    pub(crate) fn is_moving(&self) -> bool {
        self.reported < self.queued
    }

    /// Marks the oldest moving request as reported done; it stays live until [`Self::free`].
    pub(crate) fn report(&mut self) {
        debug_assert!(self.reported < self.queued, "nothing to report");
        self.reported += 1;
    }

    /// Checks that `number` is the request to consume.
    pub(crate) fn may_consume(&self, number: u64) -> Result<(), ConsumeError> {
        if self.freed == self.reported {
            Err(ConsumeError::NoneDone)
        } else if number != self.freed {
            Err(ConsumeError::OutOfOrder { expected: self.freed })
        } else {
            Ok(())
        }
    }

    /// Takes the oldest live request out, whatever its state.
    pub(crate) fn remove_oldest(&mut self) -> Option<T> {
        if self.freed == self.posted {
            return None;
        }
        let request = self.slots[Self::slot(self.freed)].take();
        self.freed += 1;
        self.reported = self.reported.max(self.freed);
        self.queued = self.queued.max(self.freed);
        request
    }

    /// Frees the oldest request, which has not been reported, if it may be freed.
    pub(crate) fn free_early(&mut self, may_free: impl FnOnce(&T) -> bool) -> Option<T> {
        if self.freed < self.reported || !self.get(self.freed).is_some_and(may_free) {
            return None;
        }
        self.remove_oldest()
    }

    /// Frees the oldest reported request.
    pub(crate) fn free(&mut self) -> Option<T> {
        if self.freed == self.reported {
            return None;
        }
        let request = self.slots[Self::slot(self.freed)].take();
        self.freed += 1;
        request
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_seventeenth_is_refused_until_one_is_freed() {
        let mut ring = Ring::new();
        for number in 0..16 {
            assert_eq!(ring.post(number), Some(number));
        }
        assert_eq!(ring.post(99), None);
        ring.mark_queued();
        ring.report();
        assert_eq!(ring.post(99), None, "done but unconsumed still counts");
        assert_eq!(ring.free(), Some(0));
        assert_eq!(ring.post(16), Some(16));
    }

    #[test]
    fn order_is_enforced_only_once_something_moves() {
        let mut ring = Ring::new();
        ring.post('a');
        ring.post('b');
        assert_eq!(ring.test_order(1), TestOrder::NothingMoves);
        ring.mark_queued();
        assert_eq!(ring.test_order(1), TestOrder::OutOfOrder { expected: 0 });
        assert_eq!(ring.test_order(0), TestOrder::Oldest);
        ring.report();
        assert_eq!(ring.test_order(0), TestOrder::NothingMoves, "done is reported once");
        assert_eq!(ring.test_order(2), TestOrder::Stale);
        assert_eq!(ring.may_consume(1), Err(ConsumeError::OutOfOrder { expected: 0 }));
        assert_eq!(ring.may_consume(0), Ok(()));
        ring.free();
        assert_eq!(ring.test_order(0), TestOrder::Stale);
        assert_eq!(ring.may_consume(0), Err(ConsumeError::NoneDone));
    }

    #[derive(Clone, Copy, Debug)]
    enum RingCall {
        Post,
        Hand,
        Test(u8),
        Consume(u8),
    }

    /// Numbers are drawn much faster than one of several strategies.
    fn steps() -> impl Strategy<Value = Vec<RingCall>> {
        let step = |number| match number {
            0..20 => RingCall::Test(number),
            20..40 => RingCall::Consume(number - 20),
            40..60 => RingCall::Post,
            _ => RingCall::Hand,
        };
        let numbers = prop::collection::vec(0u8..80, 0..400);
        numbers.prop_map(move |numbers| numbers.into_iter().map(step).collect())
    }

    proptest! {
        /// Against a model of three plain queues.
        #[test]
        fn behaves_like_three_queues(steps in steps()) {
            use std::collections::VecDeque;
            let (mut waiting, mut moving) = (VecDeque::new(), VecDeque::new());
            let mut done = VecDeque::new();
            let mut ring = Ring::new();
            let mut next = 0u64;
            for step in steps {
                let live = waiting.len() + moving.len() + done.len();
                let oldest = next - live as u64;
                match step {
                    RingCall::Post => {
                        prop_assert_eq!(ring.post(next).is_some(), live < MAX_REQUESTS);
                        if live < MAX_REQUESTS {
                            waiting.push_back(next);
                            next += 1;
                        }
                    }
                    RingCall::Hand => {
                        prop_assert_eq!(ring.next_to_queue(), waiting.front().copied());
                        if let Some(number) = waiting.pop_front() {
                            ring.mark_queued();
                            moving.push_back(number);
                        }
                    }
                    RingCall::Test(ahead) => {
                        let number = oldest + u64::from(ahead);
                        let expected = match moving.front() {
                            _ if usize::from(ahead) >= live => TestOrder::Stale,
                            None => TestOrder::NothingMoves,
                            Some(&front) if front == number => TestOrder::Oldest,
                            Some(&front) => TestOrder::OutOfOrder { expected: front },
                        };
                        prop_assert_eq!(ring.test_order(number), expected);
                        if expected == TestOrder::Oldest {
                            ring.report();
                            done.extend(moving.pop_front());
                        }
                    }
                    RingCall::Consume(ahead) => {
                        let number = oldest + u64::from(ahead);
                        let allowed = done.front() == Some(&number);
                        prop_assert_eq!(ring.may_consume(number).is_ok(), allowed);
                        if allowed {
                            prop_assert_eq!(ring.free(), done.pop_front());
                        }
                    }
                }
                let oldest = next - (waiting.len() + moving.len() + done.len()) as u64;
                prop_assert_eq!(ring.get(oldest).copied(), (oldest < next).then_some(oldest));
                prop_assert!(oldest == 0 || ring.get(oldest - 1).is_none());
            }
        }
    }
}
