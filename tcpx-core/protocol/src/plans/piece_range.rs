//! Some bytes of a list, as they lie at one end. Pure.

use std::sync::Arc;

use super::piece_cursor::PieceCursor;
use super::pieces::{Piece, Pieces};
use crate::types::{MemoryType, RegistrationKey};

/// Run of bytes of a list, from a place in it on.
#[derive(Clone, Debug)]
pub struct PieceRange {
    pieces: Arc<Pieces>,
    from: PieceCursor,
    bytes: u64,
}

impl PieceRange {
    /// Returns all bytes of a list.
    pub fn whole(pieces: Arc<Pieces>) -> Self {
        let bytes = pieces.bytes;
        Self { pieces, from: PieceCursor::default(), bytes }
    }

    /// Returns the next bytes of a list, no more of them than it has, and of no more pieces than
    /// these. Returns of how many they are, too. The cursor steps over them.
    pub fn take(
        cursor: &mut PieceCursor,
        pieces: &Arc<Pieces>,
        bytes: u64,
        most_pieces: usize,
    ) -> (Self, usize) {
        let from = *cursor;
        let count = cursor.skip(pieces, bytes, most_pieces);
        (Self { pieces: Arc::clone(pieces), from, bytes: cursor.scheduled - from.scheduled }, count)
    }

    /// Returns the bytes that [`take`](Self::take) would return of any number of pieces, and steps
    /// over nothing: it looks at no piece.
    pub fn ahead(cursor: PieceCursor, pieces: &Arc<Pieces>, bytes: u64) -> Self {
        let bytes = bytes.min(pieces.bytes - cursor.scheduled);
        Self { pieces: Arc::clone(pieces), from: cursor, bytes }
    }

    /// Returns how many bytes it has.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the kind of memory that the bytes are in.
    pub fn memory(&self) -> MemoryType {
        self.pieces.memory
    }

    /// Returns the registration that a piece of it lies in.
    pub fn registration(&self, piece: &Piece) -> RegistrationKey {
        self.pieces.owners().get(piece.owner as usize).copied().unwrap_or_default()
    }

    /// Returns the list that it is of.
    #[cfg(test)]
    pub fn list(&self) -> &Pieces {
        &self.pieces
    }

    /// Returns the parts of pieces that it covers, in order.
    pub fn iter(&self) -> impl Iterator<Item = Piece> {
        let mut left = self.bytes;
        self.from.ahead(&self.pieces).map_while(move |piece| {
            let bytes = piece.bytes.min(left);
            left -= bytes;
            (bytes > 0).then_some(Piece { bytes, ..piece })
        })
    }

    /// Returns the piece, where all of it lies in one.
    pub fn only(&self) -> Option<Piece> {
        self.iter().next().filter(|piece| piece.bytes == self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plans::pieces::tests::LOOKS;

    /// Pieces of these lengths, each far from the next.
    fn apart(lengths: &[u64]) -> Arc<Pieces> {
        let piece = |(at, bytes): (usize, &u64)| Piece {
            owner: 0,
            address: 1_000_000 * at as u64,
            bytes: *bytes,
        };
        let pieces = lengths.iter().enumerate().map(piece).collect();
        let owners = vec![RegistrationKey::default()];
        Arc::new(Pieces::new(MemoryType::Host, owners, pieces).expect("they have bytes"))
    }

    /// Returns the place of each byte.
    fn bytes_of(range: &PieceRange) -> Vec<u64> {
        range.iter().flat_map(|piece| piece.address..piece.address + piece.bytes).collect()
    }

    proptest! {
        /// However a list is cut, each byte is in one range, in its order.
        #[test]
        fn stretches_are_the_list(
            lengths in proptest::collection::vec(1u64..40, 1..12),
            cuts in proptest::collection::vec(1u64..60, 1..200),
        ) {
            let pieces = apart(&lengths);
            let (mut cursor, mut seen) = (PieceCursor::default(), Vec::new());
            for cut in cuts {
                let left = pieces.bytes - cursor.scheduled;
                let ahead = PieceRange::ahead(cursor, &pieces, cut);
                let (range, count) = PieceRange::take(&mut cursor, &pieces, cut, usize::MAX);
                prop_assert_eq!(bytes_of(&ahead), bytes_of(&range));
                prop_assert_eq!(range.bytes(), cut.min(left));
                prop_assert_eq!(bytes_of(&range).len() as u64, range.bytes());
                prop_assert_eq!(range.iter().count(), count);
                prop_assert_eq!(range.only().is_some(), count == 1);
                seen.extend(bytes_of(&range));
            }
            let all = bytes_of(&PieceRange::whole(Arc::clone(&pieces)));
            prop_assert_eq!(&all[..seen.len()], &seen[..]);
            prop_assert_eq!(all.len() as u64, pieces.bytes);
        }
    }

    #[test]
    fn as_few_pieces_are_taken_as_are_asked_for() {
        let pieces = apart(&[3; 10]);
        let mut cursor = PieceCursor::default();
        for (most_bytes, most_pieces, taken) in
            [(100, 2, (6, 2)), (4, 9, (4, 2)), (100, 4, (11, 4))]
        {
            let (range, count) = PieceRange::take(&mut cursor, &pieces, most_bytes, most_pieces);
            assert_eq!((range.bytes(), count), taken);
        }
    }

    /// A link asks before each read where the rest of a part belongs, which may be of 100,000
    /// pieces.
    #[test]
    fn what_lies_ahead_is_not_walked_over() {
        let pieces = apart(&[8; 1_000]);
        LOOKS.set(0);
        let ahead = PieceRange::ahead(PieceCursor::default(), &pieces, 8_000);
        assert_eq!((ahead.bytes(), LOOKS.get()), (8_000, 0));
    }

    #[test]
    fn nothing_has_no_pieces() {
        let none = PieceRange::whole(Arc::new(Pieces::none()));
        assert_eq!((none.bytes(), none.iter().count(), none.only()), (0, 0, None));
    }
}
