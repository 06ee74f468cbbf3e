//! Fragments to the unpack descriptors of one chunk.

use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

use crate::{DeviceFragment, Fragment, MAX_DESCRIPTORS, UnpackDescriptor};

/// Why a fragment has no unpack descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The fragment has no bytes.
    EmptyFragment {
        /// Where in the chunk it would stand.
        dst_off: u64,
    },
    /// Unpack descriptors reach the first 4 GiB of the bounce buffer only.
    SourceBeyond32Bits {
        /// The fragment's first byte in the bounce buffer.
        offset: u64,
    },
    /// The chunk came in too many pieces for one request.
    TooManyDescriptors {
        /// How many a request may have.
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

/// Linear bytes of a chunk: where they belong. The caller, who has the host buffer they are in,
/// copies them there; no unpack descriptor covers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearSpan {
    /// First byte in the chunk's destination.
    pub dst_off: u64,
    /// Length in bytes.
    pub bytes: u32,
}

/// Everything that makes up one chunk, as [`DescriptorBuilder::finish`] hands it out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuiltChunk {
    /// The pieces in the bounce buffer, by ascending `dst_off`.
    pub descriptors: Vec<UnpackDescriptor>,
    /// The pieces in host memory, by ascending `dst_off`; nearly always none.
    pub linear: Vec<LinearSpan>,
}

/// Turns the fragments of one chunk, in byte order, into unpack descriptors.
///
/// Each fragment is placed behind the one before it. A fragment that crosses the chunk's end is
/// cut there and its rest handed back, to be the first of the next chunk.
///
/// ```
/// use tcpx_rx::{DescriptorBuilder, DeviceFragment, Fragment};
///
/// let page = DeviceFragment { offset: 8192, bytes: 4096, token: 1, dmabuf_id: None };
/// let mut chunk = DescriptorBuilder::new(5000);
/// assert_eq!(chunk.append(Fragment::Device(page))?, None);
/// let rest = chunk.append(Fragment::Device(DeviceFragment { offset: 0, ..page }))?;
/// assert_eq!(rest.map(|r| r.bytes()), Some(3192));
/// assert!(chunk.is_full());
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

    /// Places `fragment` at the end of what the chunk has, and returns what lies beyond the
    /// chunk's end: all of it once the chunk is full.
    ///
    /// The rest of a device fragment keeps the token. Return that to the kernel once, after both
    /// chunks are unpacked.
    ///
    /// # Errors
    /// See [`BuildError`]; the chunk is as before then.
    #[inline]
    pub fn append(&mut self, fragment: Fragment) -> Result<Option<Fragment>, BuildError> {
        let bytes = fragment.bytes();
        if bytes == 0 {
            return Err(BuildError::EmptyFragment { dst_off: self.filled_bytes });
        }
        let room = u32::try_from(self.remaining_bytes()).unwrap_or(u32::MAX);
        let taken = bytes.min(room);
        if taken == 0 {
            return Ok(Some(fragment));
        }
        match fragment {
            Fragment::Device(DeviceFragment { offset, .. }) => self.push_device(offset, taken)?,
            Fragment::Linear { .. } => {
                self.chunk.linear.push(LinearSpan { dst_off: self.filled_bytes, bytes: taken });
            }
        }
        self.filled_bytes += u64::from(taken);
        Ok((taken < bytes).then(|| rest_of(fragment, taken)))
    }

    #[inline]
    fn push_device(&mut self, offset: u64, len: u32) -> Result<(), BuildError> {
        let Ok(src_off) = u32::try_from(offset) else {
            return Err(BuildError::SourceBeyond32Bits { offset });
        };
        if self.chunk.descriptors.len() >= self.limit {
            return Err(BuildError::TooManyDescriptors { limit: self.limit });
        }
        let dst_off = self.filled_bytes;
        self.chunk.descriptors.push(UnpackDescriptor { src_off, len, dst_off });
        Ok(())
    }

    /// Bytes placed so far.
    #[must_use]
    pub const fn filled_bytes(&self) -> u64 {
        self.filled_bytes
    }

    /// Bytes missing to the chunk's end.
    #[must_use]
    pub const fn remaining_bytes(&self) -> u64 {
        self.chunk_bytes - self.filled_bytes
    }

    /// Whether all bytes of the chunk are placed.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.filled_bytes == self.chunk_bytes
    }

    /// The unpack descriptors so far.
    #[must_use]
    pub fn descriptors(&self) -> &[UnpackDescriptor] {
        &self.chunk.descriptors
    }

    /// Hands out what was built, full or not.
    #[must_use]
    pub fn finish(self) -> BuiltChunk {
        self.chunk
    }
}

