//! Builder of the unpack descriptors of one chunk from its fragments.

use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

use crate::descriptor::{MAX_DESCRIPTORS, UnpackDescriptor};
use crate::fragment::{DeviceFragment, Fragment};

/// Reason why a fragment has no unpack descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The fragment has no bytes.
    EmptyFragment {
        /// Offset in the chunk at which the fragment would stand.
        dst_off: u64,
    },
    /// The fragment lies beyond the first 4 GiB of the bounce buffer, where no unpack descriptor
    /// can reach.
    SourceBeyond32Bits {
        /// The fragment's first byte in the bounce buffer.
        offset: u64,
    },
    /// The chunk came in too many pieces for one request.
    TooManyDescriptors {
        /// Largest number of pieces of a request.
        limit: usize,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EmptyFragment { dst_off } => write!(f, "fragment of 0 bytes at {dst_off}"),
            Self::SourceBeyond32Bits { offset } => {
                write!(f, "fragment at {offset} of the bounce buffer is beyond 4 GiB")
            }
            Self::TooManyDescriptors { limit } => {
                write!(f, "request has more than {limit} fragments")
            }
        }
    }
}

impl Error for BuildError {}

/// Place of linear bytes of a chunk.
///
/// No unpack descriptor covers these bytes. The caller has the host buffer that they are in, and
/// copies them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearSpan {
    /// First byte in the chunk's destination.
    pub dst_off: u64,
    /// Length in bytes.
    pub bytes: u32,
}

/// All parts of one chunk, as [`DescriptorBuilder::finish`] returns them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuiltChunk {
    /// Pieces in the bounce buffer, by ascending `dst_off`.
    pub descriptors: Vec<UnpackDescriptor>,
    /// Pieces in host memory, by ascending `dst_off`; nearly always none.
    pub linear: Vec<LinearSpan>,
}

/// Builder that turns the fragments of one chunk, in byte order, into unpack descriptors.
///
/// Each fragment is placed behind the previous one. A fragment that crosses the chunk's end is cut
/// there. Its rest is returned, to be the first fragment of the next chunk.
///
/// ```
/// use tcpx_rx::{DescriptorBuilder, DeviceFragment, Fragment};
///
/// let pages = [DeviceFragment::new(8192, 4096, 1, None), DeviceFragment::new(0, 4096, 1, None)];
/// let mut fragments = pages.map(Fragment::Device);
/// let mut chunk = DescriptorBuilder::new(5000);
/// let used = chunk.append(&mut fragments)?;
/// assert!(chunk.is_full());
/// assert_eq!((used, fragments[1].bytes()), (1, 3192));
/// # Ok::<(), tcpx_rx::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DescriptorBuilder {
    chunk: BuiltChunk,
    chunk_bytes: u64,
    filled_bytes: u64,
    limit: usize,
}

impl DescriptorBuilder {
    /// Begins a chunk of `chunk_bytes` that may have [`MAX_DESCRIPTORS`].
    #[must_use]
    pub fn new(chunk_bytes: u64) -> Self {
        Self::with_buffer(Vec::new(), chunk_bytes, MAX_DESCRIPTORS)
    }

    /// Begins a chunk of `chunk_bytes` that may have `limit` unpack descriptors, in a buffer from
    /// an earlier chunk. The buffer's content is discarded, its capacity kept.
    #[must_use]
    pub fn with_buffer(mut buffer: Vec<UnpackDescriptor>, chunk_bytes: u64, limit: usize) -> Self {
        buffer.clear();
        let chunk = BuiltChunk { descriptors: buffer, linear: Vec::new() };
        Self { chunk, chunk_bytes, filled_bytes: 0, limit }
    }

    /// Places fragments behind the chunk's content, until the chunk is full. Returns how many
    /// fragments were used up.
    ///
    /// A fragment that crosses the chunk's end is placed up to the end. In `fragments` it is
    /// shortened to its rest, and is not counted: the next chunk begins with the uncounted
    /// fragments. The rest of a device fragment keeps the token. Return the token to the kernel
    /// once, after both chunks are unpacked.
    ///
    /// # Errors
    /// See [`BuildError`]. The fragments before the refused one have been placed.
    pub fn append(&mut self, fragments: &mut [Fragment]) -> Result<usize, BuildError> {
        if self.append_whole_device(fragments) {
            return Ok(fragments.len());
        }
        for (used, fragment) in fragments.iter_mut().enumerate() {
            if let Some(rest) = self.append_one(*fragment)? {
                *fragment = rest;
                return Ok(used);
            }
        }
        Ok(fragments.len())
    }

