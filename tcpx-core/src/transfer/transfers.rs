//! Transfers: sets of operations that a program waits for together, as numbers. Pure.

use std::sync::Arc;

use slotmap::SlotMap;
use tcpx_protocol::types::{Direction, TransferKey};

use super::TransferCounts;
use super::transfer_cell::TransferCell;
use crate::completions::queue::CompletionQueue;
use crate::error::Error;
use crate::types::PeerKey;

/// A transfer. What is posted to it while it is complete begins a round; what is posted before its
/// end belongs to the same round.
#[derive(Debug)]
pub(crate) struct TransferState {
    pub(crate) peer: PeerKey,
    /// Cell that its owner sees.
    pub(crate) cell: Arc<TransferCell>,
    /// Whether its owner has let go of it: it goes with its last operation.
    is_detached: bool,
}

impl TransferState {
    pub(crate) fn is_complete(&self) -> bool {
        self.cell.is_complete()
    }

    /// Returns its direction in this round; a transfer that does both sends.
    pub(crate) fn direction(&self) -> Direction {
        self.cell.direction()
    }

    /// Ends its round of this number with this error, because it is overdue, unless the round has
    /// an error already. Returns whether the round had not ended before.
    pub(crate) fn overdue(&self, round: u64, error: impl FnOnce() -> Error) -> bool {
        let is_under_way = !self.is_complete() && self.cell.round() == round;
        if is_under_way {
            self.cell.failed(error);
        }
        is_under_way
    }

    /// Returns the numbers of the round.
    pub(crate) fn round_counts(&self) -> TransferCounts {
        self.cell.round_counts()
    }
}

/// All transfers of a session.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    all: SlotMap<TransferKey, TransferState>,
    /// Whether one has become complete since the last question.
    completed: bool,
    /// Queue to which the end of a round is reported.
    completions: Arc<CompletionQueue>,
}

impl Transfers {
    /// Makes an empty table. The ends of rounds are reported to `completions`.
    pub(crate) fn new(completions: Arc<CompletionQueue>) -> Self {
        Self { completions, ..Self::default() }
    }

    /// Returns a new transfer: its key, and what its owner sees of it.
    pub(crate) fn add(&mut self, peer: PeerKey) -> (TransferKey, Arc<TransferCell>) {
        let cell = Arc::<TransferCell>::default();
        let key =
            self.all.insert(TransferState { peer, cell: Arc::clone(&cell), is_detached: false });
        (key, cell)
    }

    /// Moves a transfer to this peer: what is posted to it from now on goes there.
    pub(crate) fn move_to(&mut self, key: TransferKey, peer: PeerKey) {
        if let Some(transfer) = self.all.get_mut(key) {
            transfer.peer = peer;
        }
    }

    /// Returns the queue in which the ends of rounds wait for the program.
    pub(crate) fn completions(&self) -> &Arc<CompletionQueue> {
        &self.completions
    }

    /// # Errors
    /// [`Error::Closed`] when it is gone with its session.
    pub(crate) fn get(&self, key: TransferKey) -> Result<&TransferState, Error> {
        self.all.get(key).ok_or(Error::Closed)
    }

    /// Returns whether a transfer has become complete since the last question: a thread may wait
    /// for it.
    pub(crate) fn take_completed(&mut self) -> bool {
        std::mem::take(&mut self.completed)
    }

    /// Notes that an operation's counterpart was found: its bytes travel in this many chunks.
    pub(crate) fn matched(&mut self, key: TransferKey, chunks: u64) {
        if let Some(transfer) = self.all.get(key) {
            transfer.cell.matched(chunks);
        }
    }

    /// Counts chunks that were sent, or received and unpacked: `bytes` of them are this transfer's.
    pub(crate) fn chunks_done(&mut self, key: TransferKey, chunks: u64, bytes: u64) {
        if let Some(transfer) = self.all.get(key) {
            transfer.cell.chunks_done(chunks, bytes);
        }
    }

    /// Counts an operation that has ended well.
    pub(crate) fn done(&mut self, key: TransferKey) {
        let Some(transfer) = self.all.get(key) else { return };
        // After the end of a round a post may begin the next one at any time.
        let TransferCell { reporter, listener, .. } = &*transfer.cell;
        let (reporter, listener) = (reporter.get(), listener.get());
        let is_reported = reporter.is_some() || listener.is_some();
        let error = if is_reported { transfer.cell.error() } else { None };
        if !transfer.cell.done() {
            return;
        }
        self.completed = true;
        let outcome = error.map_or(Ok(()), Err);
        match (listener, reporter) {
            (Some(listener), _) => listener.round_ended(outcome),
            (None, Some(reporter)) => self.completions.ended(*reporter, outcome),
            (None, None) => self.completions.event().signal(),
        }
        if transfer.is_detached {
            self.all.remove(key);
        }
    }

    /// Ends an operation with an error. The first error of a round is the one that stays, and the
    /// only one that is made.
    pub(crate) fn failed(&mut self, key: TransferKey, error: impl FnOnce() -> Error) {
        if let Some(transfer) = self.all.get(key) {
            transfer.cell.failed(error);
        }
        self.done(key);
    }

