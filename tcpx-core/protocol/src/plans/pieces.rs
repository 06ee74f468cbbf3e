//! Pieces of memory that hold the bytes of a list at one end. Pure.
//!
//! Two ends that move a list of pairs know the length of each pair, and nothing of where its bytes
//! lie at the other end. So *bytes* `10..30` *of the list* are the same bytes to both.

use crate::types::{MemoryType, RegistrationKey, Span};

/// Memory at one end of one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of its registration in the list's owners.
    pub owner: u32,
    /// Address of its first byte.
    pub address: u64,
    /// Its bytes, at least 1.
    pub bytes: u64,
}

/// One end of a list: a piece for each pair, in the order of the list. Neighbours may lie one
/// behind the other, or anywhere.
#[derive(Debug)]
pub struct Pieces {
    /// The kind of memory that all of them are in.
    pub memory: MemoryType,
    owners: Box<[RegistrationKey]>,
    pieces: Box<[Piece]>,
    /// Bytes of all pieces, at least 1 if there are any.
    pub bytes: u64,
    /// Cost of each byte that accounts for naming the pieces.
    weight: u64,
}

/// Cost of naming a piece in a plan, in bytes.
const PIECE_COST: u64 = 64;

impl Pieces {
    /// Makes the pieces of registrations. Each registration is named once and was asked whether its
    /// piece lies in it. `None`: there is no piece, one is empty or of no registration, or one or
    /// all together have more bytes than there can be.
    pub fn new(
        memory: MemoryType,
        owners: Vec<RegistrationKey>,
        pieces: Vec<Piece>,
    ) -> Option<Self> {
        let mut total: u64 = 0;
        for Piece { owner, address, bytes } in &pieces {
            address.checked_add(*bytes)?;
            total = total.checked_add(*bytes)?;
            if *bytes == 0 || owners.len() <= *owner as usize {
                return None;
            }
        }
        let (owners, pieces) = (owners.into_boxed_slice(), pieces.into_boxed_slice());
        let weight = 1 + (pieces.len() as u64 * PIECE_COST).checked_div(total)?;
        Some(Self { memory, owners, pieces, bytes: total, weight })
    }

    /// Makes pieces of no memory at all.
    pub fn none() -> Self {
        let (owners, pieces) = (Box::default(), Box::default());
        Self { memory: MemoryType::Host, owners, pieces, bytes: 0, weight: 1 }
    }

    /// Returns the registrations that the pieces lie in.
    pub fn owners(&self) -> &[RegistrationKey] {
        &self.owners
    }

    /// Returns how many pieces there are.
    pub fn count(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the cost of having this many bytes under way, if their pieces are as short as all
    /// are on average.
    pub fn cost(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.weight)
    }

    /// Returns all pieces, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter()
    }

    /// Returns the place of the first byte; nowhere, if there is none.
    pub fn start(&self) -> Span {
        match self.pieces.first() {
            Some(first) => self.span(first, 0),
            None => Span { registration: <_>::default(), address: 0, memory: self.memory },
        }
    }

    /// Returns the piece with this index.
    pub fn get(&self, index: usize) -> Option<&Piece> {
        #[cfg(test)]
        tests::LOOKS.set(tests::LOOKS.get() + 1);
        self.pieces.get(index)
    }

    /// Returns the place `within` bytes behind the start of a piece, which is longer.
    pub fn span(&self, piece: &Piece, within: u64) -> Span {
        let registration = self.owners[piece.owner as usize];
        Span { registration, address: piece.address + within, memory: self.memory }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Number of times that this thread has looked at a piece.
        pub static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    #[test]
    fn pieces_that_cannot_be_are_refused() {
        let owners = vec![RegistrationKey::default()];
        let new = |pieces: &[Piece]| Pieces::new(MemoryType::Host, owners.clone(), pieces.to_vec());
        let piece = |owner, address, bytes| Piece { owner, address, bytes };
        let good = piece(0, 4096, 100);
        assert_eq!(new(&[good, good]).map(|pieces| pieces.bytes), Some(200), "twice the same");
        assert!(new(&[piece(0, u64::MAX - 9, 9)]).is_some());
        for bad in [piece(0, 4096, 0), piece(1, 4096, 1), piece(0, u64::MAX - 9, 10)] {
            assert!(new(&[good, bad]).is_none(), "{bad:?}");
        }
        assert!(new(&[]).is_none());
        assert_eq!((Pieces::none().bytes, Pieces::none().iter().count()), (0, 0));
        assert_eq!(Pieces::none().start().registration, RegistrationKey::default());
        assert!(new(&[piece(0, 1, u64::MAX - 1); 2]).is_none(), "too many bytes together");
        assert_eq!(new(&[good]).expect("a piece").owners(), owners);
        assert_eq!(new(&[good]).map(|pieces| pieces.cost(7)), Some(7));
        assert_eq!(new(&[piece(0, 1, 1); 9]).map(|pieces| pieces.cost(7)), Some(7 * 65));
    }
}
