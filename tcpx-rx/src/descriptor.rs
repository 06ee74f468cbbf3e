//! Unpack descriptor: one copy from the bounce buffer to the destination.

use core::mem::{align_of, offset_of, size_of};

/// Largest number of unpack descriptors of a request.
///
/// The plugin's queue has room for 2048 in each slot, but the plugin ends the process when a chunk
/// reaches that number (docs/plugin-contract.md §2.7). 2047 can therefore be used.
pub const MAX_DESCRIPTORS: usize = 2047;

/// Piece of a request: `len` bytes at `src_off` of the bounce buffer belong at `dst_off` of the
/// destination.
///
/// All three fields are in bytes. `src_off` counts from the start of the bounce buffer. `dst_off`
/// counts from the start of the request, not of the transfer. No field has any alignment. The
/// layout has 16 bytes in the machine's byte order. It is the `loadMeta` that the plugin publishes
/// in its unpack queue (docs/plugin-contract.md §1.4).
///
/// A value of this type guarantees nothing by itself; [`check`](crate::check) does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C, align(16))]
pub struct UnpackDescriptor {
    /// First byte of the piece in the bounce buffer.
    pub src_off: u32,
    /// Bytes of the piece.
    pub len: u32,
    /// First byte of the piece in the request's destination.
    pub dst_off: u64,
}

const _: () = {
    assert!(size_of::<UnpackDescriptor>() == 16);
    assert!(align_of::<UnpackDescriptor>() == 16);
    assert!(offset_of!(UnpackDescriptor, src_off) == 0);
    assert!(offset_of!(UnpackDescriptor, len) == 4);
    assert!(offset_of!(UnpackDescriptor, dst_off) == 8);
};

impl UnpackDescriptor {
    /// Returns the end of the piece in the bounce buffer, exclusive. Cannot overflow: both terms
    /// are 32 bit.
    #[inline]
    #[must_use]
    pub const fn src_end(&self) -> u64 {
        self.src_off as u64 + self.len as u64
    }

    /// Returns the end of the piece in the destination, exclusive, or `None` when the end lies
    /// beyond `u64::MAX`.
    #[inline]
    #[must_use]
    pub const fn dst_end(&self) -> Option<u64> {
        self.dst_off.checked_add(self.len as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_exclusive_and_survive_the_largest_values() {
        let last = UnpackDescriptor { src_off: u32::MAX, len: u32::MAX, dst_off: u64::MAX - 1 };
        assert_eq!(last.src_end(), 2 * u64::from(u32::MAX));
        assert_eq!(last.dst_end(), None);

        let touching = UnpackDescriptor { src_off: 4096, len: 1, dst_off: u64::MAX - 1 };
        assert_eq!(touching.src_end(), 4097);
        assert_eq!(touching.dst_end(), Some(u64::MAX));
    }
}
