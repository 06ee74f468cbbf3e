//! Reasons why the link to a peer cannot be encrypted, though it must be.

use rustls::CertificateError;
use tcpx_protocol::types::encryption::{CredentialMismatch, EncryptionMismatch};

use super::certificate_problem::CertificateProblem;

/// Why the link to a peer cannot be encrypted, though it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncryptionProblem {
    /// The settings of the two ends do not fit.
    #[error(transparent)]
    Mismatch(#[from] EncryptionMismatch),
    /// One end has a certificate, and the other does not.
    #[error(transparent)]
    Credentials(#[from] CredentialMismatch),
    /// The certificate of the other end is not taken.
    #[error("the certificate of the other end is refused: {0}")]
    Certificate(CertificateProblem),
    /// The other end has another key than the session that the connection info leads to.
    #[error(
        "the key of the other end is not the one that its connection info pins: another session \
         listens there, or an attacker on the way"
    )]
    WrongKey,
    /// The session that a connector names is not the one whose key it has.
    #[error("the session in its hello is not that of the key with which it has proven itself")]
    OtherSession,
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
            InvalidCertificate(error) => Self::Certificate(CertificateProblem::of(&error)),
            other => Self::Handshake(other.to_string()),
        }
    }
}
