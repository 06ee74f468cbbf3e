//! Whether everything that arrives consists of zeros.

/// First bytes of a chunk that are looked at.
pub(crate) const SAMPLE_BYTES: usize = 64;
/// Chunks, from the first one on, after which zeros alone are trouble.
const ZERO_CHUNKS: u32 = 16;

/// Looks at the first chunks of a lane, until it finds a byte that is not 0.
#[derive(Debug, Default)]
pub(crate) struct PayloadWatch {
    zeros: u32,
    is_over: bool,
}

impl PayloadWatch {
    /// Whether the next chunk is to be looked at.
    pub(crate) fn is_looking(&self) -> bool {
        !self.is_over && self.zeros < ZERO_CHUNKS
    }

    /// Looks at the first bytes of a chunk. Fewer than [`SAMPLE_BYTES`] zeros tell nothing.
    pub(crate) fn look(&mut self, bytes: &[u8]) {
        if bytes.iter().any(|byte| *byte != 0) {
            self.is_over = true;
        } else if bytes.len() == SAMPLE_BYTES {
            self.zeros += 1;
        }
    }

    /// Whether all of the first chunks were zeros.
    pub(crate) fn is_all_zero(&self) -> bool {
        !self.is_over && self.zeros >= ZERO_CHUNKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_from_the_first_chunk_on_are_noticed() {
        let mut watch = PayloadWatch::default();
        for _ in 0..ZERO_CHUNKS {
            assert!(watch.is_looking() && !watch.is_all_zero());
            watch.look(&[0; 8]);
            watch.look(&[0; SAMPLE_BYTES]);
        }
        assert!(watch.is_all_zero() && !watch.is_looking());
    }

    #[test]
    fn one_other_byte_ends_the_watch() {
        let mut watch = PayloadWatch::default();
        watch.look(&[0; SAMPLE_BYTES]);
        watch.look(&[0, 0, 1]);
        assert!(!watch.is_looking() && !watch.is_all_zero());
    }
}