    /// Places all fragments if all are valid device fragments that fit, the usual case; else none.
    /// The check at the end keeps tests and branches out of the loop.
    fn append_whole_device(&mut self, fragments: &[Fragment]) -> bool {
        let list = &mut self.chunk.descriptors;
        let before = list.len();
        if fragments.len() > self.limit.saturating_sub(before) {
            return false;
        }
        let mut filled = self.filled_bytes;
        let mut offsets = 0;
        // A length of 0, less 1, sets the highest bit. No other length of 32 bits does.
        let mut lengths_less_one = 0_u64;
        list.extend(fragments.iter().map(|fragment| {
            let (offset, len) = match *fragment {
                Fragment::Device(DeviceFragment { offset, bytes, .. }) => (offset, bytes),
                Fragment::Linear { .. } => (0, 0),
            };
            lengths_less_one |= u64::from(len).wrapping_sub(1);
            offsets |= offset;
            let dst_off = filled;
            filled = filled.wrapping_add(u64::from(len));
            UnpackDescriptor { src_off: offset as u32, len, dst_off }
        }));
        // Up to 2^32 lengths of 32 bits can pass 2^64 once, and then end below where they began.
        let fits = (self.filled_bytes..=self.chunk_bytes).contains(&filled);
        let all_valid = fits
            && u32::try_from(fragments.len()).is_ok()
            && u32::try_from(offsets).is_ok()
            && u32::try_from(lengths_less_one).is_ok();
        if all_valid {
            self.filled_bytes = filled;
        } else {
            list.truncate(before);
        }
        all_valid
    }

    /// Places one fragment of any kind. Returns the part beyond the chunk's end.
    fn append_one(&mut self, fragment: Fragment) -> Result<Option<Fragment>, BuildError> {
        let bytes = fragment.bytes();
        let dst_off = self.filled_bytes;
        if bytes == 0 {
            return Err(BuildError::EmptyFragment { dst_off });
        }
        let room = u32::try_from(self.remaining_bytes()).unwrap_or(u32::MAX);
        let taken = bytes.min(room);
        if taken == 0 {
            return Ok(Some(fragment));
        }
        match fragment {
            Fragment::Device(DeviceFragment { offset, .. }) => {
                let Ok(src_off) = u32::try_from(offset) else {
                    return Err(BuildError::SourceBeyond32Bits { offset });
                };
                if self.chunk.descriptors.len() >= self.limit {
                    return Err(BuildError::TooManyDescriptors { limit: self.limit });
                }
                let placed = UnpackDescriptor { src_off, len: taken, dst_off };
                self.chunk.descriptors.push(placed);
            }
            Fragment::Linear { .. } => {
                self.chunk.linear.push(LinearSpan { dst_off, bytes: taken });
            }
        }
        self.filled_bytes += u64::from(taken);
        Ok((taken < bytes).then(|| rest_of(fragment, taken)))
    }

    /// Returns the number of bytes placed so far.
    #[must_use]
    pub const fn filled_bytes(&self) -> u64 {
        self.filled_bytes
    }

    /// Returns the number of bytes missing to the chunk's end.
    #[must_use]
    pub const fn remaining_bytes(&self) -> u64 {
        self.chunk_bytes - self.filled_bytes
    }

    /// Returns whether all bytes of the chunk are placed.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.filled_bytes == self.chunk_bytes
    }

    /// Returns the unpack descriptors so far.
    #[must_use]
    pub fn descriptors(&self) -> &[UnpackDescriptor] {
        &self.chunk.descriptors
    }

    /// Returns the content that was built, full or not.
    #[must_use]
    pub fn finish(self) -> BuiltChunk {
        self.chunk
    }
}

