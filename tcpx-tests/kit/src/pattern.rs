//! Bytes that are a function of seed and position, so that a receiver can check each one without
//! having seen them.

use crate::random::mixed;

/// The eight bytes at position `8 * index` of the pattern of `seed`.
fn word(seed: u64, index: u64) -> [u8; 8] {
    let counter = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed(counter).to_le_bytes()
}

/// Fills `bytes` with the pattern from position `start`, which is a multiple of 8.
pub fn fill(seed: u64, start: u64, bytes: &mut [u8]) {
    for (piece, index) in bytes.chunks_mut(8).zip(start / 8..) {
        piece.copy_from_slice(&word(seed, index)[..piece.len()]);
    }
}

/// The first position in `bytes` that differs from the pattern from position `start`, a multiple of
/// 8.
#[must_use]
pub fn first_difference(seed: u64, start: u64, bytes: &[u8]) -> Option<usize> {
    for ((number, piece), index) in bytes.chunks(8).enumerate().zip(start / 8..) {
        let expected = word(seed, index);
        // Whole words first: a byte at a time is slow without optimisation.
        if *piece != expected[..piece.len()] {
            let is_same = |(found, expected): &(&u8, u8)| **found == *expected;
            return Some(number * 8 + piece.iter().zip(expected).take_while(is_same).count());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_changed_byte_is_found_wherever_it_is() {
        let mut bytes = [0; 1003];
        fill(7, 64, &mut bytes);
        assert_eq!(first_difference(7, 64, &bytes), None);
        assert_eq!(first_difference(8, 64, &bytes), Some(0));
        for at in [0, 1, 8, 500, 1002] {
            let mut damaged = bytes;
            damaged[at] ^= 0x40;
            assert_eq!(first_difference(7, 64, &damaged), Some(at));
        }
    }
}
