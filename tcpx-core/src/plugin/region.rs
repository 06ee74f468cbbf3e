//! One range of registered memory, in segments that the plugin can take. Pure.

use slotmap::new_key_type;
use tcpx_protocol::types::{MAX_CHUNK_BYTES, MemoryType};

new_key_type! {
    /// Memory that at least one registration is of.
    pub(super) struct RegionKey;
}

/// Distance between the starts of two segments.
const SEGMENT_BYTES: u64 = 1 << 30;
/// The plugin wants device memory on page boundaries, and CUDA whole pages.
const PAGE_BYTES: u64 = 4096;

/// The segment of a range from `start` on in which a chunk at `address` lies whole. Each segment
/// takes one registration of the plugin on each comm.
#[inline]
pub(super) fn segment_at(start: u64, address: u64) -> u64 {
    (address - start) / SEGMENT_BYTES
}

/// The pages that the plugin is asked to register of a range of device memory: start and size of
/// each segment.
pub(crate) fn device_segments(address: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let region = Region { address, bytes, memory: MemoryType::Device, registrations: 0 };
    (0..bytes.div_ceil(SEGMENT_BYTES)).map(move |segment| {
        let (start, bytes) = region.segment_range(segment);
        (start, u64::from(bytes))
    })
}

/// One range of memory. Registrations of the same range share it, and with it the plugin's handles.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) memory: MemoryType,
    /// Registrations of this range.
    pub(super) registrations: usize,
}

impl Region {
    /// Start and size of a segment, rounded out to pages for device memory.
    pub(super) fn segment_range(&self, segment: u64) -> (u64, u32) {
        let offset = segment * SEGMENT_BYTES;
        let start = self.address + offset;
        let end = start + (self.bytes - offset).min(SEGMENT_BYTES + u64::from(MAX_CHUNK_BYTES));
        let (start, end) = match self.memory {
            MemoryType::Host => (start, end),
            MemoryType::Device => {
                (start / PAGE_BYTES * PAGE_BYTES, end.next_multiple_of(PAGE_BYTES))
            }
        };
        // At most 1 GiB, a chunk and two pages.
        (start, (end - start) as u32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_chunk_lies_in_its_segment(
            address in 1u64..1 << 40,
            bytes in 1u64..5 << 30,
            offset in any::<u64>(),
            chunk in 1u64..=u64::from(MAX_CHUNK_BYTES),
            device in any::<bool>(),
        ) {
            let memory = if device { MemoryType::Device } else { MemoryType::Host };
            let region = Region { address, bytes, memory, registrations: 1 };
            let offset = offset % bytes;
            let chunk = chunk.min(bytes - offset);
            let (start, length) = region.segment_range(segment_at(address, address + offset));
            prop_assert!(start <= address + offset);
            prop_assert!(start + u64::from(length) >= address + offset + chunk);
            prop_assert!(length <= i32::MAX as u32);
            if device {
                let segments: Vec<_> = device_segments(address, bytes).collect();
                prop_assert!(segments.contains(&(start, u64::from(length))));
                prop_assert_eq!((start % PAGE_BYTES, u64::from(length) % PAGE_BYTES), (0, 0));
            } else {
                prop_assert!(start >= address && start + u64::from(length) <= address + bytes);
            }
        }
    }
}
