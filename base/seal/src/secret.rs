//! Secrets, which are zeroed when they are dropped and are never shown.

use std::fmt;

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use zeroize::Zeroizing;

/// Length of every secret, and of every proof, in bytes.
pub const SECRET_BYTES: usize = 32;

/// Secret of one direction of one connection. The keys of its records come from it.
pub struct TrafficSecret(Zeroizing<[u8; SECRET_BYTES]>);

impl TrafficSecret {
    /// Takes a secret. No other direction of any connection may have it.
    #[must_use]
    pub fn new(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Fills `out` with what a label derives from the secret, as TLS 1.3 does (RFC 8446, 7.1:
    /// HKDF-Expand-Label with SHA-256 and no context).
    pub(crate) fn expand(&self, label: &str, out: &mut [u8]) {
        let name = format!("tls13 {label}");
        // Labels of this crate have a few bytes, and no output has more than a secret.
        let length = (out.len() as u16).to_be_bytes();
        expand(&self.0, &[&length, &[name.len() as u8], name.as_bytes(), &[0]], out);
    }

    /// Replaces the secret by the next one, as a key update of TLS 1.3 does. The old one cannot be
    /// found from the new one.
    pub(crate) fn renew(&mut self) {
        let mut next = Zeroizing::new([0; SECRET_BYTES]);
        self.expand("traffic upd", next.as_mut());
        self.0 = next;
    }
}

impl fmt::Debug for TrafficSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrafficSecret(…)")
    }
}

/// Secret that two ends have in common, and that never crosses the network.
#[derive(Clone)]
pub struct SharedSecret(Zeroizing<[u8; SECRET_BYTES]>);

impl SharedSecret {
    /// Takes a secret of both ends.
    #[must_use]
    pub fn new(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Returns the secret that is derived from this one for a purpose: a label, and bytes that
    /// tell one use from every other.
    #[must_use]
    pub fn derive(&self, label: &str, context: &[u8]) -> Self {
        let mut derived = Self(Zeroizing::new([0; SECRET_BYTES]));
        expand(&self.0, &[label.as_bytes(), context], derived.0.as_mut());
        derived
    }

    /// Returns the bytes, for a caller that hands them to another library in this process.
    #[must_use]
    pub fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    /// Returns the proof that its maker has the secret and says `said`.
    #[must_use]
    pub fn proof(&self, label: &str, said: &[u8]) -> [u8; SECRET_BYTES] {
        let key = hmac::Key::new(HMAC_SHA256, self.0.as_ref());
        let mut context = hmac::Context::with_key(&key);
        context.update(label.as_bytes());
        context.update(said);
        let mut proof = [0; SECRET_BYTES];
        proof.copy_from_slice(context.sign().as_ref());
        proof
    }

    /// Checks a proof, in a time that does not depend on where it differs.
    #[must_use]
    pub fn verify(&self, label: &str, said: &[u8], proof: &[u8; SECRET_BYTES]) -> bool {
        let ours = self.proof(label, said);
        aws_lc_rs::constant_time::verify_slices_are_equal(&ours, proof).is_ok()
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret(…)")
    }
}

/// Length of an output of the key derivation.
struct OutputLength(usize);

impl KeyType for OutputLength {
    fn len(&self) -> usize {
        self.0
    }
}

/// Fills `out` with HKDF-Expand of a secret. `out` has at most 8,160 bytes, so the derivation
/// cannot fail; if it does, the result is a secret that no other end has, and never zeros.
pub(crate) fn expand(secret: &[u8; SECRET_BYTES], info: &[&[u8]], out: &mut [u8]) {
    let prk = Prk::new_less_safe(HKDF_SHA256, secret);
    let derived = prk.expand(info, OutputLength(out.len()));
    if derived.and_then(|derived| derived.fill(out)).is_err() {
        let _ = aws_lc_rs::rand::fill(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The info of RFC 8446, written out; HKDF-Expand of it is one HMAC.
    #[test]
    fn labels_are_those_of_tls() {
        let secret = TrafficSecret::new([0x0b; 32]);
        let mut key = [0; 32];
        secret.expand("key", &mut key);
        let info = b"\x00\x20\x09tls13 key\x00\x01";
        let by_hand = hmac::sign(&hmac::Key::new(HMAC_SHA256, &[0x0b; 32]), info);
        assert_eq!(key, by_hand.as_ref());
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown =
            format!("{:?} {:?}", TrafficSecret::new([0xab; 32]), SharedSecret::new([0xcd; 32]));
        assert_eq!(shown, "TrafficSecret(…) SharedSecret(…)");
    }

    #[test]
    fn a_proof_holds_for_one_secret_label_and_text() {
        let secret = SharedSecret::new([1; 32]);
        let proof = secret.proof("a", b"text");
        assert!(secret.verify("a", b"text", &proof));
        assert!(!secret.verify("b", b"text", &proof));
        assert!(!secret.verify("a", b"texs", &proof));
        assert!(!SharedSecret::new([2; 32]).verify("a", b"text", &proof));
        assert!(!secret.derive("a", b"").verify("a", b"text", &proof));
    }

    #[test]
    fn derived_secrets_differ_by_label_and_context() {
        let secret = SharedSecret::new([1; 32]);
        let one = secret.derive("comm", b"1");
        assert_eq!(one.bytes(), secret.derive("comm", b"1").bytes());
        assert_ne!(one.bytes(), secret.derive("comm", b"2").bytes());
        assert_ne!(one.bytes(), secret.derive("link", b"1").bytes());
    }
}