/// What is left of `fragment` without its first `taken` bytes. Of a device fragment `taken` bytes
/// were placed, so its offset has 32 bits and the sum cannot overflow.
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

    #[test]
    fn fragments_follow_each_other_and_pass_the_check() {
        let mut builder = DescriptorBuilder::new(9000);
        for fragment in [device(4096, 4096), device(0, 4096), device(20_481, 808)] {
            assert_eq!(builder.append(fragment), Ok(None));
        }
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
        let mut builder = DescriptorBuilder::new(100);
        assert_eq!(builder.append(device(0, 90)), Ok(None));
        let rest = builder.append(device(4096, 30)).unwrap();
        assert_eq!(rest, Some(device(4106, 20)));
        assert_eq!((builder.filled_bytes(), builder.remaining_bytes()), (100, 0));
        assert_eq!(builder.append(device(4106, 20)), Ok(Some(device(4106, 20))));

        let buffer = builder.finish().descriptors;
        let mut next = DescriptorBuilder::with_buffer(buffer, 100, MAX_DESCRIPTORS);
        assert_eq!(next.append(device(4106, 20)), Ok(None));
        assert_eq!(next.descriptors(), [UnpackDescriptor { src_off: 4106, len: 20, dst_off: 0 }]);
    }

    #[test]
    fn linear_bytes_take_their_place_but_no_descriptor() {
        let mut builder = DescriptorBuilder::new(30);
        assert_eq!(builder.append(device(0, 10)), Ok(None));
        assert_eq!(builder.append(Fragment::Linear { bytes: 8 }), Ok(None));
        assert_eq!(builder.append(device(10, 10)), Ok(None));
        assert_eq!(
            builder.append(Fragment::Linear { bytes: 5 }),
            Ok(Some(Fragment::Linear { bytes: 3 }))
        );
        let chunk = builder.finish();
        assert_eq!(
            chunk.linear,
            [LinearSpan { dst_off: 10, bytes: 8 }, LinearSpan { dst_off: 28, bytes: 2 }]
        );
        assert_eq!(chunk.descriptors[1], UnpackDescriptor { src_off: 10, len: 10, dst_off: 18 });
    }

    #[test]
    fn refusals_change_nothing() {
        let mut builder = DescriptorBuilder::with_buffer(vec![], 1 << 40, 2);
        assert_eq!(builder.append(device(0, 0)), Err(BuildError::EmptyFragment { dst_off: 0 }));
        assert_eq!(
            builder.append(device(1 << 32, 1)),
            Err(BuildError::SourceBeyond32Bits { offset: 1 << 32 })
        );
        assert_eq!(builder.append(device(u64::from(u32::MAX), u32::MAX)), Ok(None));
        assert_eq!(builder.append(device(0, u32::MAX)), Ok(None));
        let before = builder.filled_bytes();
        assert_eq!(builder.append(device(0, 1)), Err(BuildError::TooManyDescriptors { limit: 2 }));
        assert_eq!((builder.filled_bytes(), builder.descriptors().len()), (before, 2));
    }

    #[test]
    fn the_default_limit_is_what_the_plugin_survives() {
        let mut builder = DescriptorBuilder::new(1 << 20);
        for page in 0..2047 {
            assert_eq!(builder.append(device(page * 4096, 100)), Ok(None));
        }
        assert_eq!(
            builder.append(device(0, 100)),
            Err(BuildError::TooManyDescriptors { limit: 2047 })
        );
    }
}
