//! Place where a NIC finds bytes that it sends: an offset of a dma-buf that is bound to the NIC.

use super::piece::Piece;

/// Dma-buf that is bound to a NIC for sending, as sends name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NicSource {
    /// Number of the binding.
    pub(crate) binding: u32,
    /// Address at which the dma-buf begins.
    pub(crate) base: usize,
}

impl NicSource {
    /// Returns the offset in the dma-buf at which a piece of the memory begins.
    pub(crate) fn offset(self, piece: Piece) -> usize {
        piece.address() - self.base
    }
}
