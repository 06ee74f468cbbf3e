//! Exchange of the keys of one socket. Pure: bytes in, bytes out.
//!
//! Both ends have a [`SharedSecret`], which no byte on the network helps to find. The connector
//! says an [`Offer`], the listener answers with an [`Answer`]. Each holds a fresh X25519 key and a
//! proof of the secret, over all that was said before. A stranger costs the listener one MAC.
//!
//! The secrets of the two directions come from the shared secret, from what the two fresh keys
//! agree on, and from all that was said. So no two sockets have the same keys, not even where one
//! end repeats what it said before, and who learns the shared secret later reads nothing.

use aws_lc_rs::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use aws_lc_rs::digest::{self, SHA256};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::rand::SystemRandom;
use zeroize::Zeroizing;

use crate::record::{Opener, Sealer};
use crate::secret::{SECRET_BYTES, SharedSecret, TrafficSecret};
use crate::suite::Suite;

/// Length of a fresh key on the wire, in bytes.
const KEY_BYTES: usize = 32;

/// Reason why no keys are agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The other end does not have the secret, or did not say what has arrived.
    #[error("the other end does not prove that it has the secret of the connection")]
    Proof,
    /// Bytes that are no offer, or no answer.
    #[error("the other end says something else than a key")]
    Form,
    /// A key that agrees on nothing, or a system without random bytes.
    #[error("no key can be agreed on")]
    Key,
}

/// Keys of one end of a socket.
#[derive(Debug)]
pub struct SocketKeys {
    /// Cipher of both directions.
    pub suite: Suite,
    /// Maker of what this end sends.
    pub sealer: Sealer,
    /// Reader of what it receives.
    pub opener: Opener,
}

/// What a connector says of its keys.
pub struct Offer {
    bytes: [u8; Offer::BYTES],
    key: EphemeralPrivateKey,
    suite: Suite,
    secret: SharedSecret,
    /// What was said before the offer, and the offer.
    said: Vec<u8>,
}

impl Offer {
    /// Length of an offer: a cipher, a key and a proof.
    pub const BYTES: usize = 1 + KEY_BYTES + SECRET_BYTES;

    /// Makes an offer with a fresh key. `before` is what this end has said on the socket so far.
    ///
    /// # Errors
    /// [`ExchangeError::Key`] when the system has no random bytes.
    pub fn new(secret: &SharedSecret, suite: Suite, before: &[u8]) -> Result<Self, ExchangeError> {
        let (key, public) = fresh_key()?;
        let mut said = [before, &[code(suite)], &public].concat();
        let proof = secret.proof(OFFER, &said);
        said.extend_from_slice(&proof);
        let mut bytes = [0; Self::BYTES];
        bytes.copy_from_slice(&said[before.len()..]);
        Ok(Self { bytes, key, suite, secret: secret.clone(), said })
    }

    /// Returns what to send.
    #[must_use]
    pub fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.bytes
    }

    /// Returns the keys of this end, by the listener's answer. `before` is what the listener said
    /// on the socket ahead of the answer.
    ///
    /// # Errors
    /// The answer is not one to this offer by an end that has the secret.
    pub fn finish(
        self,
        before: &[u8],
        answer: &[u8; Answer::BYTES],
    ) -> Result<SocketKeys, ExchangeError> {
        let (suite, public, proof) = split(answer);
        let said = [&self.said, before, &answer[..=KEY_BYTES]].concat();
        if !self.secret.verify(ANSWER, &said, proof) {
            return Err(ExchangeError::Proof);
        }
        let suite = suite.ok_or(ExchangeError::Form)?;
        if suite != self.suite && suite != Suite::ChaCha20Poly1305 {
            return Err(ExchangeError::Form);
        }
        let [connector, listener] = traffic_secrets(self.key, public, &self.secret, &said)?;
        Ok(SocketKeys {
            suite,
            sealer: Sealer::new(suite, connector),
            opener: Opener::new(suite, listener),
        })
    }
}

impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offer").field("suite", &self.suite).finish_non_exhaustive()
    }
}

/// What a listener answers, with its keys.
#[derive(Debug)]
pub struct Answer {
    /// What to send.
    pub bytes: [u8; Answer::BYTES],
    /// Keys of the listener.
    pub keys: SocketKeys,
}

impl Answer {
    /// Length of an answer: a cipher, a key and a proof.
    pub const BYTES: usize = Offer::BYTES;

