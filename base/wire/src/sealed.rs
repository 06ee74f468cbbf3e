//! Sealed envelopes: bytes that name their own format and detect damage.
//!
//! | bytes | field |
//! |---|---|
//! | 0–7 | magic: what the bytes are |
//! | 8–9 | version of the body's format, u16, little-endian |
//! | 10–11 | length of the body, n, u16, little-endian |
//! | 12–(11 + n) | body |
//! | the last 8 | the first 8 bytes of the SHA-256 of everything before |
//!
//! The digest detects truncation and damage. It does not authenticate the author of the bytes.
//!
//! ```
//! use tcpx_wire::sealed::{Envelope, SealError};
//!
//! const NOTE: Envelope = Envelope { magic: *b"EXAMPLES", version: 1 };
//!
//! let mut bytes = NOTE.seal(b"hello");
//! assert_eq!(NOTE.open(&bytes), Ok(&b"hello"[..]));
//!
//! bytes[13] ^= 1;
//! assert_eq!(NOTE.open(&bytes), Err(SealError::Digest));
//! ```

use sha2::{Digest, Sha256};

/// Bytes before the body.
pub const HEADER_BYTES: usize = 12;
/// Bytes behind the body.
pub const DIGEST_BYTES: usize = 8;
/// Longest body, in bytes.
pub const MAX_BODY_BYTES: usize = u16::MAX as usize;

/// Reason why bytes cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// Fewer bytes than announced.
    #[error("truncated: {have} bytes of {need}")]
    Truncated {
        /// Bytes given.
        have: usize,
        /// Bytes needed at least.
        need: usize,
    },
    /// More bytes than announced.
    #[error("{extra} bytes too many")]
    Trailing {
        /// Bytes past the end.
        extra: usize,
    },
    /// Bytes of another format.
    #[error("the bytes begin with another magic number")]
    Magic,
    /// Body format of another version.
    #[error("format version {found}, this end reads {supported}")]
    Version {
        /// Version found in the bytes.
        found: u16,
        /// Version that this envelope reads.
        supported: u16,
    },
    /// Digest mismatch: bits changed on the way.
    #[error("damaged on the way: the checksum does not match")]
    Digest,
}

/// Kind of sealed bytes. Make it a constant, one for each format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Magic number of the format: its first eight bytes.
    pub magic: [u8; 8],
    /// Version of the body's format. Only this version is opened.
    pub version: u16,
}

impl Envelope {
    /// Puts a header and a digest around a body.
    ///
    /// A body has at most [`MAX_BODY_BYTES`]. The header cannot express a longer length: opening
    /// such bytes returns [`SealError::Trailing`].
    #[must_use]
    pub fn seal(&self, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len() + DIGEST_BYTES);
        bytes.extend_from_slice(&self.magic);
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&u16::try_from(body.len()).unwrap_or(u16::MAX).to_le_bytes());
        bytes.extend_from_slice(body);
        let digest = digest(&bytes);
        bytes.extend_from_slice(&digest);
        bytes
    }

    /// Returns the body in `bytes`, which may come from any source.
    ///
    /// # Errors
    /// Returns the first [`SealError`] that applies. The order of checks: a complete header, the
    /// magic, the version, the length, the digest.
    pub fn open<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], SealError> {
        let have = bytes.len();
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(SealError::Truncated { have, need: HEADER_BYTES + DIGEST_BYTES });
        };
        let [magic @ .., v0, v1, l0, l1] = *header;
        if magic != self.magic {
            return Err(SealError::Magic);
        }
        let found = u16::from_le_bytes([v0, v1]);
        if found != self.version {
            return Err(SealError::Version { found, supported: self.version });
        }
        let signed = HEADER_BYTES + usize::from(u16::from_le_bytes([l0, l1]));
        let need = signed + DIGEST_BYTES;
        if have > need {
            return Err(SealError::Trailing { extra: have - need });
        }
        let Some((body, seal)) = rest.split_last_chunk().filter(|_| have == need) else {
            return Err(SealError::Truncated { have, need });
        };
        if digest(&bytes[..signed]) != *seal {
            return Err(SealError::Digest);
        }
        Ok(body)
    }
}

fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    let whole: [u8; 32] = Sha256::digest(bytes).into();
    std::array::from_fn(|index| whole[index])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SAMPLE: Envelope = Envelope { magic: *b"TCPXTEST", version: 3 };

    fn any_body() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..60)
    }

    #[test]
    fn the_bytes_are_laid_out_as_documented() {
        let bytes = SAMPLE.seal(b"hello");
        assert_eq!(bytes[..17], *b"TCPXTEST\x03\0\x05\0hello");
        // Computed with `printf 'TCPXTEST\3\0\5\0hello' | sha256sum`.
        assert_eq!(bytes[17..], 0xb79a_6bf2_8347_b2be_u64.to_be_bytes());
    }

    #[test]
    fn each_fault_is_named() {
        use SealError as E;
        let bytes = SAMPLE.seal(b"hello");
        assert_eq!(SAMPLE.open(b""), Err(E::Truncated { have: 0, need: 20 }));
        assert_eq!(SAMPLE.open(&bytes[..24]), Err(E::Truncated { have: 24, need: 25 }));
        assert_eq!(SAMPLE.open(&[&bytes[..], b"xy"].concat()), Err(E::Trailing { extra: 2 }));
        assert_eq!(SAMPLE.open(b"GET / HTTP/1.1\r\n\r\n"), Err(E::Magic));
        let newer = Envelope { version: 4, ..SAMPLE };
        assert_eq!(newer.open(&bytes), Err(E::Version { found: 3, supported: 4 }));
    }

    #[test]
    fn a_body_past_the_longest_is_not_opened() {
        let longest = SAMPLE.seal(&[7; MAX_BODY_BYTES]);
        assert_eq!(SAMPLE.open(&longest).map(<[u8]>::len), Ok(MAX_BODY_BYTES));
        let longer = SAMPLE.seal(&[7; MAX_BODY_BYTES + 1]);
        assert_eq!(SAMPLE.open(&longer), Err(SealError::Trailing { extra: 1 }));
    }

    proptest! {
        #[test]
        fn a_sealed_body_is_opened(magic: [u8; 8], version: u16, body in any_body()) {
            let envelope = Envelope { magic, version };
            let bytes = envelope.seal(&body);
            prop_assert_eq!(envelope.open(&bytes), Ok(&body[..]));
        }

        #[test]
        fn every_truncation_is_named(body in any_body()) {
            let bytes = SAMPLE.seal(&body);
            for have in 0..bytes.len() {
                let need = if have < HEADER_BYTES { 20 } else { bytes.len() };
                prop_assert_eq!(
                    SAMPLE.open(&bytes[..have]),
                    Err(SealError::Truncated { have, need })
                );
            }
        }

        #[test]
        fn every_flipped_bit_is_an_error(body in any_body()) {
            let bytes = SAMPLE.seal(&body);
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let error = SAMPLE.open(&damaged).unwrap_err();
                let is_named = match bit / 8 {
                    0..8 => error == SealError::Magic,
                    8..10 => matches!(error, SealError::Version { supported: 3, .. }),
                    10..12 => {
                        matches!(error, SealError::Truncated { .. } | SealError::Trailing { .. })
                    }
                    _ => error == SealError::Digest,
                };
                prop_assert!(is_named, "bit {}: {:?}", bit, error);
            }
        }

        #[test]
        fn arbitrary_bytes_are_survived(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
            begin in 0usize..=HEADER_BYTES,
        ) {
            let mut bytes = bytes;
            let real = SAMPLE.seal(&[]);
            for (place, byte) in bytes.iter_mut().zip(&real[..begin]) {
                *place = *byte;
            }
            prop_assert!(SAMPLE.open(&bytes).is_err());
        }
    }
}
