//! Exchange of keys on an encrypted link: TLS 1.3, whose bytes travel in frames of the handshake.
//!
//! TLS serves for the handshake only. When it is done, both ends take secrets out of it, and the
//! link goes on in records of [`tcpx_protocol::frames::records`], as the data channels do.
//!
//! - [`session_key`]: key pair of a session, whose hash is the session's id.
//! - [`raw_keys`]: checks of the other end's key, where the ends have no certificates.
//! - [`provider`]: ciphers and key exchange.

mod provider;
mod raw_keys;
pub(crate) mod session_key;

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::server::NoServerSessionStorage;
use rustls::{
    ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection,
    SupportedCipherSuite,
};
use tcpx_protocol::frames::conn_info::SessionId;
use tcpx_protocol::frames::hello::Nonce;
use tcpx_protocol::frames::records::LinkKeys;
use tcpx_seal::secret::{SharedSecret, TrafficSecret};
use tcpx_seal::suite::Suite;
use zeroize::Zeroizing;

use self::raw_keys::{AnyKey, PinnedKey};
use self::session_key::{SessionKey, session_of};
use crate::error::EncryptionProblem;

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
    /// Id of the session whose key the other end has.
    pub(crate) session: SessionId,
}

/// One end of a handshake. Pure: bytes in, bytes out.
#[derive(Debug)]
pub(crate) struct TlsHandshake {
    connection: Connection,
    bytes_read: usize,
}

/// Begins a handshake with an end that has proven the secret.
pub(crate) fn listen(key: &SessionKey) -> Result<TlsHandshake, EncryptionProblem> {
    let mut config = ServerConfig::builder_with_provider(provider::provider())
        .with_protocol_versions(provider::VERSIONS)?
        .with_client_cert_verifier(Arc::new(AnyKey))
        .with_cert_resolver(key.for_listener());
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsHandshake::of(ServerConnection::new(Arc::new(config))?.into()))
}

/// Begins a handshake with the session of this id.
pub(crate) fn connect(
    key: &SessionKey,
    session: SessionId,
) -> Result<TlsHandshake, EncryptionProblem> {
    let mut config = ClientConfig::builder_with_provider(provider::provider())
        .with_protocol_versions(provider::VERSIONS)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedKey::of(session)))
        .with_client_cert_resolver(key.for_connector());
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    // The name is not sent, and the key is checked in place of it.
    let name = ServerName::try_from("tcpx").map_err(|_| EncryptionProblem::handshake("no name"))?;
    Ok(TlsHandshake::of(ClientConnection::new(Arc::new(config), name)?.into()))
}

impl TlsHandshake {
    fn of(connection: Connection) -> Self {
        Self { connection, bytes_read: 0 }
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
            self.connection.process_new_packets()?;
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
            session: session_of(key),
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
mod tests;
