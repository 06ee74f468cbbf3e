//! Offsets of the messages of one iteration, or of the ranges of an operation, in the registration.

use tcpx_core::{MemoryId, Post};

use super::plan::Batch;

/// Returns one message of `bytes` bytes.
pub(super) fn whole(memory: MemoryId, bytes: u64) -> Vec<Post> {
    large(memory, bytes, bytes)
}

/// Returns the same bytes in messages of `message_bytes`, one behind the other. The last message
/// may be shorter.
pub(super) fn large(memory: MemoryId, bytes: u64, message_bytes: u64) -> Vec<Post> {
    (0i64..)
        .zip((0..bytes).step_by(usize::try_from(message_bytes).unwrap_or(usize::MAX)))
        .map(|(tag, offset)| Post { memory, offset, bytes: message_bytes.min(bytes - offset), tag })
        .collect()
}

/// Returns the messages of a batch, `message_bytes` each.
pub(super) fn small(memory: MemoryId, batch: Batch, message_bytes: u64) -> Vec<Post> {
    let slots = slots(batch.messages.into(), batch.is_scattered);
    let post = |(tag, slot)| {
        let offset = slot * message_bytes;
        Post { memory, offset, bytes: message_bytes, tag }
    };
    (0i64..).zip(slots).map(post).collect()
}

/// Returns `count` neighbouring slots in the order in which they are used.
pub(super) fn slots(count: u64, is_scattered: bool) -> impl Iterator<Item = u64> {
    let step = if is_scattered { scattering_step(count) } else { 1 };
    (0..count).map(move |index| index * step % count)
}

/// Returns a step that reaches each of `count` slots once and never goes from a slot to the next,
/// if there is one.
fn scattering_step(count: u64) -> u64 {
    let golden = count * 5 / 8;
    (golden..count).find(|step| *step > 1 && gcd(*step, count) == 1).unwrap_or(1)
}

fn gcd(left: u64, right: u64) -> u64 {
    if right == 0 { left } else { gcd(right, left % right) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> MemoryId {
        MemoryId::new(7).unwrap()
    }

    #[test]
    fn every_layout_covers_the_bytes_once() {
        for messages in [1, 2, 3, 5, 8, 1000, 100_000] {
            let scattered = small(memory(), Batch { messages, is_scattered: true }, 3);
            let adjacent = small(memory(), Batch { messages, is_scattered: false }, 3);
            for posts in [scattered, adjacent, large(memory(), u64::from(messages) * 3, 10)] {
                let mut offsets: Vec<(u64, u64)> =
                    posts.iter().map(|post| (post.offset, post.bytes)).collect();
                offsets.sort_unstable();
                let end = offsets.iter().fold(0, |end, (offset, bytes)| {
                    assert_eq!(*offset, end);
                    offset + bytes
                });
                assert_eq!(end, u64::from(messages) * 3);
            }
        }
    }

    #[test]
    fn scattered_neighbours_lie_apart() {
        for messages in [5, 8, 128, 100_000] {
            let posts = small(memory(), Batch { messages, is_scattered: true }, 10);
            assert!(posts.windows(2).all(|pair| pair[0].offset + 10 != pair[1].offset));
        }
    }

    #[test]
    fn large_messages_end_with_what_is_left() {
        let bytes: Vec<u64> =
            large(memory(), 1_100_000, 524_288).iter().map(|post| post.bytes).collect();
        assert_eq!(bytes, [524_288, 524_288, 51_424]);
        assert_eq!(whole(memory(), 5).len(), 1);
    }
}
