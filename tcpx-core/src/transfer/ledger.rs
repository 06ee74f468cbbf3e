//! Posted work: transfers and their operations. Pure book-keeping; who moves the bytes is elsewhere.

use slotmap::{SecondaryMap, SlotMap};

use crate::error::Error;
use crate::plugin::registrations::Registrations;
use crate::types::{Direction, OpKey, PeerKey, RegistrationKey, Span, TransferKey};

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpState {
    /// Waits for its counterpart.
    Unmatched,
    /// Withdrawal was asked of the peer; a match may still win.
    Cancelling,
    /// Its chunks are dealt to channels.
    Matched,
}

/// One posted send or receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) transfer: TransferKey,
    pub(crate) peer: PeerKey,
    pub(crate) direction: Direction,
    pub(crate) tag: i32,
    pub(crate) span: Span,
    pub(crate) bytes: u64,
    pub(crate) state: OpState,
    /// Chunks that have not finished.
    pub(crate) chunks_left: u64,
    /// The message behind this one in a chunk that several share.
    pub(crate) next: Option<OpKey>,
}

/// Numbers of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferCounts {
    /// Sends and receives that were posted.
    pub operations_posted: u64,
    /// Those that ended, in whatever way.
    pub operations_done: u64,
    /// Chunks of all matched operations. One that several small messages share counts for each of them.
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
    pub(crate) is_detached: bool,
}

impl TransferState {
    pub(crate) fn is_complete(&self) -> bool {
        self.counts.operations_done == self.counts.operations_posted
    }
}

/// Operations, transfers and the registrations they use.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) ops: SlotMap<OpKey, Op>,
    pub(crate) transfers: SlotMap<TransferKey, TransferState>,
    pub(crate) registrations: Registrations,
    /// Operations that ended with an error, by peer.
    errors: SecondaryMap<PeerKey, u64>,
}

impl Ledger {
    pub(crate) fn add_transfer(&mut self, peer: PeerKey) -> TransferKey {
        let counts = TransferCounts::default();
        self.transfers.insert(TransferState { peer, counts, error: None, is_detached: false })
    }

    pub(crate) fn post(&mut self, op: Op) -> OpKey {
        self.registrations.begin(op.span.registration);
        if let Some(transfer) = self.transfers.get_mut(op.transfer) {
            transfer.counts.operations_posted += 1;
        }
        self.ops.insert(op)
    }

    /// The operation's counterpart was found: it has this many chunks. With none it is finished.
    pub(crate) fn matched(&mut self, key: OpKey, chunks: u64) {
        let Some(op) = self.ops.get_mut(key) else { return };
        op.state = OpState::Matched;
        op.chunks_left = chunks;
        if let Some(transfer) = self.transfers.get_mut(op.transfer) {
            transfer.counts.chunks_posted += chunks;
        }
        if chunks == 0 {
            self.end(key, None);
        }
    }

    /// The operation's counterpart was found, and their bytes travel behind those of `before`, in one chunk.
    pub(crate) fn matched_behind(&mut self, before: OpKey, key: OpKey) {
        self.matched(key, 1);
        if let Some(op) = self.ops.get_mut(before) {
            op.next = Some(key);
        }
    }

    /// A chunk ends with the message of `key`: what was put behind it travels in another.
    pub(crate) fn ends_chunk(&mut self, key: OpKey) {
        if let Some(op) = self.ops.get_mut(key) {
            op.next = None;
        }
    }

    /// The messages of a chunk that begins with `first`: where their bytes belong, and how many.
    pub(crate) fn messages(&self, first: OpKey) -> impl Iterator<Item = (OpKey, Span, u64)> {
        std::iter::successors(Some(first), |key| self.ops.get(*key)?.next)
            .map_while(|key| self.ops.get(key).map(|op| (key, op.span, op.bytes)))
    }

