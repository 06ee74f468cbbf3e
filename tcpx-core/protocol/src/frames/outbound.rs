//! Bytes that wait for the kernel to take them. Pure.

use std::collections::TryReserveError;

/// Room that is kept for later bytes once all have been sent.
const KEPT_BYTES: usize = 256 << 10;

/// A queue of bytes in one piece, as a socket takes them.
///
/// Bytes that were sent go when they are as many as those behind them, which then move to the
/// front. So each byte that is sent pays for moving one, and the queue takes no more than a few
/// times what was ever unsent at once.
#[derive(Debug, Default)]
pub struct Outbound {
    bytes: Vec<u8>,
    sent: usize,
    /// Bytes that the kernel has taken since the link began.
    taken: u64,
    /// Bytes that were moved to the front so far.
    #[cfg(test)]
    moved: u64,
}

impl Outbound {
    /// Lets `append` put bytes behind the others. It may only append, and finish what it has put
    /// there since bytes were last [taken](Self::take).
    pub fn append<T>(&mut self, append: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        append(&mut self.bytes)
    }

    /// Makes room for `bytes` more bytes, which are appended without an allocation then.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), TryReserveError> {
        self.bytes.try_reserve(bytes)
    }

    /// Returns the number of bytes that the queue has room for, used or not.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the bytes that wait, oldest first.
    pub fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Returns the number of bytes that the kernel has taken so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Takes out this many of the oldest bytes: the kernel has taken them.
    pub fn take(&mut self, bytes: usize) {
        self.taken += bytes as u64;
        self.sent = (self.sent + bytes).min(self.bytes.len());
        let unsent = self.bytes.len() - self.sent;
        if self.sent < unsent {
            return;
        }
        self.bytes.copy_within(self.sent.., 0);
        self.bytes.truncate(unsent);
        self.sent = 0;
        #[cfg(test)]
        {
            self.moved += unsent as u64;
        }
        self.give_room_back();
    }

    /// Lets go of room that is far more than what waits.
    pub fn give_room_back(&mut self) {
        let wanted = 2 * self.bytes.len().max(KEPT_BYTES / 2);
        if self.bytes.capacity() > 2 * wanted {
            self.bytes.shrink_to(wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against the plainest model there is.
        #[test]
        fn bytes_leave_in_their_order(
            steps in proptest::collection::vec((0usize..400, 0usize..400), 0..200),
        ) {
            let (mut outbound, mut model) = (Outbound::default(), VecDeque::new());
            let mut next = 0u8;
            for (appended, taken) in steps {
                for _ in 0..appended {
                    outbound.append(|bytes| bytes.push(next));
                    model.push_back(next);
                    next = next.wrapping_add(1);
                }
                let taken = taken.min(model.len());
                outbound.take(taken);
                model.drain(..taken);
                prop_assert!(outbound.unsent().iter().eq(&model));
            }
        }
    }

    /// A busy link: the kernel takes what it can, and there is always more.
    #[test]
    fn a_queue_that_is_never_empty_takes_no_more_than_what_waits() {
        const MOST: usize = 1 << 20;
        let mut outbound = Outbound::default();
        let (mut queued, mut peak) = (0u64, 0);
        while queued < 200 << 20 {
            while outbound.unsent().len() < MOST {
                outbound.append(|bytes| bytes.extend_from_slice(&[7; 64]));
                queued += 64;
            }
            outbound.take(MOST / 3);
            peak = peak.max(outbound.bytes.capacity());
        }
        assert!(peak <= 6 * MOST, "{peak} bytes for {MOST}");
        assert!(outbound.moved <= queued, "{} bytes moved for {queued}", outbound.moved);
    }

    #[test]
    fn room_is_given_back_when_it_is_not_needed_any_more() {
        let mut outbound = Outbound::default();
        outbound.append(|bytes| bytes.resize(64 << 20, 7));
        // A little stays unsent for as long as the link lives.
        outbound.take((64 << 20) - 5);
        assert_eq!(outbound.unsent(), [7; 5]);
        assert!(outbound.bytes.capacity() <= 2 * KEPT_BYTES, "{}", outbound.bytes.capacity());
        outbound.reserve(64 << 20).expect("there is room");
        assert!(outbound.bytes.capacity() >= 64 << 20);
        outbound.give_room_back();
        assert!(outbound.bytes.capacity() <= 2 * KEPT_BYTES, "{}", outbound.bytes.capacity());
        assert_eq!(outbound.unsent(), [7; 5]);
    }

    #[test]
    fn room_that_there_cannot_be_is_refused() {
        let mut outbound = Outbound::default();
        outbound.append(|bytes| bytes.push(1));
        assert!(outbound.reserve(usize::MAX / 2).is_err());
        assert_eq!(outbound.unsent(), [1]);
    }
}
