//! Splitter of the unpack descriptors of a chunk, which cuts where one message ends and the next
//! begins. Pure.

use tcpx_rx::UnpackDescriptor;

/// Hands out a chunk's descriptors message by message.
#[derive(Debug)]
pub(crate) struct DescriptorSplitter<'a> {
    rest: &'a [UnpackDescriptor],
    /// Bytes of the first of them that were handed out.
    taken: u32,
}

impl<'a> DescriptorSplitter<'a> {
    /// Makes a splitter of `descriptors`, which passed [`tcpx_rx::check`]: they are sorted, have no
    /// holes, and begin with the chunk's first byte. None reads past the first 4 GiB of the bounce
    /// buffer.
    pub(crate) fn new(descriptors: &'a [UnpackDescriptor]) -> Self {
        Self { rest: descriptors, taken: 0 }
    }

    /// Returns the descriptors of the next `bytes` bytes, with offsets from the first of them.
    pub(crate) fn next(
        &mut self,
        bytes: u64,
    ) -> impl Iterator<Item = UnpackDescriptor> + use<'_, 'a> {
        let mut dst_off = 0;
        std::iter::from_fn(move || {
            let first = self.rest.first().filter(|_| dst_off < bytes)?;
            let left = first.len - self.taken;
            // At most `left`, which is u32.
            let len = u64::from(left).min(bytes - dst_off) as u32;
            let piece = UnpackDescriptor { src_off: first.src_off + self.taken, len, dst_off };
            dst_off += u64::from(len);
            self.taken += len;
            if self.taken == first.len {
                self.rest = &self.rest[1..];
                self.taken = 0;
            }
            Some(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Unpacking message by message copies what unpacking the chunk and then dividing it
        /// copies.
        #[test]
        fn pieces_are_those_of_the_whole(
            fragments in proptest::collection::vec((0u32..3000, 1u32..300), 1..20),
            sizes in proptest::collection::vec(1u64..400, 1..20),
        ) {
            let bounce: Vec<u8> = (0..4000u32).map(|at| (at * 7 + at / 256) as u8).collect();
            let copy = |descriptor: UnpackDescriptor, out: &mut [u8]| {
                let (from, to) = (descriptor.src_off as usize, descriptor.dst_off as usize);
                let len = descriptor.len as usize;
                out[to..to + len].copy_from_slice(&bounce[from..from + len]);
            };
            let mut dst_off = 0;
            let descriptors: Vec<UnpackDescriptor> = fragments
                .into_iter()
                .map(|(src_off, len)| {
                    let descriptor = UnpackDescriptor { src_off, len, dst_off };
                    dst_off += u64::from(len);
                    descriptor
                })
                .collect();
            let mut whole = vec![0; dst_off as usize];
            descriptors.iter().for_each(|descriptor| copy(*descriptor, &mut whole));

            let mut cut = DescriptorSplitter::new(&descriptors);
            let mut pieces = Vec::new();
            for bytes in sizes {
                let mut message = vec![0; bytes as usize];
                let mut end = 0;
                for piece in cut.next(bytes) {
                    prop_assert!(piece.len > 0);
                    prop_assert_eq!(piece.dst_off, end, "no hole, no overlap");
                    end += u64::from(piece.len);
                    copy(piece, &mut message);
                }
                prop_assert_eq!(end, bytes.min(dst_off - pieces.len() as u64));
                message.truncate(end as usize);
                pieces.extend(message);
            }
            prop_assert_eq!(&pieces[..], &whole[..pieces.len()]);
        }
    }

    #[test]
    fn fragments_end_at_4_gib_at_most() {
        let last = [UnpackDescriptor { src_off: u32::MAX - 9, len: 10, dst_off: 0 }];
        let mut cut = DescriptorSplitter::new(&last);
        assert_eq!(cut.next(9).count(), 1);
        let byte = UnpackDescriptor { src_off: u32::MAX, len: 1, dst_off: 0 };
        assert_eq!(cut.next(1).collect::<Vec<_>>(), [byte]);
        assert_eq!(cut.next(1).next(), None);
    }
}
