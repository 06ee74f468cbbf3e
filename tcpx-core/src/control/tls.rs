//! Exchange of keys on an encrypted link: TLS 1.3, whose bytes travel in frames of the handshake.
//!
//! TLS serves for the handshake only. When it is done, both ends take secrets out of it, and the
//! link goes on in records of [`tcpx_protocol::frames::records`], as the data channels do.
//!
//! - [`session_key`]: key pair of a session, whose hash is the session's id.
//! - [`raw_keys`]: checks of the other end's key, where the ends have no certificates.
//! - [`certificates`]: certificate and authorities from files, where both ends have them.
//! - [`certificate_dates`]: time in which a certificate is valid.
//! - [`provider`]: ciphers and key exchange.

pub(crate) mod certificate_dates;
mod certificates;
mod provider;
mod raw_keys;
pub(crate) mod session_key;

use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use rustls::{
    ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection,
    SupportedCipherSuite,
};
use tcpx_protocol::frames::conn_info::SessionId;
use tcpx_protocol::frames::hello::{Hello, Nonce};
use tcpx_protocol::frames::records::LinkKeys;
use tcpx_protocol::types::encryption::Credential;
use tcpx_protocol::types::memory::Device;
use tcpx_seal::secret::{SharedSecret, TrafficSecret};
use tcpx_seal::suite::Suite;
use tcpx_sys::without_forks;
use zeroize::Zeroizing;

use self::certificates::{Certificates, name_of};
use self::raw_keys::{AnyKey, PinnedKey};
use self::session_key::{SessionKey, session_of};
use crate::error::{CertificateProblem, EncryptionProblem, Result as CoreResult};
use crate::settings::SessionOptions;

/// Most bytes that the other end may say in a handshake: chains of certificates are shorter.
const MAX_HANDSHAKE_BYTES: usize = 64 << 10;

/// Secrets and findings of a handshake that is done.
#[derive(Debug)]
pub(crate) struct LinkSecrets {
    /// Secrets of the records of the link.
    pub(crate) keys: LinkKeys,
    /// Value that the connector's hello answers in place of the listener's nonce.
    pub(crate) nonce: Nonce,
    /// Secret of both ends for their channels. It never crosses the network.
    pub(crate) channels: SharedSecret,
    /// What the other end has proven itself with.
    pub(crate) peer: PeerCredential,
}

/// Means by which a session proves itself to its peers. All its devices share them.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    /// Key pair whose hash is the session's id.
    key: SessionKey,
    /// Certificate in place of the key, and authorities for those of peers.
    certificates: Option<Arc<Certificates>>,
}

/// What the other end of a link has proven that it has the private key of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeerCredential {
    /// The key of the session with this id.
    SessionKey(SessionId),
    /// This certificate, which an authority of this end has issued.
    Certificate(CertificateDer<'static>),
}

impl Credentials {
    /// Makes those of a new session.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting): the files of certificates cannot be used;
    /// [`Error::Io`](crate::Error::Io): the system has no random bytes.
    pub(crate) fn new(options: &SessionOptions) -> CoreResult<Self> {
        let certificates = Certificates::load(options)?.map(Arc::new);
        Ok(Self { key: SessionKey::generate()?, certificates })
    }

    /// Returns the id of the session.
    pub(crate) fn session(&self) -> SessionId {
        self.key.session()
    }

    /// Returns which of them serves on encrypted links.
    pub(crate) fn kind(&self) -> Credential {
        match self.certificates {
            Some(_) => Credential::Certificate,
            None => Credential::SessionKey,
        }
    }
}

impl PeerCredential {
    /// Checks that a connector is what its hello says.
    ///
    /// # Errors
    /// Its key is that of another session, or its certificate is for other names.
    pub(crate) fn check(&self, hello: &Hello) -> Result<(), EncryptionProblem> {
        match self {
            Self::SessionKey(session) if *session == Device::Host.session_of(hello.session) => {
                Ok(())
            }
            Self::SessionKey(_) => Err(EncryptionProblem::OtherSession),
            Self::Certificate(_) if hello.name.is_empty() => {
                Err(EncryptionProblem::Certificate(CertificateProblem::NoName))
            }
            Self::Certificate(certificate) => {
                let certificate = ParsedCertificate::try_from(certificate)?;
                Ok(verify_server_name(&certificate, &name_of(&hello.name)?)?)
            }
        }
    }
}

/// One end of a handshake. Pure: bytes in, bytes out.
#[derive(Debug)]
pub(crate) struct TlsHandshake {
    connection: Connection,
    credential: Credential,
    bytes_read: usize,
}

