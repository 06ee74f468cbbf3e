//! Layouts of fragments: what arrives, and what could.

use tcpx_rx::UnpackDescriptor;
use tcpx_testkit::{Random, pattern};

const PAGE: u32 = 4096;
/// Most descriptors the plugin hands out for one request.
const MOST_FRAGMENTS: usize = 2047;

/// One chunk of a case.
pub(crate) struct CaseJob {
    /// Start of the job's bounce buffer in the memory shared by the case's jobs.
    pub(crate) bounce_start: u64,
    pub(crate) bounce_bytes: u64,
    /// Misalignment of the destination, below 16.
    pub(crate) dst_shift: u64,
    pub(crate) dst_bytes: u64,
    pub(crate) descriptors: Vec<UnpackDescriptor>,
}

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) jobs: Vec<CaseJob>,
}

impl Case {
    /// Returns the content of the bounce buffers: bytes without a period that a page or a word
    /// could hide.
    pub(crate) fn content(&self) -> Vec<u8> {
        let end = self.jobs.iter().map(|job| job.bounce_start + job.bounce_bytes).max();
        let mut content = vec![0; end.unwrap_or(0).max(1) as usize];
        pattern::fill(7, 0, &mut content);
        content
    }
}

/// Places fragments of these lengths: `sources` gives where each lies, destinations follow.
fn placed(pieces: &[(u32, u32)]) -> Vec<UnpackDescriptor> {
    let mut dst_off = 0;
    pieces
        .iter()
        .map(|&(src_off, len)| {
            let descriptor = UnpackDescriptor { src_off, len, dst_off };
            dst_off += u64::from(len);
            descriptor
        })
        .collect()
}

fn job(dst_shift: u64, descriptors: Vec<UnpackDescriptor>) -> CaseJob {
    let ends = descriptors.iter().map(|d| u64::from(d.src_off) + u64::from(d.len));
    let bounce_bytes = ends.max().unwrap_or(0).next_multiple_of(u64::from(PAGE));
    let dst_bytes = descriptors.iter().map(|d| d.dst_off + u64::from(d.len)).max().unwrap_or(0);
    CaseJob { bounce_start: 0, bounce_bytes, dst_shift, dst_bytes, descriptors }
}

/// `count` pages in random order, the first entered at `shift`.
fn pages(random: &mut Random, count: u32, shift: u32) -> Vec<UnpackDescriptor> {
    let order = random.shuffled(&(0..count).collect::<Vec<u32>>());
    let mut pieces: Vec<_> = order.into_iter().map(|page| (page * PAGE, PAGE)).collect();
    pieces[0].0 += shift;
    pieces[0].1 -= shift;
    placed(&pieces)
}

/// Fragments as a stream leaves them: any length, split where a page ends.
fn page_split(random: &mut Random, count: usize) -> Vec<UnpackDescriptor> {
    let mut at = random.below(PAGE as usize) as u32;
    let mut pieces = Vec::new();
    while pieces.len() < count {
        let to_page_end = PAGE - at % PAGE;
        let len = (1 + random.below(3000) as u32).min(to_page_end);
        pieces.push((at, len));
        at += len + if random.one_in(4) { random.below(300) as u32 } else { 0 };
    }
    placed(&pieces)
}

/// Fragments of any length anywhere, sources disjoint or not, with holes at the destination.
fn anywhere(random: &mut Random, count: usize, longest: usize) -> Vec<UnpackDescriptor> {
    let mut dst_off = 0;
    let list: Vec<_> = (0..count)
        .map(|_| {
            let len = random.below(longest + 1) as u32;
            let descriptor =
                UnpackDescriptor { src_off: random.below(1 << 20) as u32, len, dst_off };
            dst_off += u64::from(len) + random.below(3) as u64 * random.below(40) as u64;
            descriptor
        })
        .collect();
    random.shuffled(&list)
}

/// Every alignment of source and destination, at lengths around a word and around a warp's reach.
fn alignments() -> Vec<CaseJob> {
    let lens = [1, 2, 15, 16, 17, 31, 33, 47, 511, 512, 513, 4081, 4095, 4096, 4097, 4111];
    let mut jobs = Vec::new();
    for dst_shift in 0..16 {
        let mut descriptors = Vec::new();
        let mut dst_off = 0;
        for src_shift in 0..16 {
            for len in lens {
                let src_off = descriptors.len() as u32 * 16 + src_shift;
                descriptors.push(UnpackDescriptor { src_off, len, dst_off });
                // The next one starts at the same alignment, with a hole before it.
                dst_off += (u64::from(len) + 1).next_multiple_of(16);
            }
        }
        jobs.push(job(dst_shift, descriptors));
    }
    jobs
}

fn many_chunks(random: &mut Random) -> Vec<CaseJob> {
    let all = pages(random, 64 * 128, 0);
    let chunks = all.chunks(128).enumerate();
    chunks
        .map(|(index, chunk)| {
            let pieces: Vec<_> = chunk.iter().map(|d| (d.src_off, d.len)).collect();
            CaseJob { bounce_bytes: 64 * 128 * 4096, ..job(index as u64 % 16, placed(&pieces)) }
        })
        .collect()
}

/// Jobs whose bounce buffers are different parts of one memory.
fn two_bounce_buffers(random: &mut Random) -> Vec<CaseJob> {
    let near = job(0, pages(random, 16, 0));
    let mut far = job(3, pages(random, 16, 100));
    far.bounce_start = near.bounce_bytes;
    vec![near, far]
}

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(20_240_607);
    let random = &mut random;
    let backwards = (0..MOST_FRAGMENTS as u32)
        .map(|index| UnpackDescriptor {
            src_off: index * 3,
            len: 1,
            dst_off: MOST_FRAGMENTS as u64 - 1 - u64::from(index),
        })
        .collect();
    let empty = |src_off| UnpackDescriptor { src_off, len: 0, dst_off: 0 };
    let with_empty = vec![empty(0), UnpackDescriptor { src_off: 5, len: 9, dst_off: 1 }, empty(9)];
    let in_order: Vec<_> = (0..128).map(|page| (page * PAGE, PAGE)).collect();
    let table = vec![
        ("one byte", vec![job(1, placed(&[(3, 1)]))]),
        ("pages in random order", vec![job(0, pages(random, 128, 0))]),
        ("pages in random order, shifted", vec![job(0, pages(random, 128, 1447))]),
        ("pages in order", vec![job(0, placed(&in_order))]),
        ("every alignment", alignments()),
        ("split at pages", vec![job(7, page_split(random, 1000))]),
        ("anywhere", vec![job(5, anywhere(random, 700, 9000)), job(2, anywhere(random, 700, 100))]),
        ("as many fragments as there can be", vec![job(0, pages(random, 2047, 9))]),
        ("single bytes backwards", vec![job(11, backwards)]),
        ("longer than a staging buffer", vec![job(13, placed(&[(77, (5 << 20) + 5), (0, 50)]))]),
        ("long fragments", vec![job(3, anywhere(random, 60, 130_000))]),
        ("as many tiles as parameters take", vec![job(0, pages(random, 254, 0))]),
        ("one tile more than parameters take", vec![job(0, pages(random, 255, 0))]),
        ("many chunks", many_chunks(random)),
        ("two bounce buffers", two_bounce_buffers(random)),
        ("nothing", vec![]),
        ("a chunk without fragments", vec![job(0, vec![]), job(1, placed(&[(0, 100)]))]),
        ("empty fragments", vec![job(0, with_empty), job(0, vec![empty(0)])]),
    ];
    table.into_iter().map(|(name, jobs)| Case { name, jobs }).collect()
}
