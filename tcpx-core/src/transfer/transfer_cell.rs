//! State of a transfer that its owner may read at any time, without the engine's lock.
//!
//! A thread that posts counts what it posts, one at a time. All else is written by the thread that
//! holds the engine, or by the state that the parts of an operation share. Both sides count on
//! `left`, whose value shows whether a round ends or begins. After the end of a
//! round only a post writes before the next round has begun.
//!
//! Readers take no lock but that of the error of a round that has one, for as long as a copy of it
//! takes:
//! - Sums only grow. What is done is read before what was posted, so it is never more.
//! - What was counted when a round began is kept for this round and the one before. A reader
//!   reads again if a round has begun meanwhile, which takes longer than a read.
//!
//! The module also holds the listener that is notified of the end of a transfer's rounds at once.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;

use tcpx_protocol::types::Direction;

use super::TransferCounts;
use crate::completions::queue::ReporterKey;
use crate::error::Error;

/// State of a transfer: of its whole life, and of its round.
#[derive(Debug, Default)]
pub(crate) struct TransferCell {
    sums: AtomicCounts,
    /// Operations that have not ended.
    left: AtomicU64,
    /// Lock that a posting thread holds.
    posting: Mutex<()>,
    /// Whether the round has sends.
    has_sends: AtomicBool,
    /// The sums when a round began, by the last bit of the round's number.
    sums_before: [AtomicCounts; 2],
    /// Number of the round. Nothing was posted in round 0.
    round: AtomicU64,
    /// Last round that has an error, if it is not 0.
    failed_round: AtomicU64,
    /// First error of that round.
    error: Mutex<Option<Error>>,
    /// Key under which its rounds are reported, if they are.
    pub(crate) reporter: OnceLock<ReporterKey>,
    /// Listener that is notified of their ends at once, if there is one.
    pub(crate) listener: OnceLock<Arc<dyn RoundListener>>,
}