/// Begins a handshake with an end that has proven the secret.
pub(crate) fn listen(credentials: &Credentials) -> Result<TlsHandshake, EncryptionProblem> {
    let config = match &credentials.certificates {
        Some(certificates) => certificates.configs().listener,
        None => {
            let config = ServerConfig::builder_with_provider(provider::provider())
                .with_protocol_versions(provider::VERSIONS)?
                .with_client_cert_verifier(Arc::new(AnyKey))
                .with_cert_resolver(credentials.key.for_listener());
            Arc::new(provider::listener_without_resumption(config))
        }
    };
    let connection = without_forks(|| ServerConnection::new(config))?;
    Ok(TlsHandshake::of(connection.into(), credentials))
}

/// Begins a handshake with this session. With certificates the listener's must be for `peer`, the
/// peer's name.
pub(crate) fn connect(
    credentials: &Credentials,
    session: SessionId,
    peer: &str,
) -> Result<TlsHandshake, EncryptionProblem> {
    let (config, name) = match &credentials.certificates {
        Some(certificates) => (certificates.configs().connector, name_of(peer)?),
        None => {
            let config = ClientConfig::builder_with_provider(provider::provider())
                .with_protocol_versions(provider::VERSIONS)?
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(PinnedKey::of(session)))
                .with_client_cert_resolver(credentials.key.for_connector());
            // The key is checked in place of a name.
            (Arc::new(provider::connector_without_resumption(config)), name_of("tcpx")?)
        }
    };
    let connection = without_forks(|| ClientConnection::new(config, name))?;
    Ok(TlsHandshake::of(connection.into(), credentials))
}

impl TlsHandshake {
    fn of(connection: Connection, credentials: &Credentials) -> Self {
        Self { connection, credential: credentials.kind(), bytes_read: 0 }
    }

    /// Takes what the other end has said.
    ///
    /// # Errors
    /// The other end is not the right one, or does not speak TLS 1.3 as this end does. There may be
    /// [output](Self::take_output) that says so.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> Result<(), EncryptionProblem> {
        self.bytes_read += bytes.len();
        if self.bytes_read > MAX_HANDSHAKE_BYTES {
            return Err(EncryptionProblem::handshake("it says too much"));
        }
        while !bytes.is_empty() {
            // Reads from memory.
            let taken = self.connection.read_tls(&mut bytes);
            if taken.is_err() || taken.is_ok_and(|taken| taken == 0) {
                return Err(EncryptionProblem::handshake("it goes on behind its end"));
            }
            without_forks(|| self.connection.process_new_packets())?;
        }
        Ok(())
    }

    /// Returns what this end has to say.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        // Writing to memory does not fail.
        while self.connection.wants_write() && self.connection.write_tls(&mut output).is_ok() {}
        output
    }

    /// Returns whether both ends have proven themselves. A connector does not know yet
    /// whether the listener has taken its key.
    pub(crate) fn is_done(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// Returns the secrets of a handshake that is done.
    ///
    /// # Errors
    /// It is not done, or the other end has shown no key.
    pub(crate) fn finish(self) -> Result<LinkSecrets, EncryptionProblem> {
        let secret = |label: &str| -> Result<Zeroizing<[u8; 32]>, rustls::Error> {
            let out = Zeroizing::new([0; 32]);
            self.connection.export_keying_material(out, label.as_bytes(), None)
        };
        let suite = match self.connection.negotiated_cipher_suite() {
            Some(suite) => suite_of(suite)?,
            None => return Err(EncryptionProblem::handshake("it has chosen no cipher")),
        };
        let keys = self.connection.peer_certificates().unwrap_or_default();
        let [key, ..] = keys else {
            return Err(EncryptionProblem::handshake("it has shown no key"));
        };
        Ok(LinkSecrets {
            keys: LinkKeys {
                suite,
                by_connector: TrafficSecret::new(*secret("EXPORTER-tcpx records of connector")?),
                by_listener: TrafficSecret::new(*secret("EXPORTER-tcpx records of listener")?),
            },
            nonce: *secret("EXPORTER-tcpx hello of connector")?,
            channels: SharedSecret::new(*secret("EXPORTER-tcpx channels")?),
            peer: match self.credential {
                Credential::Certificate => PeerCredential::Certificate(key.clone().into_owned()),
                _ => PeerCredential::SessionKey(session_of(key)),
            },
        })
    }
}

/// Returns the cipher of records that a cipher of TLS stands for.
fn suite_of(suite: SupportedCipherSuite) -> Result<Suite, EncryptionProblem> {
    use rustls::CipherSuite::{TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256};
    match suite.suite() {
        TLS13_AES_256_GCM_SHA384 => Ok(Suite::Aes256Gcm),
        TLS13_CHACHA20_POLY1305_SHA256 => Ok(Suite::ChaCha20Poly1305),
        _ => Err(EncryptionProblem::handshake("it has chosen another cipher")),
    }
}

#[cfg(test)]
mod certificate_tests;
#[cfg(test)]
mod tests;
