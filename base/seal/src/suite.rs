//! Ciphers of records.

use aws_lc_rs::aead::{AES_256_GCM, Algorithm, CHACHA20_POLY1305};

/// Cipher of a record. Both have keys of 32 bytes, nonces of 12, and tags of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// AES-256 in Galois/Counter Mode: the faster one where the processor has instructions for it.
    Aes256Gcm,
    /// ChaCha20 with Poly1305: the faster one elsewhere, and never slowed by a missing instruction.
    ChaCha20Poly1305,
}

impl Suite {
    /// Returns the faster cipher of this processor.
    #[must_use]
    pub fn fastest() -> Self {
        if has_aes() { Self::Aes256Gcm } else { Self::ChaCha20Poly1305 }
    }

    /// Returns the cipher of two ends, which each have said their [fastest](Self::fastest): AES
    /// only if both have instructions for it.
    #[must_use]
    pub fn of_both(self, theirs: Self) -> Self {
        if self == theirs { self } else { Self::ChaCha20Poly1305 }
    }

    /// Returns the name of the cipher for a log line, as TLS has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes256Gcm => "AES-256-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }

    pub(crate) fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

/// Returns whether the processor has instructions for AES and for the multiplication of its MAC.
#[cfg(target_arch = "x86_64")]
fn has_aes() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
}

/// Returns whether the processor has instructions for AES and for the multiplication of its MAC.
#[cfg(target_arch = "aarch64")]
fn has_aes() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull")
}

/// Returns false: this processor's instructions are not known.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_aes() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aes_is_taken_only_where_both_have_it() {
        let (aes, chacha) = (Suite::Aes256Gcm, Suite::ChaCha20Poly1305);
        assert_eq!(aes.of_both(aes), aes);
        assert_eq!(aes.of_both(chacha), chacha);
        assert_eq!(chacha.of_both(aes), chacha);
        assert_eq!(chacha.of_both(chacha), chacha);
    }
}