    /// Lets go of a transfer: it vanishes now or with its last operation.
    pub(crate) fn detach(&mut self, key: TransferKey) {
        let Some(transfer) = self.all.get_mut(key) else { return };
        transfer.is_detached = true;
        if transfer.is_complete() {
            self.all.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::task::Poll;

    use super::*;
    use crate::transfer::transfer_cell::RoundListener;

    #[test]
    fn a_transfer_is_complete_when_its_last_operation_is() {
        let mut transfers = Transfers::default();
        let (key, cell) = transfers.add(PeerKey::default());
        assert!(transfers.get(key).unwrap().is_complete(), "nothing was posted");
        cell.posted(Direction::Send, 2);
        transfers.done(key);
        assert!(!transfers.take_completed() && cell.outcome().is_pending());
        transfers.done(key);
        assert!(transfers.get(key).unwrap().is_complete());
        assert!(matches!(cell.outcome(), Poll::Ready(Ok(()))));
        assert!(transfers.take_completed() && !transfers.take_completed(), "reported once");
    }

    #[test]
    fn the_first_error_stays_and_other_operations_go_on() {
        let mut transfers = Transfers::default();
        let (key, cell) = transfers.add(PeerKey::default());
        cell.posted(Direction::Send, 3);
        transfers.failed(key, || Error::Cancelled);
        transfers.failed(key, || panic!("one error is enough"));
        assert!(matches!(cell.error(), Some(Error::Cancelled)));
        assert_eq!(cell.counts().operations_done, 2);
        assert!(cell.outcome().is_pending());
        transfers.done(key);
        assert!(matches!(cell.outcome(), Poll::Ready(Err(Error::Cancelled))));
    }

    #[test]
    fn a_post_after_the_end_begins_a_round_without_the_error_of_the_last() {
        let mut transfers = Transfers::default();
        let (key, cell) = transfers.add(PeerKey::default());
        cell.posted(Direction::Send, 2);
        transfers.failed(key, || Error::Cancelled);
        cell.posted(Direction::Send, 1);
        transfers.matched(key, 3);
        transfers.chunks_done(key, 3, 300);
        transfers.done(key);
        transfers.done(key);
        let sums = cell.counts();
        assert_eq!(transfers.get(key).unwrap().direction(), Direction::Send);
        assert!(matches!(cell.outcome(), Poll::Ready(Err(Error::Cancelled))));
        assert_eq!(cell.round_counts(), sums, "one round, however often was posted");

        cell.posted(Direction::Send, 0);
        assert!(cell.error().is_some(), "nothing was posted, so nothing begins");
        assert_eq!(cell.round_counts(), sums);

        cell.posted(Direction::Receive, 1);
        assert_eq!(transfers.get(key).unwrap().direction(), Direction::Receive);
        assert!(cell.error().is_none() && cell.outcome().is_pending());
        let begun = TransferCounts { operations_posted: 1, ..TransferCounts::default() };
        assert_eq!(cell.round_counts(), begun);
        assert_eq!((cell.counts().operations_posted, cell.counts().bytes_done), (4, 300));
        transfers.failed(key, || Error::Closed);
        assert!(matches!(cell.error(), Some(Error::Closed)));
    }

    #[test]
    fn a_round_that_is_overdue_ends_with_its_last_operation() {
        let mut transfers = Transfers::default();
        let (key, cell) = transfers.add(PeerKey::default());
        let expired = || Error::Expired { peer: None, after: std::time::Duration::ZERO };
        let is_expired = || matches!(cell.outcome(), Poll::Ready(Err(Error::Expired { .. })));
        assert!(!transfers.get(key).unwrap().overdue(cell.round(), expired), "nothing was posted");
        cell.posted(Direction::Send, 2);
        let round = cell.round();
        assert!(transfers.get(key).unwrap().overdue(round, expired));
        transfers.failed(key, || panic!("there is an error"));
        assert!(cell.outcome().is_pending());
        transfers.done(key);
        assert!(is_expired());
        cell.posted(Direction::Send, 1);
        assert!(!transfers.get(key).unwrap().overdue(round, expired), "that one has ended");
        transfers.done(key);
        assert!(matches!(cell.outcome(), Poll::Ready(Ok(()))));
    }

    /// Listener that records whether each round ended well.
    #[derive(Debug, Default)]
    struct RecordingListener(Mutex<Vec<bool>>);

    impl RoundListener for RecordingListener {
        fn round_ended(&self, outcome: Result<(), Error>) {
            self.0.lock().unwrap().push(outcome.is_ok());
        }
    }

    #[test]
    fn a_listener_is_called_once_per_round_also_when_the_transfer_is_detached() {
        let (mut transfers, heard) = (Transfers::default(), Arc::new(RecordingListener::default()));
        let (key, cell) = transfers.add(PeerKey::default());
        cell.listener.set(Arc::<RecordingListener>::clone(&heard)).unwrap();
        cell.posted(Direction::Send, 2);
        transfers.done(key);
        assert!(heard.0.lock().unwrap().is_empty(), "one operation is left");
        transfers.done(key);
        cell.posted(Direction::Send, 1);
        transfers.failed(key, || Error::Cancelled);
        cell.posted(Direction::Send, 1);
        transfers.detach(key);
        transfers.done(key);
        assert_eq!(*heard.0.lock().unwrap(), [true, false, true]);
    }

    #[test]
    fn a_detached_transfer_goes_with_its_last_operation() {
        let mut transfers = Transfers::default();
        let (key, cell) = transfers.add(PeerKey::default());
        cell.posted(Direction::Send, 1);
        transfers.detach(key);
        assert!(transfers.get(key).is_ok());
        transfers.done(key);
        assert!(matches!(transfers.get(key), Err(Error::Closed)));
    }
}