    /// Answers an offer. `suite` is the fastest of this end; `before` is what the connector said on
    /// the socket ahead of the offer, `between` what this end says ahead of the answer.
    ///
    /// # Errors
    /// The connector does not have the secret; then nothing but one MAC was computed.
    pub fn new(
        secret: &SharedSecret,
        suite: Suite,
        before: &[u8],
        offer: &[u8; Offer::BYTES],
        between: &[u8],
    ) -> Result<Self, ExchangeError> {
        let (theirs, public, proof) = split(offer);
        if !secret.verify(OFFER, &[before, &offer[..=KEY_BYTES]].concat(), proof) {
            return Err(ExchangeError::Proof);
        }
        let suite = suite.of_both(theirs.ok_or(ExchangeError::Form)?);
        let (key, own) = fresh_key()?;
        let said = [before, offer, between, &[code(suite)], &own].concat();
        let [connector, listener] = traffic_secrets(key, public, secret, &said)?;
        let mut bytes = [0; Self::BYTES];
        let (front, back) = bytes.split_at_mut(1 + KEY_BYTES);
        front.copy_from_slice(&said[said.len() - front.len()..]);
        back.copy_from_slice(&secret.proof(ANSWER, &said));
        let keys = SocketKeys {
            suite,
            sealer: Sealer::new(suite, listener),
            opener: Opener::new(suite, connector),
        };
        Ok(Self { bytes, keys })
    }
}

const OFFER: &str = "tcpx socket offer";
const ANSWER: &str = "tcpx socket answer";

fn fresh_key() -> Result<(EphemeralPrivateKey, [u8; KEY_BYTES]), ExchangeError> {
    let key = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new())
        .map_err(|_| ExchangeError::Key)?;
    let public = key.compute_public_key().map_err(|_| ExchangeError::Key)?;
    let public = public.as_ref().try_into().map_err(|_| ExchangeError::Key)?;
    Ok((key, public))
}

/// Returns the secrets of what the connector sends, and of what the listener sends.
fn traffic_secrets(
    own: EphemeralPrivateKey,
    theirs: &[u8; KEY_BYTES],
    secret: &SharedSecret,
    said: &[u8],
) -> Result<[TrafficSecret; 2], ExchangeError> {
    let transcript = digest::digest(&SHA256, said);
    let theirs = UnparsedPublicKey::new(&X25519, theirs);
    // A key that agrees on zeros is refused by the library.
    agree_ephemeral(own, theirs, ExchangeError::Key, |agreed| {
        let prk = Salt::new(HKDF_SHA256, secret.bytes()).extract(agreed);
        let derive = |label: &[u8]| {
            let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
            let info = [label, transcript.as_ref()];
            let derived = prk.expand(&info, HKDF_SHA256).map_err(|_| ExchangeError::Key)?;
            derived.fill(bytes.as_mut()).map_err(|_| ExchangeError::Key)?;
            Ok(TrafficSecret::new(*bytes))
        };
        Ok([derive(b"tcpx socket connector")?, derive(b"tcpx socket listener")?])
    })
}

fn code(suite: Suite) -> u8 {
    match suite {
        Suite::Aes256Gcm => 1,
        Suite::ChaCha20Poly1305 => 2,
    }
}

