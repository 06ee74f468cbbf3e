//! Tuning of what one end sends: the sizes that tell messages apart, the amount under way, the
//! length of chunks, and what is copied together. Pure.
//!
//! Every number by which a message's way is chosen is here, or was agreed on with the peer
//! ([`EagerTerms`](crate::frames::eager_terms::EagerTerms)). `route` chooses.
//!
//! Where processors move the bytes, one of them sends, and another receives and unpacks. They work
//! at the same time only on different chunks. So a message of middling size is cut into several,
//! and what was just received is unpacked from the cache. A hardware plugin moves bytes by itself,
//! a GPU unpacks whatever has arrived in one go, and each request costs: chunks stay whole.

use crate::plans::piece_cursor::Gathering;
use crate::types::MemoryType;

/// Messages up to this size are short.
const SHORT_BYTES: u64 = 64 << 10;
/// Bytes of a section, unless a chunk has more: a long message takes one frame for each.
const SECTION_BYTES: u64 = 4 << 20;
/// A plan costs as much as it does to copy this many bytes, besides its own.
const PLAN_BYTES: u64 = 16 << 10;
/// Chunks are cut no shorter than that: about there a request costs a tenth of the copies.
const SHORTEST_BYTES: u32 = 64 << 10;
/// Chunks of a message that is cut, unless they would be too short or too long.
const CHUNKS: u64 = 4;
/// Messages up to this size are cut into two chunks. With four, one of 256 KiB of a GPU takes a
/// quarter longer (measured; docs/benchmarks/2026-11-29-gpu-shared.md).
const HALVED_BYTES: u64 = 256 << 10;
/// Most bytes of a chunk that short messages of a GPU share, where its engine copies chunks to the
/// CPU's memory. With 512 KiB, eight of 64 KiB take 14 to 20 % longer (measured;
/// docs/benchmarks/2026-11-30-gpu-settings.md).
const COPIED_BYTES: u32 = 256 << 10;
/// A chunk may be this many times shorter than the agreed size.
const MOST_CUTS: u32 = 8;
const PAGE_BYTES: u64 = 4096;
/// Bytes of a chunk on the link: whole pages. With its header it is one segment of the loopback: if
/// it were a little longer, each would cost a tiny one more.
const LINK_CHUNK_BYTES: u64 = 60 << 10;
/// A chunk on the link is as long as this many where the kernel takes all of it at once: fewer
/// system calls, and more of it is read to its place.
const LONG_LINK_CHUNK: u64 = 16;
/// Divisor of the chunk length that gives the shortest chunk to send where the kernel takes less
/// than a chunk. Such a chunk may have to be copied. It makes the kernel say when it takes more.
const SHORT_LINK_CHUNK: u64 = 4;
/// Longest segment that the CPU copies: about there the copy costs what a request of its own does.
const CPU_SEGMENT_BYTES: u64 = 16 << 10;
/// Fewest segments that the CPU copies together.
const CPU_SEGMENTS: usize = 2;
/// Fewest segments that a GPU copies together: a launch takes as long as that many requests do
/// (measured; docs/benchmarks/2026-11-21-cuda.md).
const GPU_SEGMENTS: usize = 12;

/// Processor that copies small messages and pieces together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copier {
    /// By the CPU.
    Cpu,
    /// A kernel that takes any number of pieces.
    Gpu,
}

/// The numbers by which one end sends.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Most bytes of a chunk, as both ends agreed.
    pub chunk_bytes: u32,
    /// Most bytes of a chunk that short messages of device memory share, one behind the other.
    pub shared_device_chunk: u32,
    /// Least bytes of the chunks of a message that is cut into several.
    pub shortest_chunk: u32,
    /// Most bytes of them.
    pub longest_chunk: u32,
    /// Bytes of a chunk on the link, at least 1, where the kernel takes about as much at once.
    pub link_chunk_bytes: u64,
    /// Messages up to this size are short.
    pub short_bytes: u64,
    /// Whole chunks that are scheduled of a long message at once. Messages up to this size are
    /// medium.
    pub section_bytes: u64,
    /// Once this many bytes of medium and long messages are under way, no more are scheduled.
    pub ahead_bytes: u64,
    /// Cost of a plan, besides its bytes.
    pub plan_bytes: u64,
    /// Gathering of host memory; `None`: nothing is gathered.
    pub host: Option<Gathering>,
    /// Gathering of device memory; `None`: nothing is gathered.
    pub device: Option<Gathering>,
}

