//! How a transfer is cut into chunks and dealt to channels. Pure; both ends compute the same.

/// The chunks of one message that travel on one channel, in order: `first`, `first + step`, …
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stripe<K> {
    /// The operation they belong to.
    pub(crate) op: K,
    next_chunk: u64,
    step: u64,
    chunk_bytes: u64,
    message_bytes: u64,
}

/// One chunk of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk<K> {
    pub(crate) op: K,
    /// Byte offset in the message.
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
}

impl<K: Copy> Stripe<K> {
    /// The next chunk of this channel, without taking it.
    pub(crate) fn peek(&self) -> Option<Chunk<K>> {
        let offset = self.next_chunk.checked_mul(self.chunk_bytes)?;
        let rest = self.message_bytes.checked_sub(offset).filter(|rest| *rest > 0)?;
        // At most `chunk_bytes`, which came in as u32.
        Some(Chunk { op: self.op, offset, bytes: rest.min(self.chunk_bytes) as u32 })
    }

    /// Steps to the chunk after the one `peek` shows.
    pub(crate) fn advance(&mut self) {
        self.next_chunk += self.step;
    }
}

/// Chunks of a message of `message_bytes`; 0 for an empty one, which travels on the control link alone.
pub(crate) fn chunk_count(message_bytes: u64, chunk_bytes: u32) -> u64 {
    message_bytes.div_ceil(u64::from(chunk_bytes))
}

/// Deals the chunks of a message round robin, the first one to `first_channel`. Yields (channel, deal) for each channel
/// that gets any.
pub(crate) fn deal<K: Copy>(
    op: K,
    message_bytes: u64,
    chunk_bytes: u32,
    first_channel: u16,
    channels: u16,
) -> impl Iterator<Item = (u16, Stripe<K>)> {
    let used = chunk_count(message_bytes, chunk_bytes).min(u64::from(channels)) as u16;
    (0..used).map(move |turn| {
        let channel = ((u32::from(first_channel) + u32::from(turn)) % u32::from(channels)) as u16;
        let deal = Stripe {
            op,
            next_chunk: u64::from(turn),
            step: u64::from(channels),
            chunk_bytes: u64::from(chunk_bytes),
            message_bytes,
        };
        (channel, deal)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn chunks_cover_the_message_once(
            bytes in 0u64..5_000_000, chunk_bytes in 1u32..600_000, channels in 1u16..9, first in 0u16..9,
        ) {
            prop_assume!(chunk_count(bytes, chunk_bytes) < 10_000);
            let first = first % channels;
            let mut chunks = Vec::new();
            for (channel, mut deal) in deal((), bytes, chunk_bytes, first, channels) {
                prop_assert!(channel < channels);
                let mut turn = (u64::from(channel) + u64::from(channels) - u64::from(first)) % u64::from(channels);
                while let Some(chunk) = deal.peek() {
                    prop_assert_eq!(chunk.offset, turn * u64::from(chunk_bytes), "round robin");
                    turn += u64::from(channels);
                    chunks.push((chunk.offset, chunk.bytes));
                    deal.advance();
                }
            }
            chunks.sort_unstable();
            prop_assert_eq!(chunks.len() as u64, chunk_count(bytes, chunk_bytes));
            let mut at = 0;
            for (offset, bytes) in chunks {
                prop_assert_eq!(offset, at);
                prop_assert!(bytes > 0 && bytes <= chunk_bytes);
                at += u64::from(bytes);
            }
            prop_assert_eq!(at, bytes);
        }
    }

    #[test]
    fn huge_messages_do_not_overflow() {
        let (_, mut last) = deal((), u64::MAX, 4096, 0, 1).next().unwrap();
        last.next_chunk = u64::MAX / 4096;
        assert_eq!(last.peek().map(|chunk| chunk.bytes), Some(4095));
        last.advance();
        assert_eq!(last.peek(), None);
    }
}
