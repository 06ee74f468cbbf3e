//! Reasons why certificates cannot be used: those of the other end, and those in this end's files.

use rustls::CertificateError;
use tcpx_diagnosis::Diagnosis;
use tcpx_diagnosis::table::connection;

/// Why the certificate of the other end is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateProblem {
    /// None of the authorities of this end has issued it.
    #[error("no authority in tls_ca has issued it")]
    UnknownIssuer,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
    /// Its time has not begun.
    #[error("it is not valid yet: it is new, or the clock of one of the hosts is wrong")]
    NotYetValid,
    /// It is for other names than that of the peer.
    #[error("the name \"{0}\" is not among its subject alternative names")]
    OtherName(String),
    /// The peer says no name that could be looked for in it.
    #[error("it belongs to no peer, because the peer says no name of its own")]
    NoName,
    /// It is refused for another reason.
    #[error("{0}")]
    Unfit(String),
}

/// Why a file of certificates, a key or authorities cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateFileProblem {
    /// Only some of the three files are named.
    #[error("tls_cert, tls_key and tls_ca belong together: name all three or none")]
    Incomplete,
    /// The session encrypts nothing.
    #[error("certificates serve encryption only: set encryption = require, or prefer")]
    NotEncrypted,
    /// There is no such file.
    #[error("there is no such file")]
    Missing,
    /// The system does not let this process read the file.
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
    /// The file holds something else.
    #[error("the file cannot be used: {0}")]
    Holds(&'static str),
    /// What the file holds cannot be used.
    #[error("the file cannot be used: {0}")]
    Unusable(String),
    /// The private key is that of another certificate.
    #[error("the private key is not that of the certificate in tls_cert")]
    KeyDiffers,
}

impl CertificateProblem {
    /// Returns the reason that stands behind an error of the checks.
    pub(super) fn of(error: &CertificateError) -> Self {
        match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::UnknownIssuer,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::NotYetValid
            }
            CertificateError::NotValidForNameContext { expected, .. } => {
                Self::OtherName(expected.to_str().into_owned())
            }
            other => Self::Unfit(other.to_string()),
        }
    }

    /// Returns its entry in the table.
    pub(super) fn diagnosis(&self) -> &'static Diagnosis {
        match self {
            Self::UnknownIssuer => &connection::CERTIFICATE_ISSUER_UNKNOWN,
            Self::Expired => &connection::CERTIFICATE_EXPIRED,
            Self::NotYetValid => &connection::CERTIFICATE_NOT_YET_VALID,
            Self::OtherName(_) | Self::NoName => &connection::CERTIFICATE_OF_ANOTHER_NAME,
            Self::Unfit(_) => &connection::CERTIFICATE_UNFIT,
        }
    }
}

impl CertificateFileProblem {
    /// Returns its entry in the table.
    pub(super) fn diagnosis(&self) -> &'static Diagnosis {
        match self {
            Self::Incomplete | Self::NotEncrypted => &connection::CERTIFICATE_SETTINGS,
            Self::Missing => &connection::CERTIFICATE_FILE_MISSING,
            Self::Unreadable(_) | Self::Holds(_) | Self::Unusable(_) => {
                &connection::CERTIFICATE_FILE_UNUSABLE
            }
            Self::KeyDiffers => &connection::CERTIFICATE_KEY_DIFFERS,
        }
    }
}
