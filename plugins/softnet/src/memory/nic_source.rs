//! Where a NIC finds bytes that it sends: at an offset of a dma-buf that is bound to it.

use super::piece::Piece;

/// A dma-buf that is bound to a NIC for sending, as what is sent from it names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NicSource {
    /// The number of the binding.
    pub(crate) binding: u32,
    /// The address at which the dma-buf begins.
    pub(crate) base: usize,
}

impl NicSource {
    /// Where a piece of the memory begins in the dma-buf.
    pub(crate) fn offset(self, piece: Piece) -> usize {
        piece.address() - self.base
    }
}
