#![allow(unsafe_code)]
//! Ranges of memory that are not the plugin's own: what callers lend, and parts of the bounce
//! region.
//!
//! Nothing here forms a reference to such memory: the consumer, or a GPU, may touch it at any time.
//! Socket calls get addresses and the kernel checks them; the only copies made in user space are
//! [`Piece::write`] and `Region::fill`. GPU memory never comes here: it is received into through
//! pinned pages, from which it is read or copied up (see `uploader`), and sent from pinned pages
//! (see `stager`).

/// A range of memory that a request may read from, or write to, until it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    address: usize,
    len: usize,
}

impl Piece {
    pub(crate) const EMPTY: Self = Self { address: 0, len: 0 };

    /// # Safety
    /// The range is memory that the caller of the plugin lends to a request: registered, not freed,
    /// and for receives not touched by anyone else, until the request is done or its comm closed.
    /// (That is what `isend` and `irecv` ask for.) Or it is a region of the plugin's own that is
    /// never freed.
    pub(crate) unsafe fn lent(address: usize, len: usize) -> Self {
        Self { address, len }
    }

    /// A range that is only looked at as numbers.
    #[cfg(test)]
    pub(crate) fn for_tests(address: usize, len: usize) -> Self {
        Self { address, len }
    }

    pub(crate) fn address(self) -> usize {
        self.address
    }

    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// `len` bytes from `offset`; cut to what the piece has.
    pub(crate) fn part(self, offset: usize, len: usize) -> Self {
        let offset = offset.min(self.len);
        Self { address: self.address + offset, len: len.min(self.len - offset) }
    }

    /// Copies `bytes` to the start of the piece, as far as it goes.
    pub(crate) fn write(self, bytes: &[u8]) {
        let len = bytes.len().min(self.len);
        let target = core::ptr::with_exposed_provenance_mut::<u8>(self.address);
        // SAFETY:
        // - the piece is lent memory (see `lent`) or a part of the bounce region, writable for
        //   `self.len ≥ len` bytes;
        // - `bytes` is a live slice of the plugin's own, so the two cannot overlap.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), target, len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_inside() {
        let piece = Piece::for_tests(1000, 10);
        assert_eq!(piece.part(4, 3), Piece { address: 1004, len: 3 });
        assert_eq!(piece.part(4, 100).len(), 6);
        assert_eq!(piece.part(11, 1).len(), 0);
    }
}
