//! What makes a key impossible to guess.

use std::fmt;
use std::hint::black_box;

/// 16 bytes that only holders of the key know.
///
/// Comparing two takes the same time wherever they differ, so that nobody learns of one byte by
/// byte from how long a wrong one took.
#[derive(Clone, Copy)]
pub struct ExportSecret([u8; Self::BYTES]);

impl ExportSecret {
    /// Bytes of a secret.
    pub const BYTES: usize = 16;

    /// Makes a secret of these bytes.
    pub fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns it as it travels.
    pub fn to_wire(self) -> [u8; Self::BYTES] {
        self.0
    }
}

impl PartialEq for ExportSecret {
    fn eq(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        // The optimiser does not see that the rest is of no interest after the first difference.
        pairs.fold(0, |differences, (a, b)| black_box(differences | (a ^ b))) == 0
    }
}

impl Eq for ExportSecret {}

impl fmt::Debug for ExportSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExportSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_stays_out_of_logs() {
        assert_eq!(format!("{:?}", ExportSecret::new([0x41; 16])), "ExportSecret(…)");
    }

    #[test]
    fn every_bit_counts() {
        let secret = ExportSecret::new(std::array::from_fn(|at| at as u8));
        assert_eq!(secret, ExportSecret::new(secret.to_wire()));
        for bit in 0..ExportSecret::BYTES * 8 {
            let mut other = secret.to_wire();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(secret, ExportSecret::new(other), "bit {bit}");
        }
    }

    proptest! {
        #[test]
        fn it_equals_what_has_the_same_bytes_only(a: [u8; 16], b: [u8; 16]) {
            prop_assert_eq!(ExportSecret::new(a) == ExportSecret::new(b), a == b);
        }
    }
}
