//! Layouts of arrived chunks: the pages of a large bounce buffer that hold them.

use tcpx_rx::{UnpackDescriptor, merge_neighbours};
use tcpx_testkit::Random;

/// Size of a page of the bounce buffer.
pub(crate) const PAGE: u64 = 4096;

/// Layout of a chunk in its bounce buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Whole pages in random order.
    Pages,
    /// Pages in random order, the first entered 1447 bytes in: source and destination differ in
    /// alignment everywhere but in the first page.
    Shifted,
    /// Pages in order: one run.
    Contiguous,
}

impl Shape {
    pub(crate) const ALL: [Self; 3] = [Self::Pages, Self::Shifted, Self::Contiguous];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pages => "random pages",
            Self::Shifted => "random pages, shifted by 1447",
            Self::Contiguous => "contiguous pages",
        }
    }
}

/// Descriptors of one chunk after another, over a whole bounce buffer.
pub(crate) struct Chunks {
    pub(crate) chunk_bytes: u64,
    /// Descriptors of all chunks in a row. In use, descriptors have just been made and are in the
    /// cache; here the processor must read ahead to get them there.
    descriptors: Vec<UnpackDescriptor>,
    /// End of each chunk's descriptors.
    ends: Vec<usize>,
}

impl Chunks {
    /// Cuts `bounce_bytes` into chunks, no page in two of them.
    pub(crate) fn new(shape: Shape, chunk_bytes: u64, bounce_bytes: u64) -> Self {
        let shift = if shape == Shape::Shifted { 1447 } else { 0 };
        let pages_each = (chunk_bytes + shift).div_ceil(PAGE) as usize;
        let mut pages: Vec<u32> = (0..(bounce_bytes / PAGE) as u32).collect();
        if shape != Shape::Contiguous {
            pages = Random::new(0x2545_f491_4f6c_dd1d).shuffled(&pages);
        }
        let (mut descriptors, mut ends) = (Vec::new(), Vec::new());
        for pages in pages.chunks_exact(pages_each) {
            descriptors.extend(chunk(pages, chunk_bytes, shift));
            ends.push(descriptors.len());
        }
        Self { chunk_bytes, descriptors, ends }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn descriptors(&self, chunk: usize) -> &[UnpackDescriptor] {
        let start = chunk.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.descriptors[start..self.ends[chunk]]
    }
}

fn chunk(pages: &[u32], chunk_bytes: u64, shift: u64) -> Vec<UnpackDescriptor> {
    let mut list = Vec::with_capacity(pages.len());
    let (mut dst_off, mut enter) = (0, shift);
    for page in pages {
        let len = (PAGE - enter).min(chunk_bytes - dst_off);
        let src_off = u64::from(*page) * PAGE + enter;
        list.push(UnpackDescriptor { src_off: src_off as u32, len: len as u32, dst_off });
        dst_off += len;
        enter = 0;
    }
    merge_neighbours(&mut list);
    list
}
