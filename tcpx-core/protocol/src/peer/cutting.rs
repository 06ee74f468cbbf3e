//! How long the chunks of a message are. The sender decides, and says so with its match. Pure.
//!
//! Where processors move the bytes, one of them sends, and another receives and unpacks. They work
//! at the same time only on different chunks, so a message of middling size is cut into several,
//! and what was just received is unpacked from the cache. A hardware plugin moves bytes by itself,
//! a GPU unpacks whatever has arrived in one go, and each request costs: chunks stay whole.

/// Chunks are cut no shorter than that: about there a request costs a tenth of the copies.
const SHORTEST_BYTES: u32 = 64 << 10;
/// Chunks of a message that is cut, unless they would be too short or too long.
const CHUNKS: u64 = 4;
/// A chunk may be so many times shorter than the agreed size.
const MOST_CUTS: u32 = 8;
const PAGE_BYTES: u64 = 4096;

/// How one end cuts what it sends.
#[derive(Clone, Copy, Debug)]
pub struct Cutting {
    /// As both ends agreed.
    pub chunk_bytes: u32,
    /// Least bytes of the chunks of a message that is cut.
    pub shortest: u32,
    /// Most bytes of them.
    pub longest: u32,
}

impl Cutting {
    /// Every chunk is as long as it may be.
    pub fn whole(chunk_bytes: u32) -> Self {
        Self { chunk_bytes, shortest: chunk_bytes, longest: chunk_bytes }
    }

    /// Messages of a few chunks are cut into more.
    pub fn pipelined(chunk_bytes: u32) -> Self {
        let shortest = shortest_chunk(chunk_bytes).max(SHORTEST_BYTES).min(chunk_bytes);
        Self { chunk_bytes, shortest, longest: (chunk_bytes / 2).max(shortest) }
    }

    /// Bytes of each chunk, but for the last, of a message that is dealt as a whole.
    pub(super) fn chunk_bytes(&self, message_bytes: u64) -> u32 {
        if message_bytes <= u64::from(self.shortest) {
            return self.chunk_bytes;
        }
        let share = message_bytes.div_ceil(CHUNKS).next_multiple_of(PAGE_BYTES);
        u32::try_from(share).map_or(self.longest, |share| share.clamp(self.shortest, self.longest))
    }
}

/// The shortest chunks into which a peer may cut a message.
pub(super) fn shortest_chunk(chunk_bytes: u32) -> u32 {
    chunk_bytes.div_ceil(MOST_CUTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn messages_of_middling_size_are_cut_into_several_chunks() {
        let cutting = Cutting::pipelined(512 << 10);
        for (message, chunk) in
            [(1, 512), (64, 512), (65, 64), (128, 64), (512, 128), (1024, 256), (4096, 256)]
        {
            assert_eq!(u64::from(cutting.chunk_bytes(message * KIB)), chunk * KIB, "{message}");
        }
        assert_eq!(cutting.chunk_bytes(600_000), 151_552, "whole pages");
        assert_eq!(cutting.chunk_bytes(u64::MAX / 2), 256 << 10);
    }

    #[test]
    fn short_chunks_are_not_cut_and_none_is_longer_than_agreed() {
        for agreed in [1, 4096, 16 << 10, 64 << 10, 100_000, 1 << 20, 4 << 20] {
            for bytes in [1, 5000, 70_000, 600_000, 4 << 20] {
                assert_eq!(Cutting::whole(agreed).chunk_bytes(bytes), agreed);
                let chunk = Cutting::pipelined(agreed).chunk_bytes(bytes);
                assert!((shortest_chunk(agreed)..=agreed).contains(&chunk), "{agreed}: {chunk}");
                assert!(u64::from(agreed) > 64 * KIB || chunk == agreed, "{agreed}: {chunk}");
            }
        }
    }
}
