//! Conversion of received bytes to unpack descriptors of one kind.
//!
//! The NIC puts payload into its part of a region. Some bytes come in host memory nevertheless:
//! they are copied to spare pages behind that part. The unpack step thus reads all bytes from one
//! region.

use tcpx_rx::{BuildError, DescriptorBuilder, DeviceFragment, Fragment, TokenRanges};

use crate::error::DevmemError;
use crate::receive::Arrival;

/// Bytes of a spare page.
const PAGE_BYTES: usize = 4096;

/// Resources that a chunk holds until its bytes were copied out.
#[derive(Debug, Default)]
pub struct HeldMemory {
    /// Fragments to give back on their socket.
    pub tokens: TokenRanges,
    /// Spare pages to release.
    pages: Vec<u32>,
}

/// Free spare pages of a region.
#[derive(Debug)]
pub struct SparePages {
    begin: u64,
    free: Vec<u32>,
}

impl SparePages {
    /// Creates `bytes` of spare pages, from byte `begin` of the region on.
    #[must_use]
    pub fn new(begin: u64, bytes: usize) -> Self {
        let pages = u32::try_from(bytes / PAGE_BYTES).unwrap_or(u32::MAX);
        // The first page is taken first, as long as it is free.
        Self { begin, free: (0..pages).rev().collect() }
    }

    /// Returns how many bytes in host memory find room. Receive no more at once: any byte may come
    /// in host memory.
    #[must_use]
    pub fn room(&self) -> usize {
        self.free.len() * PAGE_BYTES
    }

    /// Appends all of `arrival` to `chunk`. `write` copies bytes to an offset of the region. The
    /// newly held fragments and pages are added to `held`.
    ///
    /// # Errors
    /// Returns [`DevmemError::TooManyFragments`]. Returns [`DevmemError::NoRoom`] when more bytes
    /// came in host memory than there is [`room`](Self::room) for, or than the chunk has left.
    pub fn land(
        &mut self,
        arrival: Arrival<'_>,
        chunk: &mut DescriptorBuilder,
        held: &mut HeldMemory,
        mut write: impl FnMut(u64, &[u8]),
    ) -> Result<(), DevmemError> {
        let mut linear = self.copy(arrival.linear, held, &mut write)?;
        for fragment in arrival.fragments {
            match *fragment {
                Fragment::Device(device) => {
                    held.tokens.push(device.token);
                    append(chunk, device)?;
                }
                Fragment::Linear { bytes } => linear.place(bytes, chunk)?,
                _ => return Err(DevmemError::unknown_fragment(fragment)),
            }
        }
        Ok(())
    }

    /// Releases spare pages. The tokens stay in `held`: they go back to the kernel.
    pub fn release(&mut self, held: &mut HeldMemory) {
        self.free.append(&mut held.pages);
    }

    fn copy(
        &mut self,
        bytes: &[u8],
        held: &mut HeldMemory,
        write: &mut impl FnMut(u64, &[u8]),
    ) -> Result<LinearBytes, DevmemError> {
        let pages = bytes.len().div_ceil(PAGE_BYTES);
        if pages > self.free.len() {
            return Err(DevmemError::NoRoom {
                bytes: bytes.len() as u64,
                room: self.room() as u64,
            });
        }
        let first = held.pages.len();
        for piece in bytes.chunks(PAGE_BYTES) {
            if let Some(page) = self.free.pop() {
                held.pages.push(page);
                write(self.offset(page), piece);
            }
        }
        let offsets = held.pages[first..].iter().map(|&page| self.offset(page)).collect();
        Ok(LinearBytes { offsets, used: 0 })
    }

    fn offset(&self, page: u32) -> u64 {
        self.begin + u64::from(page) * PAGE_BYTES as u64
    }
}

/// Linear bytes of one arrival, in spare pages.
struct LinearBytes {
    offsets: Vec<u64>,
    used: usize,
}

impl LinearBytes {
    /// Places the next `bytes` linear bytes. No piece crosses the end of a page.
    fn place(&mut self, bytes: u32, chunk: &mut DescriptorBuilder) -> Result<(), DevmemError> {
        let mut left = bytes;
        while left > 0 {
            let (page, within) = (self.used / PAGE_BYTES, self.used % PAGE_BYTES);
            let Some(&offset) = self.offsets.get(page) else {
                return Err(DevmemError::NoRoom { bytes: u64::from(left), room: 0 });
            };
            let piece = left.min((PAGE_BYTES - within) as u32);
            let offset = offset + within as u64;
            append(chunk, DeviceFragment::new(offset, piece, 0, None))?;
            self.used += piece as usize;
            left -= piece;
        }
        Ok(())
    }
}

