//! Transfers: sets of operations that a program waits for together, as numbers. Pure.

use slotmap::SlotMap;

use crate::error::Error;
use crate::types::{Direction, PeerKey, TransferKey};

/// Numbers of a transfer: of its whole life, or of its last round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransferCounts {
    /// Sends and receives that were posted.
    pub operations_posted: u64,
    /// Those that ended, in whatever way.
    pub operations_done: u64,
    /// Chunks of all matched operations. One that several small messages share counts for each of
    /// them.
    pub chunks_posted: u64,
    /// Chunks sent, or received and unpacked.
    pub chunks_done: u64,
    /// Bytes of those chunks.
    pub bytes_done: u64,
}

impl TransferCounts {
    /// What was counted since the counts were `before`.
    fn since(&self, before: &Self) -> Self {
        Self {
            operations_posted: self.operations_posted - before.operations_posted,
            operations_done: self.operations_done - before.operations_done,
            chunks_posted: self.chunks_posted - before.chunks_posted,
            chunks_done: self.chunks_done - before.chunks_done,
            bytes_done: self.bytes_done - before.bytes_done,
        }
    }
}

/// A transfer. What is posted to it while it is complete begins a round; what is posted before its
/// end belongs to the same round.
#[derive(Debug)]
pub(crate) struct TransferState {
    pub(crate) peer: PeerKey,
    /// Of its whole life.
    pub(crate) counts: TransferCounts,
    /// The same when the round began.
    counts_before: TransferCounts,
    /// The round has sends.
    has_sends: bool,
    /// The first error of the round.
    pub(crate) error: Option<Error>,
    /// Nobody holds it any more: it goes with its last operation.
    is_detached: bool,
}

impl TransferState {
    pub(crate) fn is_complete(&self) -> bool {
        self.counts.operations_done == self.counts.operations_posted
    }

    /// What it does in this round; one that does both sends.
    pub(crate) fn direction(&self) -> Direction {
        if self.has_sends { Direction::Send } else { Direction::Receive }
    }

    /// The numbers of the round.
    pub(crate) fn round_counts(&self) -> TransferCounts {
        self.counts.since(&self.counts_before)
    }
}

/// All transfers of a session.
#[derive(Debug, Default)]
pub(crate) struct Transfers(SlotMap<TransferKey, TransferState>);

impl Transfers {
    pub(crate) fn add(&mut self, peer: PeerKey) -> TransferKey {
        let counts = TransferCounts::default();
        self.0.insert(TransferState {
            peer,
            counts,
            counts_before: counts,
            has_sends: false,
            error: None,
            is_detached: false,
        })
    }

    /// # Errors
    /// [`Error::Closed`] when it is gone with its session.
    pub(crate) fn get(&self, key: TransferKey) -> Result<&TransferState, Error> {
        self.0.get(key).ok_or(Error::Closed)
    }

    /// So many operations were posted. The first ones after the transfer was complete begin a
    /// round.
    pub(crate) fn posted(&mut self, key: TransferKey, direction: Direction, operations: usize) {
        if let Some(transfer) = self.0.get_mut(key) {
            if operations > 0 && transfer.is_complete() {
                transfer.counts_before = transfer.counts;
                transfer.has_sends = false;
                transfer.error = None;
            }
            transfer.has_sends |= operations > 0 && direction == Direction::Send;
            transfer.counts.operations_posted += operations as u64;
        }
    }

    /// An operation's counterpart was found: its bytes travel in this many chunks.
    pub(crate) fn matched(&mut self, key: TransferKey, chunks: u64) {
        if let Some(transfer) = self.0.get_mut(key) {
            transfer.counts.chunks_posted += chunks;
        }
    }

    /// Chunks were sent, or received and unpacked: `bytes` of them are this transfer's.
    pub(crate) fn chunks_done(&mut self, key: TransferKey, chunks: u64, bytes: u64) {
        if let Some(transfer) = self.0.get_mut(key) {
            transfer.counts.chunks_done += chunks;
            transfer.counts.bytes_done += bytes;
        }
    }

