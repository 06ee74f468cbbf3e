//! Connection info: what one session must know to reach another, as framed and versioned bytes.
//!
//! Layout: magic `TCPXINFO`, format version (u16 LE), body length (u16 LE), body (postcard), and the first 8 bytes of
//! the SHA-256 of all of that. The digest finds truncation and damage; it is no proof of origin: the secret in the
//! body is what the two ends prove to each other, so the bytes are as confidential as a password.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::conn_info::ConnInfoError;

const MAGIC: &[u8; 8] = b"TCPXINFO";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 12;
const DIGEST_BYTES: usize = 8;
/// Addresses one session may advertise.
const MAX_ADDRESSES: usize = 32;

/// 32 random bytes that only holders of the connection info know.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Secret(pub(crate) [u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What `listen` gives out. Any number of peers may use it, any number of times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConnInfo {
    /// Random id of the session.
    pub(crate) session: [u8; 16],
    /// Proof of belonging together.
    pub(crate) secret: Secret,
    /// Where its control listener can be reached, most promising first.
    pub(crate) addresses: Vec<SocketAddr>,
}

impl ConnInfo {
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Serialising these plain types into a growing vector cannot fail; an empty body would be refused by `decode`.
        Self::seal(&postcard::to_allocvec(self).unwrap_or_default())
    }

    /// Puts header and digest around a body.
    pub(crate) fn seal(body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len() + DIGEST_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&u16::try_from(body.len()).unwrap_or(u16::MAX).to_le_bytes());
        bytes.extend_from_slice(body);
        let digest = Sha256::digest(&bytes);
        bytes.extend_from_slice(&digest[..DIGEST_BYTES]);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ConnInfoError> {
        let header = bytes.first_chunk::<HEADER_BYTES>().ok_or(ConnInfoError::Truncated {
            have: bytes.len(),
            need: HEADER_BYTES + DIGEST_BYTES,
        })?;
        if !header.starts_with(MAGIC) {
            return Err(ConnInfoError::Magic);
        }
        let version = u16::from_le_bytes([header[8], header[9]]);
        if version != VERSION {
            return Err(ConnInfoError::Version { found: version, supported: VERSION });
        }
        let body_end = HEADER_BYTES + usize::from(u16::from_le_bytes([header[10], header[11]]));
        let need = body_end + DIGEST_BYTES;
        if bytes.len() < need {
            return Err(ConnInfoError::Truncated { have: bytes.len(), need });
        }
        if bytes.len() > need {
            return Err(ConnInfoError::Trailing { extra: bytes.len() - need });
        }
        if Sha256::digest(&bytes[..body_end])[..DIGEST_BYTES] != bytes[body_end..] {
            return Err(ConnInfoError::Digest);
        }
        let (info, rest) = postcard::take_from_bytes::<Self>(&bytes[HEADER_BYTES..body_end])
            .map_err(|_| ConnInfoError::Body("the fields cannot be read"))?;
        if !rest.is_empty() {
            return Err(ConnInfoError::Body("bytes are left over"));
        }
        if info.addresses.is_empty() {
            return Err(ConnInfoError::Body("no address"));
        }
        if info.addresses.len() > MAX_ADDRESSES {
            return Err(ConnInfoError::Body("too many addresses"));
        }
        Ok(info)
    }

    /// Keeps what fits the format's limits, in order.
    pub(crate) fn limit_addresses(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        addresses.truncate(MAX_ADDRESSES);
        addresses
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> ConnInfo {
        ConnInfo {
            session: [7; 16],
            secret: Secret([9; 32]),
            addresses: vec!["10.0.0.1:4000".parse().unwrap(), "127.0.0.1:4000".parse().unwrap()],
        }
    }

    #[test]
    fn round_trip() {
        let info = sample();
        let bytes = info.encode();
        assert!(bytes.len() < 512, "the documents' programs read it into 1024 bytes");
        assert_eq!(ConnInfo::decode(&bytes), Ok(info));
    }

    #[test]
    fn secret_stays_out_of_logs() {
        assert!(format!("{:?}", sample()).contains("Secret(…)"));
    }

    #[test]
    fn every_truncation_is_an_error() {
        let bytes = sample().encode();
        for cut in 0..bytes.len() {
            assert!(ConnInfo::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn every_flipped_bit_is_an_error() {
        let bytes = sample().encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(ConnInfo::decode(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn another_version_names_both() {
        let mut bytes = sample().encode();
        bytes[8] = 9;
        assert_eq!(
            ConnInfo::decode(&bytes),
            Err(ConnInfoError::Version { found: 9, supported: VERSION })
        );
    }

    #[test]
    fn text_is_refused_as_something_else() {
        assert_eq!(
            ConnInfo::decode(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
            Err(ConnInfoError::Magic)
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = ConnInfo::decode(&bytes);
        }

        #[test]
        fn arbitrary_bodies_never_panic(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let bytes = ConnInfo::seal(&body);
            let _ = ConnInfo::decode(&bytes);
        }
    }
}