fn append(chunk: &mut DescriptorBuilder, device: DeviceFragment) -> Result<(), DevmemError> {
    match chunk.append(&mut [Fragment::Device(device)]) {
        Ok(1) => Ok(()),
        Ok(_) => Err(DevmemError::NoRoom { bytes: u64::from(device.bytes), room: 0 }),
        Err(BuildError::TooManyDescriptors { limit }) => {
            Err(DevmemError::TooManyFragments { limit })
        }
        Err(error) => Err(DevmemError::BadDescription {
            bytes: u64::from(device.bytes),
            described: 0,
            what: error.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tcpx_rx::check;

    use super::*;

    /// Bytes of the NIC's part: 64 KiB. As many bytes of spare pages lie behind it.
    const NIC_BYTES: usize = 64 << 10;

    struct Region {
        bytes: Vec<u8>,
        spare: SparePages,
    }

    impl Region {
        fn new(pages: usize) -> Self {
            let spare = pages * PAGE_BYTES;
            Self {
                bytes: vec![0; NIC_BYTES + spare],
                spare: SparePages::new(NIC_BYTES as u64, spare),
            }
        }

        fn land(
            &mut self,
            fragments: &[Fragment],
            linear: &[u8],
            chunk: &mut DescriptorBuilder,
            held: &mut HeldMemory,
        ) -> Result<(), DevmemError> {
            let bytes = &mut self.bytes;
            let write = |offset: u64, from: &[u8]| {
                bytes[offset as usize..][..from.len()].copy_from_slice(from);
            };
            self.spare.land(Arrival { fragments, linear }, chunk, held, write)
        }

        /// Puts a chunk together as a consumer does.
        fn unpack(&self, chunk: DescriptorBuilder) -> Vec<u8> {
            let expected = chunk.filled_bytes();
            let mut list = chunk.finish().descriptors;
            check(&mut list, self.bytes.len() as u64, expected).expect("a whole chunk");
            let piece = |d: &tcpx_rx::UnpackDescriptor| {
                self.bytes[d.src_off as usize..d.src_end() as usize].to_vec()
            };
            list.iter().flat_map(piece).collect()
        }
    }

    fn device(offset: u64, bytes: u32, token: u32) -> Fragment {
        Fragment::Device(DeviceFragment::new(offset, bytes, token, Some(1)))
    }

    #[test]
    fn bytes_of_both_kinds_come_out_in_order() {
        let mut region = Region::new(2);
        region.bytes[4096..4100].copy_from_slice(b"5678");
        let (mut chunk, mut held) = (DescriptorBuilder::new(12), HeldMemory::default());
        let linear = |bytes| Fragment::Linear { bytes };
        let fragments = [linear(4), device(4096, 4, 9), linear(4)];
        region.land(&fragments, b"1234abcd", &mut chunk, &mut held).expect("room");
        assert!(chunk.is_full());
        assert_eq!(region.unpack(chunk), b"12345678abcd");
        assert_eq!((held.tokens.fragments(), region.spare.room()), (1, PAGE_BYTES));
        region.spare.release(&mut held);
        assert_eq!(region.spare.room(), 2 * PAGE_BYTES);
    }

    #[test]
    fn no_room_is_an_error_and_takes_nothing() {
        let mut region = Region::new(1);
        let (mut chunk, mut held) = (DescriptorBuilder::new(9000), HeldMemory::default());
        let bytes = vec![7; PAGE_BYTES + 1];
        let all = [Fragment::Linear { bytes: bytes.len() as u32 }];
        let error = region.land(&all, &bytes, &mut chunk, &mut held).expect_err("two pages");
        assert!(matches!(error, DevmemError::NoRoom { bytes: 4097, room: 4096 }), "{error}");
        assert_eq!((region.spare.room(), chunk.filled_bytes()), (PAGE_BYTES, 0));
        let mut chunk = DescriptorBuilder::new(3);
        let error = region.land(&[device(0, 4, 1)], b"", &mut chunk, &mut held);
        assert!(error.is_err(), "more than the chunk has left");
    }

    #[test]
    fn more_fragments_than_a_request_has_room_for_are_an_error() {
        let mut region = Region::new(1);
        let mut chunk = DescriptorBuilder::with_buffer(Vec::new(), 9000, 2);
        let fragments = [device(0, 1, 1), device(9, 1, 2), device(18, 1, 3)];
        let error = region.land(&fragments, b"", &mut chunk, &mut HeldMemory::default());
        let id = error.expect_err("three").diagnosis().map(|diagnosis| diagnosis.code.number());
        assert_eq!(id, Some(814));
    }

    proptest! {
        /// Lands any mixture in several arrivals, with pages that come back in any order.
        #[test]
        fn every_byte_is_where_it_belongs(
            arrivals in prop::collection::vec(
                prop::collection::vec((any::<bool>(), 1u32..6000), 1..6), 1..8
            ),
        ) {
            let mut region = Region::new(16);
            let mut next = 0u8;
            for arrival in arrivals {
                let (mut fragments, mut linear, mut expected) = (Vec::new(), Vec::new(), Vec::new());
                let mut at = 0;
                for (number, (is_device, bytes)) in arrival.into_iter().enumerate() {
                    next = next.wrapping_add(1);
                    let content = vec![next; bytes as usize];
                    expected.extend_from_slice(&content);
                    if is_device {
                        region.bytes[at..at + content.len()].copy_from_slice(&content);
                        fragments.push(device(at as u64, bytes, number as u32));
                        at += content.len();
                    } else {
                        linear.extend_from_slice(&content);
                        fragments.push(Fragment::Linear { bytes });
                    }
                }
                let mut chunk = DescriptorBuilder::new(expected.len() as u64);
                let mut held = HeldMemory::default();
                region.land(&fragments, &linear, &mut chunk, &mut held).expect("room");
                prop_assert_eq!(region.unpack(chunk), expected);
                region.spare.release(&mut held);
                prop_assert_eq!(region.spare.room(), 16 * PAGE_BYTES);
            }
        }
    }
}