    /// An operation has ended well.
    pub(crate) fn done(&mut self, key: TransferKey) {
        let Some(transfer) = self.0.get_mut(key) else { return };
        transfer.counts.operations_done += 1;
        if transfer.is_detached && transfer.is_complete() {
            self.0.remove(key);
        }
    }

    /// An operation has ended with an error. The first error of a round is the one that stays, and
    /// the only one that is made.
    pub(crate) fn failed(&mut self, key: TransferKey, error: impl FnOnce() -> Error) {
        if let Some(transfer) = self.0.get_mut(key) {
            transfer.error.get_or_insert_with(error);
        }
        self.done(key);
    }

    /// Lets go of a transfer: it vanishes now or with its last operation.
    pub(crate) fn detach(&mut self, key: TransferKey) {
        let Some(transfer) = self.0.get_mut(key) else { return };
        transfer.is_detached = true;
        if transfer.is_complete() {
            self.0.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_is_complete_when_its_last_operation_is() {
        let mut transfers = Transfers::default();
        let key = transfers.add(PeerKey::default());
        assert!(transfers.get(key).unwrap().is_complete(), "nothing was posted");
        transfers.posted(key, Direction::Send, 2);
        transfers.done(key);
        assert!(!transfers.get(key).unwrap().is_complete());
        transfers.done(key);
        assert!(transfers.get(key).unwrap().is_complete());
    }

    #[test]
    fn the_first_error_stays_and_other_operations_go_on() {
        let mut transfers = Transfers::default();
        let key = transfers.add(PeerKey::default());
        transfers.posted(key, Direction::Send, 3);
        transfers.failed(key, || Error::Cancelled);
        transfers.failed(key, || panic!("one error is enough"));
        let transfer = transfers.get(key).unwrap();
        assert!(matches!(transfer.error, Some(Error::Cancelled)));
        assert_eq!((transfer.counts.operations_done, transfer.is_complete()), (2, false));
    }

    #[test]
    fn a_post_after_the_end_begins_a_round_without_the_error_of_the_last() {
        let mut transfers = Transfers::default();
        let key = transfers.add(PeerKey::default());
        transfers.posted(key, Direction::Send, 2);
        transfers.failed(key, || Error::Cancelled);
        transfers.posted(key, Direction::Send, 1);
        transfers.matched(key, 3);
        transfers.chunks_done(key, 3, 300);
        transfers.done(key);
        transfers.done(key);
        let transfer = transfers.get(key).unwrap();
        let sums = transfer.counts;
        assert_eq!(transfer.direction(), Direction::Send);
        assert!(transfer.is_complete() && matches!(transfer.error, Some(Error::Cancelled)));
        assert_eq!(transfer.round_counts(), sums, "one round, however often was posted");

        transfers.posted(key, Direction::Send, 0);
        let transfer = transfers.get(key).unwrap();
        assert!(transfer.error.is_some(), "nothing was posted, so nothing begins");
        assert_eq!(transfer.round_counts(), sums);

        transfers.posted(key, Direction::Receive, 1);
        let transfer = transfers.get(key).unwrap();
        assert_eq!(transfer.direction(), Direction::Receive);
        assert!(transfer.error.is_none() && !transfer.is_complete());
        let begun = TransferCounts { operations_posted: 1, ..TransferCounts::default() };
        assert_eq!(transfer.round_counts(), begun);
        assert_eq!((transfer.counts.operations_posted, transfer.counts.bytes_done), (4, 300));
        transfers.failed(key, || Error::Closed);
        assert!(matches!(transfers.get(key).unwrap().error, Some(Error::Closed)));
    }

    #[test]
    fn a_detached_transfer_goes_with_its_last_operation() {
        let mut transfers = Transfers::default();
        let key = transfers.add(PeerKey::default());
        transfers.posted(key, Direction::Send, 1);
        transfers.detach(key);
        assert!(transfers.get(key).is_ok());
        transfers.done(key);
        assert!(matches!(transfers.get(key), Err(Error::Closed)));
    }
}
