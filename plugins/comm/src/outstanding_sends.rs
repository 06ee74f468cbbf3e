//! Tracker of zero-copy sends: knows when the system no longer reads their memory. Pure.
//!
//! The system numbers the zero-copy sends of a socket from 0, with 32 bits. It reports ends as
//! ranges of several calls, not always in order.

use std::collections::VecDeque;

/// One call.
#[derive(Clone, Copy, Debug)]
struct OutstandingSend {
    bytes: usize,
    is_complete: bool,
}

/// Outstanding calls of one socket.
#[derive(Debug, Default)]
pub struct OutstandingSends {
    /// Number of the oldest call that is not over.
    first: u64,
    /// The oldest call that is not over, and all later calls.
    calls: VecDeque<OutstandingSend>,
}

impl OutstandingSends {
    /// Records a call that has sent `bytes` bytes. Returns the number of calls so far.
    pub fn begin(&mut self, bytes: usize) -> u64 {
        self.calls.push_back(OutstandingSend { bytes, is_complete: false });
        self.first + self.calls.len() as u64
    }

    /// Marks the calls `from..=to`, as the system numbers them, as over. Returns the number of
    /// bytes sent by calls of the range that were not over before.
    pub fn end(&mut self, from: u32, to: u32) -> usize {
        let mut bytes = 0;
        for (number, call) in (self.first..).zip(&mut self.calls) {
            // Cut to the system's 32 bits. Numbers wrap around, and so does a range.
            let is_meant = (number as u32).wrapping_sub(from) <= to.wrapping_sub(from);
            if is_meant && !call.is_complete {
                call.is_complete = true;
                bytes += call.bytes;
            }
        }
        while self.calls.front().is_some_and(|call| call.is_complete) {
            self.calls.pop_front();
            self.first += 1;
        }
        bytes
    }

    /// Returns whether the first `count` calls are over.
    #[must_use]
    pub fn are_complete(&self, count: u64) -> bool {
        count <= self.first
    }

    /// Returns whether all calls are over.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_call_is_over_when_all_before_it_are() {
        let mut sends = OutstandingSends::default();
        assert!(sends.is_empty() && sends.are_complete(0));
        assert_eq!([10, 20, 30, 40].map(|bytes| sends.begin(bytes)), [1, 2, 3, 4]);
        assert_eq!(sends.end(1, 2), 50, "two calls at once, out of order");
        assert!(!sends.are_complete(1) && !sends.are_complete(3));
        assert_eq!(sends.end(0, 0), 10);
        assert!(sends.are_complete(3) && !sends.are_complete(4) && !sends.is_empty());
        assert_eq!((sends.end(0, 2), sends.end(4, 9)), (0, 0), "over before, and never made");
        assert_eq!(sends.end(3, 3), 40);
        assert!(sends.are_complete(4) && sends.is_empty());
    }

    #[test]
    fn a_range_wraps_around_as_its_numbers_do() {
        let first = u64::from(u32::MAX) - 1;
        let mut sends = OutstandingSends { first, ..OutstandingSends::default() };
        let counts = [1, 2, 4, 8].map(|bytes| sends.begin(bytes));
        assert_eq!(counts[3], first + 4);
        assert_eq!(sends.end(u32::MAX, 0), 6);
        assert!(!sends.are_complete(counts[0]));
        assert_eq!(sends.end(u32::MAX - 1, u32::MAX - 1), 1);
        assert!(sends.are_complete(counts[2]) && !sends.are_complete(counts[3]));
        assert_eq!(sends.end(1, 1), 8);
        assert!(sends.is_empty());
    }

    #[derive(Clone, Copy, Debug)]
    enum SendEvent {
        Begin(usize),
        /// Number of a call, counted from some calls before the oldest one that the model knows,
        /// and the length of the range.
        End(u8, u8),
    }

    fn steps() -> impl Strategy<Value = Vec<SendEvent>> {
        let step = prop_oneof![
            (1usize..1000).prop_map(SendEvent::Begin),
            (0u8..20, 1u8..6).prop_map(|(from, calls)| SendEvent::End(from, calls)),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        /// Compares with a model that keeps every outstanding call by its full number.
        #[test]
        fn behaves_like_a_set_of_calls(
            steps in steps(),
            first in prop_oneof![Just(0), (u64::from(u32::MAX) - 50)..(u64::from(u32::MAX) + 50)],
        ) {
            let mut sends = OutstandingSends { first, ..OutstandingSends::default() };
            let (mut model, mut next) = (BTreeMap::new(), first);
            for step in steps {
                match step {
                    SendEvent::Begin(bytes) => {
                        model.insert(next, bytes);
                        next += 1;
                        prop_assert_eq!(sends.begin(bytes), next);
                    }
                    SendEvent::End(from, calls) => {
                        let oldest = model.first_key_value().map_or(next, |(&number, _)| number);
                        let from = (oldest + u64::from(from)).saturating_sub(4);
                        let ended: Vec<u64> =
                            model.range(from..from + u64::from(calls)).map(|(&k, _)| k).collect();
                        let bytes: usize = ended.iter().filter_map(|k| model.remove(k)).sum();
                        let to = from + u64::from(calls) - 1;
                        prop_assert_eq!(sends.end(from as u32, to as u32), bytes);
                    }
                }
                prop_assert_eq!(sends.is_empty(), model.is_empty());
                for count in first..=next {
                    prop_assert_eq!(sends.are_complete(count), model.range(..count).next().is_none());
                }
            }
        }
    }
}
