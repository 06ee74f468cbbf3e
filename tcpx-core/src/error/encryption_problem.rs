//! Reasons why the link to a peer cannot be encrypted, though it must be.

use rustls::CertificateError;
use tcpx_protocol::types::encryption::EncryptionMismatch;

/// Why the link to a peer cannot be encrypted, though it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncryptionProblem {
    /// The settings of the two ends do not fit.
    #[error(transparent)]
    Mismatch(#[from] EncryptionMismatch),
    /// The other end has another key than the session that the connection info leads to.
    #[error(
        "the key of the other end is not the one that its connection info pins: another session \
         listens there, or an attacker on the way"
    )]
    WrongKey,
    /// The exchange of keys failed otherwise.
    #[error("the exchange of keys failed: {0}")]
    Handshake(String),
}

impl EncryptionProblem {
    pub(crate) fn handshake(why: impl Into<String>) -> Self {
        Self::Handshake(why.into())
    }
}

impl From<rustls::Error> for EncryptionProblem {
    fn from(error: rustls::Error) -> Self {
        use rustls::Error::InvalidCertificate;
        match error {
            InvalidCertificate(CertificateError::ApplicationVerificationFailure) => Self::WrongKey,
            other => Self::Handshake(other.to_string()),
        }
    }
}
