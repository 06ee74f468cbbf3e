//! Pieces that a ring has brought for one data socket, until its lane takes them.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use tcpx_devmem::ReceiveEnd;
use tcpx_sys::UNPACK_PAGE_BYTES;

use crate::bell::Bell;
use crate::sync::{Mutex, MutexGuard};

/// Piece of the stream in the area of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingPiece {
    pub(super) offset: u64,
    pub(super) bytes: u32,
}

impl RingPiece {
    /// Returns the page that the piece lies in, which goes back once for each piece.
    pub(super) fn page(self) -> u32 {
        // Areas reach 4 GiB.
        (self.offset / UNPACK_PAGE_BYTES as u64) as u32
    }
}

#[derive(Debug, Default)]
struct InboxState {
    pieces: VecDeque<RingPiece>,
    /// Whether bytes were asked for, and their end was not reported.
    is_requested: bool,
    end: Option<ReceiveEnd>,
}

/// What a lane finds in an inbox.
#[derive(Debug)]
pub(super) enum TakeResult {
    /// Pieces were taken.
    Pieces,
    /// No pieces are there, and the ring must be asked. It counts as asked from now on.
    Ask,
    /// No pieces are there yet.
    Wait,
    /// No more comes.
    End(ReceiveEnd),
}

/// Inbox of one data socket: the ring's thread puts pieces here, and the socket's lane takes them.
#[derive(Debug)]
pub(super) struct Inbox {
    state: Mutex<InboxState>,
    bell: Arc<Bell>,
}

impl Inbox {
    /// Creates an inbox; `bell` is rung for every event.
    pub(super) fn new(bell: Arc<Bell>) -> Self {
        Self { state: Mutex::default(), bell }
    }

    /// Adds a piece that has come. The thread that adds pieces rings afterwards.
    pub(super) fn put(&self, piece: RingPiece) {
        self.lock().pieces.push_back(piece);
    }

    /// Notes the end of the bytes that were asked for.
    pub(super) fn end(&self, end: ReceiveEnd) {
        let mut state = self.lock();
        state.is_requested = false;
        if !matches!(end, ReceiveEnd::Done) {
            state.end = Some(end);
        }
    }

    /// Rings the bell, so that the comm looks.
    pub(super) fn ring(&self) {
        self.bell.ring();
    }

    /// Calls `took` with pieces of at most `most` bytes in all, at least one, and whether the rest
    /// of the piece's page is taken with it. An end is forgotten once it is returned.
    pub(super) fn take(&self, most: usize, mut took: impl FnMut(RingPiece, bool)) -> TakeResult {
        let mut state = self.lock();
        let mut left = u32::try_from(most).unwrap_or(u32::MAX);
        let before = left;
        while left > 0
            && let Some(front) = state.pieces.front_mut()
        {
            let bytes = front.bytes.min(left);
            let is_all = bytes == front.bytes;
            took(RingPiece { bytes, ..*front }, is_all);
            front.offset += u64::from(bytes);
            front.bytes -= bytes;
            left -= bytes;
            if is_all {
                state.pieces.pop_front();
            }
        }
        if left < before {
            return TakeResult::Pieces;
        }
        if let Some(end) = state.end.take() {
            return TakeResult::End(end);
        }
        if state.is_requested || most == 0 {
            return TakeResult::Wait;
        }
        state.is_requested = true;
        TakeResult::Ask
    }

    /// Returns whether anything is here, or may come although the socket does not show it.
    pub(super) fn expects(&self) -> bool {
        let state = self.lock();
        state.is_requested || !state.pieces.is_empty() || state.end.is_some()
    }

    /// Returns the pages of all pieces that were not taken.
    pub(super) fn empty(&self) -> Vec<u32> {
        self.lock().pieces.drain(..).map(RingPiece::page).collect()
    }

    /// Locks the state. No step but `took` panics with the lock held, and `took` changes nothing
    /// here.
    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox() -> Inbox {
        Inbox::new(Arc::new(Bell::new()))
    }

    fn piece(offset: u64, bytes: u32) -> RingPiece {
        RingPiece { offset, bytes }
    }

    #[test]
    fn pieces_are_taken_in_order_and_cut_where_a_call_ends() {
        let inbox = inbox();
        let mut all = Vec::new();
        let mut take = |most| {
            all.clear();
            let found = inbox.take(most, |piece, is_all| all.push((piece, is_all)));
            (all.clone(), found)
        };
        assert!(matches!(take(9), (none, TakeResult::Ask) if none.is_empty()));
        assert!(matches!(take(9).1, TakeResult::Wait), "it was asked");
        inbox.put(piece(4096, 10));
        inbox.put(piece(8000, 5));
        let (pieces, found) = take(12);
        assert!(matches!(found, TakeResult::Pieces));
        assert_eq!(pieces, [(piece(4096, 10), true), (piece(8000, 2), false)]);
        inbox.end(ReceiveEnd::Done);
        assert!(inbox.expects());
        assert_eq!(take(12).0, [(piece(8002, 3), true)]);
        assert!(!inbox.expects());
        assert!(matches!(take(0).1, TakeResult::Wait), "nothing is wanted");
        assert!(matches!(take(1).1, TakeResult::Ask));
    }

    #[test]
    fn an_end_is_reported_once_and_after_the_pieces() {
        let inbox = inbox();
        assert!(matches!(inbox.take(9, |_, _| {}), TakeResult::Ask));
        inbox.put(piece(8192, 9));
        inbox.end(ReceiveEnd::NoPage);
        assert!(matches!(inbox.take(9, |_, is_all| assert!(is_all)), TakeResult::Pieces));
        assert!(inbox.expects());
        assert!(matches!(inbox.take(9, |_, _| {}), TakeResult::End(ReceiveEnd::NoPage)));
        assert!(matches!(inbox.take(9, |_, _| {}), TakeResult::Ask));
    }

    #[test]
    fn pieces_that_no_lane_takes_are_given_back() {
        let inbox = inbox();
        inbox.put(piece(4096 * 7 + 5, 9));
        inbox.put(piece(4096 * 7 + 14, 9));
        assert_eq!((inbox.empty(), inbox.empty()), (vec![7, 7], vec![]));
    }
}
