//! Transfers: sets of operations that a program waits for together, as numbers. Pure.

use slotmap::SlotMap;

use crate::error::Error;
use crate::types::{PeerKey, TransferKey};

/// Numbers of a transfer.
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

#[derive(Debug)]
pub(crate) struct TransferState {
    pub(crate) peer: PeerKey,
    pub(crate) counts: TransferCounts,
    pub(crate) error: Option<Error>,
    /// Nobody holds it any more: it goes with its last operation.
    is_detached: bool,
}

impl TransferState {
    pub(crate) fn is_complete(&self) -> bool {
        self.counts.operations_done == self.counts.operations_posted
    }
}

/// All transfers of a session.
#[derive(Debug, Default)]
pub(crate) struct Transfers(SlotMap<TransferKey, TransferState>);

impl Transfers {
    pub(crate) fn add(&mut self, peer: PeerKey) -> TransferKey {
        let counts = TransferCounts::default();
        self.0.insert(TransferState { peer, counts, error: None, is_detached: false })
    }

    /// # Errors
    /// [`Error::Closed`] when it is gone with its session.
    pub(crate) fn get(&self, key: TransferKey) -> Result<&TransferState, Error> {
        self.0.get(key).ok_or(Error::Closed)
    }

    /// So many operations were posted.
    pub(crate) fn posted(&mut self, key: TransferKey, operations: usize) {
        if let Some(transfer) = self.0.get_mut(key) {
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

    /// An operation has ended with an error. The first error of a transfer is the one that stays.
    pub(crate) fn failed(&mut self, key: TransferKey, error: Error) {
        if let Some(transfer) = self.0.get_mut(key) {
            transfer.error.get_or_insert(error);
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
        transfers.posted(key, 2);
        transfers.done(key);
        assert!(!transfers.get(key).unwrap().is_complete());
        transfers.done(key);
        assert!(transfers.get(key).unwrap().is_complete());
    }

    #[test]
    fn the_first_error_stays_and_other_operations_go_on() {
        let mut transfers = Transfers::default();
        let key = transfers.add(PeerKey::default());
        transfers.posted(key, 3);
        transfers.failed(key, Error::Cancelled);
        transfers.failed(key, Error::Closed);
        let transfer = transfers.get(key).unwrap();
        assert!(matches!(transfer.error, Some(Error::Cancelled)));
        assert_eq!((transfer.counts.operations_done, transfer.is_complete()), (2, false));
    }

    #[test]
    fn a_detached_transfer_goes_with_its_last_operation() {
        let mut transfers = Transfers::default();
        let key = transfers.add(PeerKey::default());
        transfers.posted(key, 1);
        transfers.detach(key);
        assert!(transfers.get(key).is_ok());
        transfers.done(key);
        assert!(matches!(transfers.get(key), Err(Error::Closed)));
    }
}