impl TransferCell {
    /// Returns whether every operation has ended.
    pub(crate) fn is_complete(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    /// Returns its direction in this round; a transfer that does both sends.
    pub(crate) fn direction(&self) -> Direction {
        let sends = self.has_sends.load(Ordering::Relaxed);
        if sends { Direction::Send } else { Direction::Receive }
    }

    /// Returns how the round has ended, once every operation has.
    pub(crate) fn outcome(&self) -> Poll<Result<(), Error>> {
        self.read_consistent(|round| match self.is_complete() {
            true => Poll::Ready(self.error_of(round).map_or(Ok(()), Err)),
            false => Poll::Pending,
        })
    }

    /// Returns the first error of the round so far.
    pub(crate) fn error(&self) -> Option<Error> {
        self.read_consistent(|round| self.error_of(round))
    }

    /// Returns the sums over its whole life.
    pub(crate) fn counts(&self) -> TransferCounts {
        self.sums.read()
    }

    /// Returns the same since the round began.
    pub(crate) fn round_counts(&self) -> TransferCounts {
        self.read_consistent(|round| {
            let before = self.sums_before(round).read();
            self.sums.read().since(&before)
        })
    }

    /// Reads something of a round that is the transfer's round until the read is over.
    fn read_consistent<T>(&self, read: impl Fn(u64) -> T) -> T {
        loop {
            let round = self.round.load(Ordering::Acquire);
            let seen = read(round);
            // A thread that has seen something of a later round sees its number, too.
            fence(Ordering::Acquire);
            if self.round.load(Ordering::Relaxed) == round {
                return seen;
            }
        }
    }

    /// Returns the number of the round. The caller holds the engine, and knows that the round has
    /// not ended.
    pub(crate) fn round(&self) -> u64 {
        self.round.load(Ordering::Acquire)
    }

    fn sums_before(&self, round: u64) -> &AtomicCounts {
        &self.sums_before[(round % 2) as usize]
    }

    fn error_of(&self, round: u64) -> Option<Error> {
        if self.failed_round.load(Ordering::Acquire) != round {
            return None;
        }
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts `operations` operations that are posted. The first ones after the transfer was
    /// complete begin a round. They may end once this has returned, and not before.
    pub(crate) fn posted(&self, direction: Direction, operations: u64) {
        if operations == 0 {
            return;
        }
        let posting = self.posting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.left.fetch_add(operations, Ordering::AcqRel) == 0 {
            self.begin_round();
        }
        if direction == Direction::Send {
            self.has_sends.store(true, Ordering::Relaxed);
        }
        add(&self.sums.operations_posted, operations);
        drop(posting);
    }

    fn begin_round(&self) {
        let round = self.round.load(Ordering::Relaxed) + 1;
        // A reader that sees what is written now also sees that the round before has begun, so it
        // does not take these sums for those of two rounds before.
        fence(Ordering::Release);
        self.sums_before(round).copy(&self.sums);
        self.has_sends.store(false, Ordering::Relaxed);
        self.round.store(round, Ordering::Release);
    }

    /// Counts this many chunks as to be moved.
    pub(super) fn matched(&self, chunks: u64) {
        add(&self.sums.chunks_posted, chunks);
    }

    /// Counts this many chunks as moved.
    pub(super) fn chunks_done(&self, chunks: u64, bytes: u64) {
        add(&self.sums.bytes_done, bytes);
        add(&self.sums.chunks_done, chunks);
    }

    /// Counts an operation that has ended. Its error, and all that it has counted, is known by now.
    /// Returns whether it was the last.
    pub(crate) fn done(&self) -> bool {
        add(&self.sums.operations_done, 1);
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Notes the error of an operation. Only the first error of a round is made.
    pub(crate) fn failed(&self, error: impl FnOnce() -> Error) {
        let round = self.round.load(Ordering::Relaxed);
        if self.failed_round.load(Ordering::Relaxed) == round {
            return;
        }
        let error = Some(error());
        let before = std::mem::replace(
            &mut *self.error.lock().unwrap_or_else(PoisonError::into_inner),
            error,
        );
        self.failed_round.store(round, Ordering::Release);
        drop(before);
    }
}

/// Counts that only grow.
#[derive(Debug, Default)]
struct AtomicCounts {
    operations_posted: AtomicU64,
    operations_done: AtomicU64,
    chunks_posted: AtomicU64,
    chunks_done: AtomicU64,
    bytes_done: AtomicU64,
}

impl AtomicCounts {
    /// Reads the sums. What is done is read first: what follows in the fields of the result was
    /// true later, so it is at least as much as belongs to what was read before it.
    fn read(&self) -> TransferCounts {
        let in_order = [
            &self.operations_done,
            &self.chunks_done,
            &self.bytes_done,
            &self.chunks_posted,
            &self.operations_posted,
        ];
        let [operations_done, chunks_done, bytes_done, chunks_posted, operations_posted] =
            in_order.map(|sum| sum.load(Ordering::Acquire));
        TransferCounts {
            operations_posted,
            operations_done,
            chunks_posted,
            chunks_done,
            bytes_done,
        }
    }

    /// Takes over what was counted elsewhere, and does not change meanwhile.
    fn copy(&self, from: &Self) {
        let sums = [
            (&self.operations_posted, &from.operations_posted),
            (&self.operations_done, &from.operations_done),
            (&self.chunks_posted, &from.chunks_posted),
            (&self.chunks_done, &from.chunks_done),
            (&self.bytes_done, &from.bytes_done),
        ];
        for (to, from) in sums {
            to.store(from.load(Ordering::Relaxed), Ordering::Release);
        }
    }
}

/// Adds to a sum that no other thread adds to, and returns it. A thread that sees the new sum sees
/// all that was written before it.
fn add(sum: &AtomicU64, more: u64) -> u64 {
    let sum_now = sum.load(Ordering::Relaxed) + more;
    sum.store(sum_now, Ordering::Release);
    sum_now
}

/// The thread that holds the engine calls the listener, so the listener does not block and returns
/// soon.
pub(crate) trait RoundListener: Debug + Send + Sync {
    /// Handles the end of a round. The next one may be posted.
    fn round_ended(&self, outcome: Result<(), Error>);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    /// Readers beside a writer that does round after round.
    #[test]
    fn what_is_read_together_was_true_together() {
        const OPERATIONS: u64 = 3;
        const BYTES: u64 = 7;
        let (cell, is_over) = (TransferCell::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let life = cell.counts();
                        let round = cell.round_counts();
                        for counts in [life, round] {
                            assert!(counts.operations_done <= counts.operations_posted);
                            assert!(counts.chunks_done <= counts.chunks_posted);
                            assert!(counts.operations_done <= counts.chunks_done);
                            assert!(counts.chunks_done * BYTES <= counts.bytes_done);
                        }
                        assert!(round.operations_posted <= OPERATIONS);
                        assert!(round.bytes_done <= OPERATIONS * BYTES);
                        if cell.outcome().is_ready() {
                            assert!(cell.counts().operations_done >= life.operations_done);
                        }
                    }
                });
            }
            for round in 1..=20_000 {
                cell.posted(Direction::Send, OPERATIONS);
                for operation in 1..=OPERATIONS {
                    cell.matched(1);
                    cell.chunks_done(1, BYTES);
                    // Every second round fails.
                    if round % 2 == 0 {
                        cell.failed(|| Error::Cancelled);
                    }
                    assert_eq!(cell.done(), operation == OPERATIONS);
                }
                let outcome = cell.outcome();
                assert_eq!(matches!(outcome, Poll::Ready(Ok(()))), round % 2 == 1);
                assert_eq!(matches!(outcome, Poll::Ready(Err(Error::Cancelled))), round % 2 == 0);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(cell.counts().bytes_done, 20_000 * OPERATIONS * BYTES);
    }

    /// Threads that post to one transfer while another ends what they have posted.
    #[test]
    fn rounds_begin_and_end_once_however_many_threads_post() {
        const POSTS: u64 = 20_000;
        let (cell, posted) = (TransferCell::default(), AtomicU64::new(0));
        let mut ended = 0;
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..POSTS {
                        cell.posted(Direction::Receive, 1);
                        posted.fetch_add(1, Ordering::Release);
                    }
                });
            }
            let mut done = 0;
            while done < 2 * POSTS {
                let now = posted.load(Ordering::Acquire);
                ended += (done..now).filter(|_| cell.done()).count() as u64;
                done = now;
                thread::yield_now();
            }
        });
        assert!(cell.is_complete());
        assert_eq!(cell.round.into_inner(), ended, "each round that has begun has ended");
        assert_eq!(cell.sums.read().operations_done, 2 * POSTS);
    }

    #[test]
    fn a_reader_that_meets_the_next_round_reads_again() {
        let cell = TransferCell::default();
        cell.posted(Direction::Send, 1);
        cell.failed(|| Error::Cancelled);
        let looks = AtomicU64::new(0);
        let seen = cell.read_consistent(|round| {
            if looks.fetch_add(1, Ordering::Relaxed) == 0 {
                cell.done();
                cell.posted(Direction::Receive, 1);
            }
            (round, cell.error_of(round).is_some())
        });
        assert_eq!((seen, looks.into_inner()), ((2, false), 2));
    }
}