    /// One chunk of `bytes` was sent, or received and unpacked.
    pub(crate) fn chunk_done(&mut self, key: OpKey, bytes: u32) {
        let Some(first) = self.ops.get(key) else { return };
        let mut next = first.next;
        // A message that shares its chunk has no other.
        let own_bytes = if next.is_some() { first.bytes } else { u64::from(bytes) };
        self.part_done(key, own_bytes);
        while let Some(key) = next {
            let Some(op) = self.ops.get(key) else { return };
            next = op.next;
            let bytes = op.bytes;
            self.part_done(key, bytes);
        }
    }

    fn part_done(&mut self, key: OpKey, bytes: u64) {
        let Some(op) = self.ops.get_mut(key) else { return };
        op.chunks_left = op.chunks_left.saturating_sub(1);
        let is_last = op.chunks_left == 0;
        if let Some(transfer) = self.transfers.get_mut(op.transfer) {
            transfer.counts.chunks_done += 1;
            transfer.counts.bytes_done += bytes;
        }
        if is_last {
            self.end(key, None);
        }
    }

    /// An operation ends, with an error or well. The first error of a transfer is the one that stays.
    pub(crate) fn end(&mut self, key: OpKey, error: Option<Error>) {
        let Some(op) = self.ops.remove(key) else { return };
        self.registrations.end(op.span.registration);
        if error.is_some() {
            let errors = self.errors.get(op.peer).copied().unwrap_or(0);
            self.errors.insert(op.peer, errors + 1);
        }
        let Some(transfer) = self.transfers.get_mut(op.transfer) else { return };
        transfer.counts.operations_done += 1;
        if transfer.error.is_none() {
            transfer.error = error;
        }
        if transfer.is_detached && transfer.is_complete() {
            self.transfers.remove(op.transfer);
        }
    }

    /// Keeps the registrations of `peer`'s operations in use beyond the operations' end, until they are given to
    /// [`Registrations::end`].
    pub(crate) fn hold_memory(&mut self, peer: PeerKey) -> Vec<RegistrationKey> {
        let spans = self.ops.values().filter(|op| op.peer == peer);
        let held: Vec<RegistrationKey> = spans.map(|op| op.span.registration).collect();
        held.iter().for_each(|key| self.registrations.begin(*key));
        held
    }

    /// Ends every operation with `peer` that `is_hit`.
    pub(crate) fn end_of_peer(
        &mut self,
        peer: PeerKey,
        error: &Error,
        is_hit: impl Fn(&Op) -> bool,
    ) {
        for key in self.select(|op| op.peer == peer && is_hit(op)) {
            let Some(direction) = self.ops.get(key).map(|op| op.direction) else { continue };
            self.end(key, Some(error.seen_by(direction)));
        }
    }

    /// Keys of the operations that `is_hit`, in the order of their numbers.
    pub(crate) fn select(&self, is_hit: impl Fn(&Op) -> bool) -> Vec<OpKey> {
        self.ops.iter().filter(|(_, op)| is_hit(op)).map(|(key, _)| key).collect()
    }

    /// Operations with a peer that ended with an error.
    pub(crate) fn errors_of(&self, peer: PeerKey) -> u64 {
        self.errors.get(peer).copied().unwrap_or(0)
    }