impl Tuning {
    /// Makes a tuning of whole chunks of this size. This many of them are always under way if there
    /// are any. Nothing is gathered.
    pub fn new(chunk_bytes: u32, chunks_ahead: u64) -> Self {
        let chunk = u64::from(chunk_bytes.max(1));
        Self {
            chunk_bytes,
            shared_device_chunk: chunk_bytes,
            shortest_chunk: chunk_bytes,
            longest_chunk: chunk_bytes,
            link_chunk_bytes: LINK_CHUNK_BYTES,
            short_bytes: SHORT_BYTES,
            section_bytes: (SECTION_BYTES / chunk).max(1) * chunk,
            ahead_bytes: chunk.saturating_mul(chunks_ahead),
            plan_bytes: PLAN_BYTES,
            host: None,
            device: None,
        }
    }

    /// Returns the same tuning with messages of a few chunks cut into more.
    pub fn pipelined(self) -> Self {
        let Self { chunk_bytes, .. } = self;
        let shortest_chunk = shortest_chunk(chunk_bytes).max(SHORTEST_BYTES).min(chunk_bytes);
        let longest_chunk = (chunk_bytes / 2).max(shortest_chunk);
        Self { shortest_chunk, longest_chunk, ..self }
    }

    /// Returns the same tuning for device memory that a GPU copies to the CPU's chunk by chunk:
    /// while one is sent, the next is copied.
    pub fn copied_by_gpu(self) -> Self {
        Self { shared_device_chunk: self.chunk_bytes.min(COPIED_BYTES), ..self }
    }

    /// Returns the same tuning with short pieces copied together: of host memory by the CPU, of
    /// device memory by the given copier, if that can do it quickly enough.
    pub fn gathering(self, device: Option<Copier>) -> Self {
        let by = |copier| gathering(copier, self.chunk_bytes);
        Self { host: Some(by(Copier::Cpu)), device: device.map(by), ..self }
    }

    /// Returns the gathering of this kind of memory, if any.
    pub(in super::super) fn gathered(&self, memory: MemoryType) -> Option<Gathering> {
        match memory {
            MemoryType::Host => self.host,
            MemoryType::Device => self.device,
        }
    }

    /// Returns the most bytes of a chunk that messages share which lie one behind the other, if the
    /// first is as long as this.
    pub(super) fn shared_chunk(&self, memory: MemoryType, message_bytes: u64) -> u64 {
        match memory {
            MemoryType::Device if message_bytes <= self.short_bytes => self.shared_device_chunk,
            MemoryType::Device | MemoryType::Host => self.chunk_bytes,
        }
        .into()
    }

    /// Returns the number of bytes of each chunk, but for the last, of a message that costs this
    /// much to have under way. A long message has enough chunks for all channels without cutting.
    /// Where channels `are_busy` with others, one that would be cut into many and fits into a chunk
    /// stays whole (measured; docs/benchmarks/2026-11-30-gpu-batches.md).
    pub(super) fn chunk_bytes_of(&self, message_bytes: u64, cost: u64, are_busy: bool) -> u32 {
        if message_bytes <= u64::from(self.shortest_chunk) || cost > self.section_bytes {
            return self.chunk_bytes;
        }
        let chunks = match message_bytes {
            ..=HALVED_BYTES => 2,
            _ if are_busy && message_bytes <= self.chunk_bytes.into() => return self.chunk_bytes,
            _ => CHUNKS,
        };
        let share = message_bytes.div_ceil(chunks).next_multiple_of(PAGE_BYTES);
        let [shortest, longest] = [self.shortest_chunk, self.longest_chunk];
        u32::try_from(share).map_or(longest, |share| share.clamp(shortest, longest))
    }

    /// Returns the number of bytes of the next chunk on the link where the kernel takes `room`
    /// bytes at once.
    pub(in super::super) fn link_chunk(&self, room: u64) -> u64 {
        let least = self.link_chunk_bytes.div_ceil(SHORT_LINK_CHUNK);
        match room / self.link_chunk_bytes {
            0 => room.max(least),
            chunks => chunks.min(LONG_LINK_CHUNK) * self.link_chunk_bytes,
        }
    }
}

/// Returns the shortest chunks into which a peer may cut a message.
pub(in super::super) fn shortest_chunk(chunk_bytes: u32) -> u32 {
    chunk_bytes.div_ceil(MOST_CUTS)
}

