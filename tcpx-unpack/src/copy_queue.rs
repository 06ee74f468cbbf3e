//! Queue of the copy threads' work, with the order in which submits finish. Pure.

use std::collections::VecDeque;

use crate::extent::{Extent, extents};
use crate::job::UnpackJob;
use crate::ticket::Ticket;

/// Bytes of a piece: some 10 µs of work for one thread, many times the cost of a handover.
pub(crate) const PIECE_BYTES: u64 = 64 << 10;
/// Limit of the bytes in flight, except when they belong to one submit.
const MOST_BYTES: u64 = 64 << 20;

/// Unit of one thread's work: part of the jobs of one submit.
#[derive(Debug)]
pub(crate) struct Piece {
    ticket: Ticket,
    pub(crate) extents: Vec<Extent>,
    bytes: u64,
}

/// Submit with pieces that are not copied yet.
#[derive(Debug)]
struct PendingSubmit {
    ticket: Ticket,
    pieces: usize,
}

/// Pieces that wait for a thread, oldest first, and submits that are not finished.
#[derive(Debug)]
pub(crate) struct CopyQueue {
    waiting: VecDeque<Piece>,
    under_way: VecDeque<PendingSubmit>,
    /// Bytes of all pieces that are not copied.
    bytes: u64,
    finished: Ticket,
    /// Reusable storage for the extents of later pieces.
    spare: Vec<Vec<Extent>>,
}

impl CopyQueue {
    pub(crate) const fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            under_way: VecDeque::new(),
            bytes: 0,
            finished: Ticket::NONE,
            spare: Vec::new(),
        }
    }

    /// Returns whether a submit of `bytes` bytes may be added.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.under_way.is_empty() || self.bytes.saturating_add(bytes) <= MOST_BYTES
    }

    /// Cuts checked jobs into pieces and queues them. Returns the number of pieces.
    pub(crate) fn add(&mut self, ticket: Ticket, jobs: &[UnpackJob<'_>]) -> usize {
        let before = self.waiting.len();
        let mut piece = self.new_piece(ticket);
        for job in jobs {
            for mut rest in extents(job.bounce, job.dst, job.descriptors) {
                while rest.bytes > 0 {
                    if piece.bytes == PIECE_BYTES {
                        let next = self.new_piece(ticket);
                        self.wait_for_thread(std::mem::replace(&mut piece, next));
                    }
                    piece.push(cut_front(&mut rest, PIECE_BYTES - piece.bytes));
                }
            }
        }
        match piece.bytes {
            0 => self.spare.push(piece.extents),
            _ => self.wait_for_thread(piece),
        }
        let pieces = self.waiting.len() - before;
        self.began(ticket, pieces);
        pieces
    }

    /// Adds a submit that is copied already. It is finished as soon as all earlier submits are
    /// finished.
    pub(crate) fn add_copied(&mut self, ticket: Ticket) {
        self.began(ticket, 0);
    }

    fn began(&mut self, ticket: Ticket, pieces: usize) {
        self.under_way.push_back(PendingSubmit { ticket, pieces });
        self.finish();
    }

    fn new_piece(&mut self, ticket: Ticket) -> Piece {
        Piece { ticket, extents: self.spare.pop().unwrap_or_default(), bytes: 0 }
    }

    fn wait_for_thread(&mut self, piece: Piece) {
        self.bytes += piece.bytes;
        self.waiting.push_back(piece);
    }

    /// Takes the next piece to copy.
    pub(crate) fn take(&mut self) -> Option<Piece> {
        self.waiting.pop_front()
    }

    /// Marks a piece as copied. Returns whether the newest finished submit has changed.
    pub(crate) fn copied(&mut self, mut piece: Piece) -> bool {
        self.bytes -= piece.bytes;
        if let Ok(index) = self.under_way.binary_search_by_key(&piece.ticket, |it| it.ticket) {
            self.under_way[index].pieces -= 1;
        }
        piece.extents.clear();
        self.spare.push(piece.extents);
        self.finish()
    }

    fn finish(&mut self) -> bool {
        let before = self.finished;
        while let Some(first) = self.under_way.front()
            && first.pieces == 0
        {
            self.finished = first.ticket;
            self.under_way.pop_front();
        }
        self.finished != before
    }

    /// Returns the newest submit that is finished together with all earlier submits.
    pub(crate) fn finished(&self) -> Ticket {
        self.finished
    }

    /// Returns whether everything is copied.
    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Returns the number of pieces that wait for a thread.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Drops the pieces that no thread has begun. Their submits never finish.
    pub(crate) fn forget_waiting(&mut self) {
        self.waiting.clear();
    }
}

impl Piece {
    fn push(&mut self, extent: Extent) {
        self.bytes += extent.bytes;
        self.extents.push(extent);
    }
}

