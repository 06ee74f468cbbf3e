//! Part of a region that bytes hold from their arrival until they are copied out.

use std::os::fd::BorrowedFd;

use tcpx_devmem::DevmemError;
use tcpx_rx::TokenRanges;

use super::region::NicRegion;
use crate::memory::{PageRange, Piece};

/// Fragments of the NIC's memory, and pages behind it. The pages are free again when this is
/// dropped. The fragments are free when they were given back on their socket, or the socket is
/// closed. Where a ring brings them, they are free when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct HeldFragments {
    pub(super) tokens: TokenRanges,
    pub(super) spare: Vec<PageRange>,
    /// Pieces where the fragments lie, if they must be overwritten when no consumer may read them
    /// any more.
    pub(super) pieces: Vec<Piece>,
    pub(super) region: Option<&'static NicRegion>,
}

impl HeldFragments {
    /// Returns the number of fragments.
    pub(crate) fn fragments(&self) -> u64 {
        self.tokens.fragments()
    }

    /// Takes the fragments of `other`, which no consumer may read any more, and frees its pages.
    pub(crate) fn take_fragments(&mut self, mut other: Self) {
        if let Some(region) = other.region {
            region.bounce().spoil_all(&mut other.pieces);
        }
        other.tokens.as_slice().iter().for_each(|&range| self.tokens.push_range(range));
        other.tokens.clear();
        self.region = self.region.or(other.region);
    }

    /// Keeps all of it taken for ever: something may still read it.
    pub(crate) fn leak(mut self) {
        self.spare.clear();
        if self.region.is_some_and(NicRegion::has_ring) {
            self.tokens.clear();
        }
    }

    /// Gives the fragments back on the socket that they came from.
    pub(crate) fn return_fragments(&mut self, socket: BorrowedFd<'_>) -> Result<(), DevmemError> {
        let Some(region) = self.region else { return Ok(()) };
        region.release_fragments(self.fragments());
        region.receive_path().return_fragments(socket, &mut self.tokens)
    }
}

impl Drop for HeldFragments {
    fn drop(&mut self) {
        if let Some(region) = self.region {
            region.release_fragments(self.fragments());
            region.receive_path().drop_held(&mut self.tokens);
            region.bounce().release(&mut self.spare);
        }
    }
}
