//! Pattern of the payload: bytes that both ends compute from a seed, different in each iteration.

/// Bytes of one iteration. They are computed eight at a time, at any offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    seed: u64,
}

/// Bytes that a buffer is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The pattern itself.
    Sent,
    /// Bytes that all differ from the pattern: one that is still there was never received.
    Poison,
}

/// First byte that differs from the sent one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
// The destination was filled with the complement before the receive was posted.
#[error(
    "byte {offset} is {found:#04x}, but {expected:#04x} was sent{}",
    if *.found == !.expected { " (it was never written)" } else { "" }
)]
pub(super) struct Mismatch {
    pub(super) offset: u64,
    pub(super) expected: u8,
    pub(super) found: u8,
}

impl Pattern {
    /// Returns the pattern of message number `message` in a run with `seed`.
    pub(super) fn new(seed: u64, message: u64) -> Self {
        Self { seed: mix(seed ^ mix(message)) }
    }

    /// Writes the bytes from `offset` on, a multiple of 8.
    pub(super) fn write(self, content: Content, offset: u64, out: &mut [u8]) {
        debug_assert_eq!(offset % 8, 0);
        let word = |index| match content {
            Content::Sent => self.word(index),
            Content::Poison => !self.word(index),
        };
        for (index, bytes) in (offset / 8..).zip(out.chunks_mut(8)) {
            bytes.copy_from_slice(&word(index).to_le_bytes()[..bytes.len()]);
        }
    }

    fn word(self, index: u64) -> u64 {
        mix(self.seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Returns the first received byte that differs from the pattern. The received bytes are those
    /// from `offset` on, a multiple of 8.
    pub(super) fn check(self, offset: u64, received: &[u8]) -> Option<Mismatch> {
        (offset / 8..).zip(received.chunks(8)).find_map(|(index, found)| {
            let word = self.word(index);
            // A call for each comparison of bytes would be most of a run's time.
            if <[u8; 8]>::try_from(found).is_ok_and(|found| u64::from_le_bytes(found) == word) {
                return None;
            }
            let expected = word.to_le_bytes();
            let at = found.iter().zip(expected).position(|(found, expected)| *found != expected)?;
            let offset = index * 8 + at as u64;
            Some(Mismatch { offset, expected: expected[at], found: found[at] })
        })
    }
}

/// The output function of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn iterations_and_seeds_differ_everywhere_that_matters() {
        let bytes = |pattern: Pattern| {
            let mut out = vec![0; 4096];
            pattern.write(Content::Sent, 0, &mut out);
            out
        };
        let first = bytes(Pattern::new(1, 0));
        for other in [Pattern::new(1, 1), Pattern::new(2, 0)] {
            let same = first.iter().zip(bytes(other)).filter(|(a, b)| *a == b).count();
            assert!(same < 64, "{same} of 4096 bytes are the same");
        }
    }

    #[test]
    fn words_are_those_of_splitmix64() {
        // The generator's published first outputs for the seed 1234567.
        let (mut state, mut words) = (1_234_567u64, Vec::new());
        for _ in 0..3 {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            words.push(mix(state));
        }
        assert_eq!(
            words,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    proptest! {
        #[test]
        fn any_part_equals_the_whole(seed: u64, words in 0u64..64, bytes in 0usize..200) {
            let pattern = Pattern::new(seed, 3);
            let mut whole = vec![0; 1024];
            pattern.write(Content::Sent, 0, &mut whole);
            let mut part = vec![0; bytes];
            pattern.write(Content::Sent, words * 8, &mut part);
            let start = (words * 8) as usize;
            prop_assert_eq!(&part[..], &whole[start..start + bytes]);
        }

        #[test]
        fn one_wrong_byte_is_found_and_named(at in 0usize..1000, flip in 1u8..) {
            let pattern = Pattern::new(7, 9);
            let mut received = vec![0; 1000];
            pattern.write(Content::Sent, 16, &mut received);
            prop_assert_eq!(pattern.check(16, &received), None);
            let expected = received[at];
            received[at] ^= flip;
            let mismatch = pattern.check(16, &received).unwrap();
            let found = received[at];
            prop_assert_eq!(mismatch, Mismatch { offset: 16 + at as u64, expected, found });
        }

        #[test]
        fn poison_differs_in_every_byte(bytes in 1usize..100) {
            let pattern = Pattern::new(5, 5);
            let (mut sent, mut poison) = (vec![0; bytes], vec![0; bytes]);
            pattern.write(Content::Sent, 0, &mut sent);
            pattern.write(Content::Poison, 0, &mut poison);
            prop_assert!(sent.iter().zip(&poison).all(|(sent, poison)| sent != poison));
        }
    }
}
