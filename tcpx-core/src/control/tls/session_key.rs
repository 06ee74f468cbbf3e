//! Key pair of a session. The session's id is the first bytes of a hash of its public key, so the
//! id pins the key.

use std::fmt;
use std::io;
use std::sync::Arc;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, ResolvesClientCert};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, alg_id};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ResolvesServerCert};
use rustls::sign::{CertifiedKey, Signer, SigningKey, public_key_to_spki};
use rustls::{SignatureAlgorithm, SignatureScheme};
use sha2::{Digest, Sha256};
use tcpx_protocol::frames::conn_info::SessionId;
use tcpx_protocol::types::memory::Device;
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// Length of the seed that the private half of a key pair is made from.
const SEED_BYTES: usize = 32;

/// Key pair of a session, which all its devices share. It lives as long as the session, is never
/// written anywhere, and its private half is overwritten at the end.
#[derive(Clone)]
pub(crate) struct SessionKey {
    certified: Arc<CertifiedKey>,
    session: SessionId,
}

impl SessionKey {
    /// Makes the key pair of a new session, of the system's random bytes. The generator of AWS-LC
    /// would take 35 ms of a processor for its first ones, in every process with a session.
    ///
    /// # Errors
    /// [`Error::Io`] when the system has no random bytes.
    pub(crate) fn generate() -> Result<Self> {
        let mut seed = Zeroizing::new([0; SEED_BYTES]);
        getrandom::fill(seed.as_mut())
            .map_err(|error| Error::io("reading random bytes", &io::Error::from(error)))?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&*seed).map_err(|_| {
            Error::io("making the key pair of a session", &io::ErrorKind::Other.into())
        })?;
        let public = public_key_to_spki(&alg_id::ED25519, pair.public_key()).into_owned();
        let session = session_of(&public);
        let shown = CertificateDer::from(public.to_vec());
        let key = Arc::new(Ed25519Key { pair: Arc::new(pair), public });
        Ok(Self { certified: Arc::new(CertifiedKey::new(vec![shown], key)), session })
    }

    /// Returns the id of the session.
    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    /// Returns what shows the key as a listener's.
    pub(super) fn for_listener(&self) -> Arc<dyn ResolvesServerCert> {
        Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&self.certified)))
    }

    /// Returns what shows the key as a connector's.
    pub(super) fn for_connector(&self) -> Arc<dyn ResolvesClientCert> {
        Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&self.certified)))
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(…)")
    }
}

/// Returns the id of the session with this public key. Its device is the host.
pub(super) fn session_of(public_key: &[u8]) -> SessionId {
    let hash = Sha256::digest(public_key);
    let mut id = SessionId::default();
    id.iter_mut().zip(hash).for_each(|(byte, hashed)| *byte = hashed);
    Device::Host.session_of(id)
}

struct Ed25519Key {
    pair: Arc<Ed25519KeyPair>,
    public: SubjectPublicKeyInfoDer<'static>,
}

impl SigningKey for Ed25519Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let is_offered = offered.contains(&SignatureScheme::ED25519);
        is_offered.then(|| Box::new(Ed25519Signer(Arc::clone(&self.pair))) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(self.public.as_ref()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl fmt::Debug for Ed25519Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ed25519Key(…)")
    }
}

struct Ed25519Signer(Arc<Ed25519KeyPair>);

impl Signer for Ed25519Signer {
    fn sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, rustls::Error> {
        let signature = self.0.try_sign(message);
        let signature = signature.map_err(|_| rustls::Error::General("signing failed".into()))?;
        Ok(signature.as_ref().to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

impl fmt::Debug for Ed25519Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ed25519Signer(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_sessions_have_one_key_and_none_is_shown() {
        let [one, other] = [(); 2].map(|()| SessionKey::generate().unwrap());
        assert_ne!(one.session(), other.session());
        assert_eq!(Device::of_session(&one.session()), Device::Host);
        assert_eq!(format!("{one:?}"), "SessionKey(…)");
        let key = &one.certified.key;
        assert_eq!(format!("{key:?}"), "Ed25519Key(…)");
        assert!(key.choose_scheme(&[SignatureScheme::RSA_PSS_SHA256]).is_none());
        let signer = key.choose_scheme(&[SignatureScheme::ED25519]).unwrap();
        assert_eq!(format!("{signer:?}"), "Ed25519Signer(…)");
    }
}