/// Returns cipher, key and proof of an offer or an answer.
fn split(bytes: &[u8; Offer::BYTES]) -> (Option<Suite>, &[u8; KEY_BYTES], &[u8; SECRET_BYTES]) {
    let [code, rest @ ..] = bytes;
    let suite = match code {
        1 => Some(Suite::Aes256Gcm),
        2 => Some(Suite::ChaCha20Poly1305),
        _ => None,
    };
    let (key, proof) = rest.split_at(KEY_BYTES);
    // The lengths are those of the type.
    (
        suite,
        key.try_into().unwrap_or(&[0; KEY_BYTES]),
        proof.try_into().unwrap_or(&[0; SECRET_BYTES]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &[u8] = b"hello of the connector";
    const REPLY: &[u8] = b"reply";

    fn secret() -> SharedSecret {
        SharedSecret::new([9; 32])
    }

    fn answer(offer: &Offer, suite: Suite) -> Answer {
        Answer::new(&secret(), suite, HELLO, offer.bytes(), REPLY).unwrap()
    }

    fn carries(from: &mut Sealer, to: &mut Opener) -> bool {
        let mut queue = Vec::new();
        from.seal(b"bytes", &mut queue).unwrap();
        let opened = to.open(&mut queue);
        opened.is_ok_and(|opened| opened.is_some_and(|it| &queue[it.plain] == b"bytes"))
    }

    #[test]
    fn both_ends_come_to_the_same_keys_and_each_direction_has_its_own() {
        for (ours, theirs, both) in [
            (Suite::Aes256Gcm, Suite::Aes256Gcm, Suite::Aes256Gcm),
            (Suite::Aes256Gcm, Suite::ChaCha20Poly1305, Suite::ChaCha20Poly1305),
            (Suite::ChaCha20Poly1305, Suite::Aes256Gcm, Suite::ChaCha20Poly1305),
        ] {
            let offer = Offer::new(&secret(), ours, HELLO).unwrap();
            let Answer { bytes, keys: mut listener } = answer(&offer, theirs);
            let mut connector = offer.finish(REPLY, &bytes).unwrap();
            assert_eq!((connector.suite, listener.suite), (both, both));
            assert!(carries(&mut connector.sealer, &mut listener.opener));
            assert!(carries(&mut listener.sealer, &mut connector.opener));
            assert!(!carries(&mut connector.sealer, &mut connector.opener));
        }
    }

    #[test]
    fn a_stranger_proves_nothing() {
        let stranger = SharedSecret::new([8; 32]);
        let offer = Offer::new(&stranger, Suite::fastest(), HELLO).unwrap();
        let refused = Answer::new(&secret(), Suite::fastest(), HELLO, offer.bytes(), REPLY);
        assert_eq!(refused.unwrap_err(), ExchangeError::Proof);
        let offer = Offer::new(&secret(), Suite::fastest(), HELLO).unwrap();
        let bytes = Answer::new(&stranger, Suite::fastest(), HELLO, offer.bytes(), REPLY);
        assert_eq!(bytes.unwrap_err(), ExchangeError::Proof);
    }

    #[test]
    fn every_flipped_bit_of_what_is_said_is_noticed() {
        for bit in 0..Offer::BYTES * 8 {
            let offer = Offer::new(&secret(), Suite::fastest(), HELLO).unwrap();
            let mut damaged = *offer.bytes();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Answer::new(&secret(), Suite::fastest(), HELLO, &damaged, REPLY).is_err());
            let mut damaged = answer(&offer, Suite::fastest()).bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(offer.finish(REPLY, &damaged).is_err(), "bit {bit}");
        }
        let offer = Offer::new(&secret(), Suite::fastest(), HELLO).unwrap();
        let other = Answer::new(&secret(), Suite::fastest(), b"hello", offer.bytes(), REPLY);
        assert_eq!(other.unwrap_err(), ExchangeError::Proof, "another hello");
        let bytes = answer(&offer, Suite::fastest()).bytes;
        assert_eq!(offer.finish(b"other", &bytes).unwrap_err(), ExchangeError::Proof);
    }

    #[test]
    fn an_offer_that_is_repeated_gets_other_keys() {
        let offer = Offer::new(&secret(), Suite::fastest(), HELLO).unwrap();
        let mut first = answer(&offer, Suite::fastest());
        let mut second = answer(&offer, Suite::fastest());
        assert!(!carries(&mut first.keys.sealer, &mut second.keys.opener));
        let mut connector = offer.finish(REPLY, &first.bytes).unwrap();
        // Yesterday's records, and yesterday's answer, are of no use.
        assert!(!carries(&mut second.keys.sealer, &mut connector.opener));
        assert!(carries(&mut connector.sealer, &mut first.keys.opener));
        let offer = Offer::new(&secret(), Suite::fastest(), HELLO).unwrap();
        assert_eq!(offer.finish(REPLY, &first.bytes).unwrap_err(), ExchangeError::Proof);
    }

    #[test]
    fn a_key_that_agrees_on_zeros_is_refused() {
        let said = [HELLO, &[1], &[0; KEY_BYTES]].concat();
        let mut bytes = [0; Offer::BYTES];
        bytes[0] = 1;
        bytes[1 + KEY_BYTES..].copy_from_slice(&secret().proof(OFFER, &said));
        let refused = Answer::new(&secret(), Suite::fastest(), HELLO, &bytes, REPLY);
        assert_eq!(refused.unwrap_err(), ExchangeError::Key);
    }
}