    /// Lets go of a transfer: it vanishes now or with its last operation.
    pub(crate) fn detach(&mut self, key: TransferKey) {
        let Some(transfer) = self.transfers.get_mut(key) else { return };
        transfer.is_detached = true;
        if transfer.is_complete() {
            self.transfers.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::MemoryType;

    fn ledger() -> (Ledger, TransferKey) {
        let mut ledger = Ledger::default();
        ledger.registrations.add(4096, 100, MemoryType::Host, true, None).unwrap();
        let transfer = ledger.add_transfer(PeerKey::default());
        (ledger, transfer)
    }

    fn post(ledger: &mut Ledger, transfer: TransferKey, bytes: u64) -> OpKey {
        let span = ledger.registrations.span(1, 0, bytes, true).unwrap();
        ledger.post(Op {
            transfer,
            peer: PeerKey::default(),
            direction: Direction::Receive,
            tag: 1,
            span,
            bytes,
            state: OpState::Unmatched,
            chunks_left: 0,
            next: None,
        })
    }

    #[test]
    fn a_transfer_is_complete_when_its_last_chunk_is() {
        let (mut ledger, transfer) = ledger();
        assert!(ledger.transfers[transfer].is_complete(), "nothing was posted");
        let op = post(&mut ledger, transfer, 100);
        ledger.matched(op, 2);
        ledger.chunk_done(op, 60);
        assert!(!ledger.transfers[transfer].is_complete());
        assert_eq!(ledger.registrations.operations(1), 1);
        ledger.chunk_done(op, 40);
        assert!(ledger.transfers[transfer].is_complete());
        assert_eq!(ledger.registrations.operations(1), 0);
        let counts = ledger.transfers[transfer].counts;
        assert_eq!((counts.chunks_posted, counts.chunks_done, counts.bytes_done), (2, 2, 100));
    }

    #[test]
    fn messages_of_one_chunk_are_done_together_and_each_counts() {
        let (mut ledger, transfer) = ledger();
        let other = ledger.add_transfer(PeerKey::default());
        let first = post(&mut ledger, transfer, 10);
        let (second, third) = (post(&mut ledger, other, 20), post(&mut ledger, transfer, 30));
        ledger.matched(first, 1);
        ledger.matched_behind(first, second);
        ledger.matched_behind(second, third);
        assert_eq!(
            ledger.messages(first).map(|(_, _, bytes)| bytes).collect::<Vec<_>>(),
            [10, 20, 30]
        );
        ledger.chunk_done(first, 60);
        assert!(ledger.ops.is_empty());
        assert_eq!(ledger.registrations.operations(1), 0);
        let counts = [transfer, other].map(|key| ledger.transfers[key].counts);
        assert_eq!(counts.map(|counts| counts.bytes_done), [40, 20]);
        assert_eq!(
            counts.map(|counts| (counts.chunks_posted, counts.chunks_done)),
            [(2, 2), (1, 1)]
        );
    }

    #[test]
    fn empty_operations_end_with_their_match() {
        let (mut ledger, transfer) = ledger();
        let op = post(&mut ledger, transfer, 0);
        ledger.matched(op, 0);
        assert!(ledger.transfers[transfer].is_complete() && ledger.ops.is_empty());
    }

    #[test]
    fn first_error_stays_and_other_operations_go_on() {
        let (mut ledger, transfer) = ledger();
        let (first, second) = (post(&mut ledger, transfer, 1), post(&mut ledger, transfer, 1));
        ledger.end(first, Some(Error::Cancelled));
        ledger.end(second, Some(Error::Closed));
        ledger.end(second, Some(Error::Closed));
        assert!(matches!(ledger.transfers[transfer].error, Some(Error::Cancelled)));
        assert_eq!(ledger.transfers[transfer].counts.operations_done, 2);
    }

    #[test]
    fn detached_transfers_go_with_their_last_operation() {
        let (mut ledger, transfer) = ledger();
        let op = post(&mut ledger, transfer, 1);
        ledger.detach(transfer);
        assert_eq!(ledger.transfers.len(), 1);
        ledger.end(op, None);
        assert!(ledger.transfers.is_empty());
    }

    #[test]
    fn foreign_numbers_from_the_wire_find_nothing() {
        let (mut ledger, transfer) = ledger();
        let op = post(&mut ledger, transfer, 1);
        assert_eq!(OpKey::from_wire(op.to_wire()), op);
        for number in [0, 1, u64::MAX, op.to_wire() ^ (1 << 33), op.to_wire() + 1] {
            assert!(!ledger.ops.contains_key(OpKey::from_wire(number)), "{number:#x}");
        }
    }
}
