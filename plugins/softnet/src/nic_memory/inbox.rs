//! What a ring has told of one data socket, until its lane takes it.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use tcpx_devmem::ReceiveEnd;
use tcpx_sys::UNPACK_PAGE_BYTES;

use crate::bell::Bell;
use crate::sync::{Mutex, MutexGuard};

/// A piece of the stream in the area of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingPiece {
    pub(super) offset: u64,
    pub(super) bytes: u32,
}

impl RingPiece {
    /// The page that it lies in, which goes back once for each piece.
    pub(super) fn page(self) -> u32 {
        // Areas reach 4 GiB.
        (self.offset / UNPACK_PAGE_BYTES as u64) as u32
    }
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<RingPiece>,
    /// Bytes were asked for, and their end was not told.
    is_asked: bool,
    end: Option<ReceiveEnd>,
}

/// What a lane finds.
#[derive(Debug)]
pub(super) enum Found {
    /// Pieces were taken.
    Pieces,
    /// None are there, and the ring is to be asked. It counts as asked from now on.
    Ask,
    /// None are there yet.
    Wait,
    /// No more comes.
    End(ReceiveEnd),
}

/// The pieces of one data socket: the ring's thread puts them here, and its lane takes them.
#[derive(Debug)]
pub(super) struct Inbox {
    state: Mutex<State>,
    bell: Arc<Bell>,
}

impl Inbox {
    /// `bell` is rung for whatever comes.
    pub(super) fn new(bell: Arc<Bell>) -> Self {
        Self { state: Mutex::default(), bell }
    }

    /// A piece has come. Whoever puts some in rings afterwards.
    pub(super) fn put(&self, piece: RingPiece) {
        self.lock().pieces.push_back(piece);
    }

    /// What was asked for is over.
    pub(super) fn end(&self, end: ReceiveEnd) {
        let mut state = self.lock();
        state.is_asked = false;
        if !matches!(end, ReceiveEnd::Done) {
            state.end = Some(end);
        }
    }

    /// Tells the comm to look.
    pub(super) fn ring(&self) {
        self.bell.ring();
    }

    /// Calls `took` with pieces of at most `most` bytes, more than none, and whether the rest of
    /// the piece's page is taken with it. Where an end is told, it is forgotten.
    pub(super) fn take(&self, most: usize, mut took: impl FnMut(RingPiece, bool)) -> Found {
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
            return Found::Pieces;
        }
        if let Some(end) = state.end.take() {
            return Found::End(end);
        }
        if state.is_asked || most == 0 {
            return Found::Wait;
        }
        state.is_asked = true;
        Found::Ask
    }

    /// Whether anything is here, or may come without the socket's showing it.
    pub(super) fn expects(&self) -> bool {
        let state = self.lock();
        state.is_asked || !state.pieces.is_empty() || state.end.is_some()
    }

    /// The pages of all pieces that nobody has taken.
    pub(super) fn empty(&self) -> Vec<u32> {
        self.lock().pieces.drain(..).map(RingPiece::page).collect()
    }

    /// No step panics with the lock held but `took`, which changes nothing here.
    fn lock(&self) -> MutexGuard<'_, State> {
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
        assert!(matches!(take(9), (none, Found::Ask) if none.is_empty()));
        assert!(matches!(take(9).1, Found::Wait), "it was asked");
        inbox.put(piece(4096, 10));
        inbox.put(piece(8000, 5));
        let (pieces, found) = take(12);
        assert!(matches!(found, Found::Pieces));
        assert_eq!(pieces, [(piece(4096, 10), true), (piece(8000, 2), false)]);
        inbox.end(ReceiveEnd::Done);
        assert!(inbox.expects());
        assert_eq!(take(12).0, [(piece(8002, 3), true)]);
        assert!(!inbox.expects());
        assert!(matches!(take(0).1, Found::Wait), "nothing is wanted");
        assert!(matches!(take(1).1, Found::Ask));
    }

    #[test]
    fn an_end_is_told_once_and_after_the_pieces() {
        let inbox = inbox();
        assert!(matches!(inbox.take(9, |_, _| {}), Found::Ask));
        inbox.put(piece(8192, 9));
        inbox.end(ReceiveEnd::NoPage);
        assert!(matches!(inbox.take(9, |_, is_all| assert!(is_all)), Found::Pieces));
        assert!(inbox.expects());
        assert!(matches!(inbox.take(9, |_, _| {}), Found::End(ReceiveEnd::NoPage)));
        assert!(matches!(inbox.take(9, |_, _| {}), Found::Ask));
    }

    #[test]
    fn what_nobody_takes_goes_back() {
        let inbox = inbox();
        inbox.put(piece(4096 * 7 + 5, 9));
        inbox.put(piece(4096 * 7 + 14, 9));
        assert_eq!((inbox.empty(), inbox.empty()), (vec![7, 7], vec![]));
    }
}