/// Segments are so short that those of a full chunk are always worth it: what is gathered never
/// falls apart for want of room.
fn gathering(copier: Copier, chunk_bytes: u32) -> Gathering {
    let (segments, longest) = match copier {
        Copier::Cpu => (CPU_SEGMENTS, CPU_SEGMENT_BYTES),
        Copier::Gpu => (GPU_SEGMENTS, u64::MAX),
    };
    let share = u64::from(chunk_bytes) / segments as u64;
    Gathering { segment_bytes: longest.min(share), segments }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::MAX_LINK_CHUNK_BYTES;

    const KIB: u64 = 1 << 10;

    #[test]
    fn a_section_is_some_whole_chunks() {
        for chunk_bytes in [4096, 65_536, 524_288, 524_287, 3 << 20, 4 << 20, 64 << 20] {
            let tuning = Tuning::new(chunk_bytes, 24);
            let chunk = u64::from(chunk_bytes);
            assert!(tuning.section_bytes.is_multiple_of(chunk) && tuning.section_bytes >= chunk);
            assert!(tuning.section_bytes <= SECTION_BYTES.max(chunk), "{chunk_bytes}");
            assert_eq!(tuning.ahead_bytes, 24 * chunk, "{chunk_bytes}");
        }
    }

    #[test]
    fn messages_of_middling_size_are_cut_into_several_chunks() {
        let tuning = Tuning::new(512 << 10, 1).pipelined();
        let cut = |bytes| tuning.chunk_bytes_of(bytes, bytes, false);
        for (message, chunk) in [(1, 512), (64, 512), (65, 64), (128, 64), (192, 96), (256, 128)] {
            assert_eq!(u64::from(cut(message * KIB)), chunk * KIB, "{message}");
        }
        for (message, chunk) in [(257, 68), (512, 128), (1024, 256), (4096, 256)] {
            assert_eq!(u64::from(cut(message * KIB)), chunk * KIB, "{message}");
        }
        assert_eq!(cut(600_000), 151_552, "whole pages");
        assert_eq!(cut((4 << 20) + 1), 512 << 10, "it is scheduled in sections");
        assert_eq!(tuning.chunk_bytes_of(1 << 20, 5 << 20, false), 512 << 10, "so is this one");
    }

    #[test]
    fn behind_others_messages_of_a_chunk_are_not_cut_into_four() {
        let tuning = Tuning::new(512 << 10, 1).pipelined();
        for (message, chunk) in [(64, 512), (65, 64), (256, 128), (257, 512), (512, 512)] {
            assert_eq!(u64::from(tuning.chunk_bytes_of(message * KIB, 0, true)), chunk * KIB);
        }
        for message in [513, 1024, 4096, 5000] {
            let [alone, behind] =
                [false, true].map(|are_busy| tuning.chunk_bytes_of(message * KIB, 0, are_busy));
            assert_eq!(alone, behind, "{message}");
        }
    }

    #[test]
    fn short_chunks_are_not_cut_and_none_is_longer_than_agreed() {
        for agreed in [1, 4096, 16 << 10, 64 << 10, 100_000, 1 << 20, 4 << 20] {
            for bytes in [1, 5000, 70_000, 600_000, 4 << 20] {
                for are_busy in [false, true] {
                    let tuning = Tuning::new(agreed, 1);
                    assert_eq!(tuning.chunk_bytes_of(bytes, 0, are_busy), agreed);
                    let chunk = tuning.pipelined().chunk_bytes_of(bytes, 0, are_busy);
                    let is_right = (shortest_chunk(agreed)..=agreed).contains(&chunk)
                        && (u64::from(agreed) > 64 * KIB || chunk == agreed);
                    assert!(is_right, "{agreed}: {chunk}");
                }
            }
        }
    }

    #[test]
    fn chunks_on_the_link_are_as_long_as_the_kernel_takes_but_not_tiny() {
        let tuning = Tuning::new(512 << 10, 1);
        let kib = |room: u64| tuning.link_chunk(room << 10) >> 10;
        assert_eq!([0, 1, 15, 16, 59].map(kib), [15, 15, 15, 16, 59]);
        assert_eq!([60, 119, 120, 959, 960, 1 << 30].map(kib), [60, 60, 120, 900, 960, 960]);
        assert_eq!(tuning.link_chunk(u64::MAX), MAX_LINK_CHUNK_BYTES.into());
        assert_eq!(Tuning { link_chunk_bytes: 1, ..tuning }.link_chunk(0), 1);
    }
}
