//! Pattern of bytes that depend on their message and on their offset there.

use serde::{Deserialize, Serialize};

/// Bytes of a word of the pattern.
const WORD_BYTES: usize = 8;

/// First byte that differs from the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mismatch {
    /// Offset in the message.
    pub at: u64,
    /// The byte that was sent.
    pub expected: u8,
    /// The byte that arrived.
    pub got: u8,
}

/// Returns the word at `index`: a hash of message and index, so that neither a shifted nor a stale
/// word passes.
fn word(seed: u64, index: usize) -> [u8; WORD_BYTES] {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)).to_le_bytes()
}

/// Writes the pattern of `seed`.
pub(crate) fn fill(bytes: &mut [u8], seed: u64) {
    for (index, piece) in bytes.chunks_mut(WORD_BYTES).enumerate() {
        piece.copy_from_slice(&word(seed, index)[..piece.len()]);
    }
}

/// Returns the first byte that differs from the pattern of `seed`.
pub(crate) fn verify(bytes: &[u8], seed: u64) -> Option<Mismatch> {
    let (index, piece) = bytes
        .chunks(WORD_BYTES)
        .enumerate()
        .find(|(index, piece)| **piece != word(seed, *index)[..piece.len()])?;
    let wanted = word(seed, index);
    let (offset, got) = piece.iter().copied().enumerate().find(|(i, byte)| *byte != wanted[*i])?;
    Some(Mismatch { at: (index * WORD_BYTES + offset) as u64, expected: wanted[offset], got })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_byte_is_found_where_it_is() {
        for bytes in [1, 7, 8, 9, 4097] {
            let mut message = vec![0; bytes];
            fill(&mut message, 5);
            assert_eq!(verify(&message, 5), None);
            for at in [0, bytes / 2, bytes - 1] {
                message[at] ^= 0x10;
                let found = verify(&message, 5).expect("found");
                assert_eq!((found.at, found.expected ^ found.got), (at as u64, 0x10));
                message[at] ^= 0x10;
            }
        }
    }

    #[test]
    fn another_message_and_a_shifted_message_do_not_pass() {
        let mut message = vec![0; 4096];
        fill(&mut message, 1);
        assert!(verify(&message, 2).is_some());
        assert!(verify(&message[8..], 1).is_some());
        assert!(verify(&[0; 64], 1).is_some());
    }
}
