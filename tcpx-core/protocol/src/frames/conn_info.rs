//! Connection info: what one session must know to reach another, in a sealed envelope.
//!
//! The envelope's digest finds damage and proves no origin. The secret in the body is what the two
//! ends prove to each other, so the bytes are as confidential as a password.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use tcpx_wire::sealed::Envelope;
use zeroize::Zeroize;

use crate::error::ConnInfoError;
use crate::types::encryption::{Credential, Encryption};

/// The envelope of every connection info. Its body is a [`ConnInfo`] in postcard.
pub const ENVELOPE: Envelope = Envelope { magic: *b"TCPXINFO", version: 3 };
/// Addresses one session may advertise.
const MAX_ADDRESSES: usize = 32;

/// The id of a session: the first bytes of a hash of its public key, and the number of its device.
pub type SessionId = [u8; 16];

/// 32 random bytes that only holders of the connection info know.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub [u8; 32]);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Connection info that `listen` gives out. Any number of peers may use it, any number of times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnInfo {
    /// The session's id.
    pub session: SessionId,
    /// Secret that both ends prove that they know.
    pub secret: Secret,
    /// What the session says of its encryption. An attacker on the way cannot change it, as these
    /// bytes are what a peer trusts.
    pub encryption: Encryption,
    /// Means by which the session proves itself on an encrypted link.
    pub credential: Credential,
    /// Addresses of the session's control listener, most promising first.
    pub addresses: Vec<SocketAddr>,
}

impl ConnInfo {
    /// Returns the bytes to give to peers.
    pub fn encode(&self) -> Vec<u8> {
        // Serialising these plain types cannot fail; `decode` would refuse an empty body.
        ENVELOPE.seal(&postcard::to_allocvec(self).unwrap_or_default())
    }

    /// Reads bytes that [`encode`](Self::encode) made. They may come from anywhere.
    pub fn decode(bytes: &[u8]) -> Result<Self, ConnInfoError> {
        let (info, rest) = postcard::take_from_bytes::<Self>(ENVELOPE.open(bytes)?)
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

    /// Returns the addresses without their ports.
    pub fn ips(&self) -> Vec<IpAddr> {
        self.addresses.iter().map(|address| address.ip().to_canonical()).collect()
    }

    /// Keeps as many addresses as the format allows, the first ones.
    pub fn limit_addresses(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        addresses.truncate(MAX_ADDRESSES);
        addresses
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tcpx_testkit::dropped::{Remains, assert_not_shown};

    use super::*;

    fn sample() -> ConnInfo {
        ConnInfo {
            session: [7; 16],
            secret: Secret([9; 32]),
            encryption: Encryption::Require,
            credential: Credential::Certificate,
            addresses: vec!["10.0.0.1:4000".parse().unwrap(), "127.0.0.1:4000".parse().unwrap()],
        }
    }

    #[test]
    fn the_secret_is_zeroed_and_never_shown() {
        const SECRET: [u8; 32] = *b"secret in connection info, 32 b.";
        Remains::of(Secret(SECRET)).assert_zeroed(&SECRET);
        let info = ConnInfo { secret: Secret(SECRET), ..sample() };
        let decoded = ConnInfo::decode(&info.encode()).expect("own bytes");
        assert_not_shown(&format!("{info:?} {decoded:#?}"), &SECRET);
        Remains::of(info).assert_zeroed(&SECRET);
        Remains::of(decoded).assert_zeroed(&SECRET);
    }

    #[test]
    fn round_trip() {
        let info = sample();
        let bytes = info.encode();
        assert!(bytes.len() < 512, "programs have buffers of 1024 bytes for it");
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
            Err(ConnInfoError::Version { found: 9, supported: 3 })
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
            let bytes = ENVELOPE.seal(&body);
            let _ = ConnInfo::decode(&bytes);
        }
    }
}