/// Returns the rest of `fragment` without its first `taken` bytes. Of a device fragment `taken`
/// bytes were placed, so its offset has 32 bits and the sum cannot overflow.
fn rest_of(fragment: Fragment, taken: u32) -> Fragment {
    match fragment {
        Fragment::Device(device) => Fragment::Device(DeviceFragment {
            offset: device.offset + u64::from(taken),
            bytes: device.bytes - taken,
            ..device
        }),
        Fragment::Linear { bytes } => Fragment::Linear { bytes: bytes - taken },
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::check;

    fn device(offset: u64, bytes: u32) -> Fragment {
        Fragment::Device(DeviceFragment { offset, bytes, token: 1, dmabuf_id: None })
    }

    fn linear(bytes: u32) -> Fragment {
        Fragment::Linear { bytes }
    }

    #[test]
    fn fragments_follow_each_other_and_pass_the_check() {
        let mut builder = DescriptorBuilder::new(9000);
        let mut fragments = [device(4096, 4096), device(0, 4096), device(20_481, 808)];
        assert_eq!(builder.append(&mut fragments), Ok(3));
        assert!(builder.is_full());
        let mut list = builder.finish().descriptors;
        assert_eq!(
            list,
            [
                UnpackDescriptor { src_off: 4096, len: 4096, dst_off: 0 },
                UnpackDescriptor { src_off: 0, len: 4096, dst_off: 4096 },
                UnpackDescriptor { src_off: 20_481, len: 808, dst_off: 8192 },
            ]
        );
        assert_eq!(check(&mut list, 1 << 20, 9000), Ok(()));
    }

    #[test]
    fn a_fragment_over_the_end_is_cut_and_starts_the_next_chunk() {
        let mut fragments = [device(0, 90), device(4096, 30), device(8192, 5)];
        let mut builder = DescriptorBuilder::new(100);
        assert_eq!(builder.append(&mut fragments), Ok(1));
        assert_eq!(fragments, [device(0, 90), device(4106, 20), device(8192, 5)]);
        assert_eq!((builder.filled_bytes(), builder.remaining_bytes()), (100, 0));
        assert_eq!(builder.append(&mut fragments[1..]), Ok(0), "the chunk is full");
        assert_eq!(fragments[1], device(4106, 20));

        let buffer = builder.finish().descriptors;
        let mut next = DescriptorBuilder::with_buffer(buffer, 100, MAX_DESCRIPTORS);
        assert_eq!(next.append(&mut fragments[1..]), Ok(2));
        assert_eq!(
            next.descriptors(),
            [
                UnpackDescriptor { src_off: 4106, len: 20, dst_off: 0 },
                UnpackDescriptor { src_off: 8192, len: 5, dst_off: 20 }
            ]
        );
    }

    #[test]
    fn linear_bytes_take_their_place_but_no_descriptor() {
        let mut builder = DescriptorBuilder::new(30);
        let mut fragments = [device(0, 10), linear(8), device(10, 10), linear(5)];
        assert_eq!(builder.append(&mut fragments), Ok(3));
        assert_eq!(fragments[3], linear(3));
        let chunk = builder.finish();
        assert_eq!(
            chunk.linear,
            [LinearSpan { dst_off: 10, bytes: 8 }, LinearSpan { dst_off: 28, bytes: 2 }]
        );
        assert_eq!(chunk.descriptors[1], UnpackDescriptor { src_off: 10, len: 10, dst_off: 18 });
    }

    #[test]
    fn a_refused_fragment_changes_nothing() {
        let mut builder = DescriptorBuilder::with_buffer(vec![], 1 << 40, 2);
        assert_eq!(
            builder.append(&mut [device(7, 5), device(0, 0)]),
            Err(BuildError::EmptyFragment { dst_off: 5 })
        );
        assert_eq!(
            builder.append(&mut [device(1 << 32, 1)]),
            Err(BuildError::SourceBeyond32Bits { offset: 1 << 32 })
        );
        assert_eq!((builder.filled_bytes(), builder.descriptors().len()), (5, 1));
        assert_eq!(
            builder.append(&mut [device(u64::from(u32::MAX), u32::MAX), device(0, 1)]),
            Err(BuildError::TooManyDescriptors { limit: 2 })
        );
        assert_eq!(builder.filled_bytes(), 5 + u64::from(u32::MAX));
        assert_eq!(builder.descriptors().len(), 2);
    }

    #[test]
    fn a_rest_beyond_four_gibibytes_is_refused_in_the_next_chunk() {
        let mut fragments = [device(u64::from(u32::MAX), 2)];
        assert_eq!(DescriptorBuilder::new(1).append(&mut fragments), Ok(0));
        assert_eq!(
            DescriptorBuilder::new(1).append(&mut fragments),
            Err(BuildError::SourceBeyond32Bits { offset: 1 << 32 })
        );
    }

    #[test]
    fn a_chunk_can_end_at_the_last_64_bit_offset() {
        let mut builder = DescriptorBuilder::new(u64::MAX);
        builder.filled_bytes = u64::MAX - 4;
        let mut fragments = [device(0, 10)];
        assert_eq!(builder.append(&mut fragments), Ok(0));
        assert_eq!(fragments, [device(4, 6)]);
        assert!(builder.is_full());
        assert_eq!(builder.descriptors()[0].dst_end(), Some(u64::MAX));
    }

    #[test]
    fn the_default_limit_is_that_of_the_plugin() {
        let mut builder = DescriptorBuilder::new(1 << 20);
        let mut fragments = vec![device(0, 100); 2048];
        assert_eq!(
            builder.append(&mut fragments),
            Err(BuildError::TooManyDescriptors { limit: 2047 })
        );
        assert_eq!(builder.descriptors().len(), 2047);
    }
}