/// Takes at most `most` bytes off the front.
fn cut_front(extent: &mut Extent, most: u64) -> Extent {
    let front = Extent { bytes: extent.bytes.min(most), ..*extent };
    extent.src += front.bytes;
    extent.dst += front.bytes;
    extent.bytes -= front.bytes;
    front
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tcpx_rx::UnpackDescriptor;

    use super::*;

    const BOUNCE: u64 = 1 << 40;
    const DST: u64 = 1 << 44;

    fn job(descriptors: &[UnpackDescriptor]) -> UnpackJob<'_> {
        UnpackJob {
            bounce: BOUNCE,
            bounce_bytes: 1 << 32,
            dst: DST,
            dst_bytes: 1 << 40,
            descriptors,
        }
    }

    /// Returns fragments of these lengths. They are contiguous at the destination, and apart in the
    /// bounce buffer.
    fn fragments(lengths: &[u32]) -> Vec<UnpackDescriptor> {
        let (mut src_off, mut dst_off) = (0, 0);
        let place = |&len: &u32| {
            let descriptor = UnpackDescriptor { src_off, len, dst_off };
            src_off += len + 1;
            dst_off += u64::from(len);
            descriptor
        };
        lengths.iter().map(place).collect()
    }

    proptest! {
        /// Every byte is in one piece, with its destination, and no piece is too long.
        #[test]
        fn pieces_hold_every_byte_once(lengths in prop::collection::vec(0..200_000_u32, 0..12)) {
            let descriptors = fragments(&lengths);
            let mut queue = CopyQueue::new();
            let count = queue.add(Ticket::new(1), &[job(&descriptors)]);
            let pieces: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
            prop_assert_eq!(pieces.len(), count);
            prop_assert!(pieces.iter().all(|piece| (1..=PIECE_BYTES).contains(&piece.bytes)));
            let sum = |piece: &Piece| piece.extents.iter().map(|extent| extent.bytes).sum::<u64>();
            prop_assert!(pieces.iter().all(|piece| sum(piece) == piece.bytes));
            let mut joined: Vec<Extent> = Vec::new();
            for extent in pieces.iter().flat_map(|piece| &piece.extents) {
                match joined.last_mut() {
                    Some(last) if last.src + last.bytes == extent.src => {
                        prop_assert_eq!(last.dst + last.bytes, extent.dst);
                        last.bytes += extent.bytes;
                    }
                    _ => joined.push(*extent),
                }
            }
            let whole: Vec<_> = extents(BOUNCE, DST, &descriptors).collect();
            prop_assert_eq!(joined, whole);
        }

        /// Threads take turns in any order. Submits still finish in order, each with its last
        /// piece, and the count of bytes returns to 0.
        #[test]
        fn submits_finish_in_order(
            sizes in prop::collection::vec(0..400_000_u32, 1..8),
            turns in prop::collection::vec(any::<prop::sample::Index>(), 64),
        ) {
            let mut queue = CopyQueue::new();
            let mut left = Vec::new();
            for (number, size) in (1..).zip(&sizes) {
                let ticket = Ticket::new(number);
                let descriptors = fragments(&[*size]);
                left.push(match size % 3 {
                    0 => { queue.add_copied(ticket); 0 }
                    _ => queue.add(ticket, &[job(&descriptors)]),
                });
            }
            let mut taken: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
            for turn in turns.iter().cycle() {
                let finished = left.iter().take_while(|pieces| **pieces == 0).count() as u64;
                prop_assert_eq!(queue.finished().number(), finished);
                prop_assert_eq!(queue.is_empty(), taken.is_empty());
                if taken.is_empty() {
                    break;
                }
                let piece = taken.swap_remove(turn.index(taken.len()));
                left[piece.ticket.number() as usize - 1] -= 1;
                let has_finished = queue.copied(piece);
                prop_assert_eq!(has_finished, queue.finished().number() > finished);
            }
            prop_assert_eq!(queue.bytes, 0);
        }
    }

    #[test]
    fn a_queue_that_is_full_has_no_room_and_an_empty_one_takes_anything() {
        let mut queue = CopyQueue::new();
        assert!(queue.has_room(u64::MAX));
        let descriptors = fragments(&[MOST_BYTES as u32 - 1]);
        queue.add(Ticket::new(1), &[job(&descriptors)]);
        assert!(queue.has_room(1) && !queue.has_room(2) && !queue.has_room(u64::MAX));
        let piece = queue.take().expect("it was cut");
        queue.copied(piece);
        assert!(queue.has_room(2));
    }

    #[test]
    fn a_dropped_piece_never_finishes_its_submit() {
        let mut queue = CopyQueue::new();
        let descriptors = fragments(&[2 * PIECE_BYTES as u32]);
        queue.add(Ticket::new(1), &[job(&descriptors)]);
        let piece = queue.take().expect("the first of two");
        queue.forget_waiting();
        assert!(queue.take().is_none());
        assert!(!queue.copied(piece));
        assert_eq!(queue.finished(), Ticket::NONE);
    }
}
