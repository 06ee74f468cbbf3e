//! Time in which the certificate of a session is valid, for programs that warn ahead of its end.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

use super::provider;

/// Seconds from 1970 to the last time that a certificate can name, in the year 9999.
const LAST: u64 = 253_402_300_799;

/// Time in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateDates {
    /// First second in which it is.
    pub not_before: SystemTime,
    /// Last second in which it is.
    pub not_after: SystemTime,
}

/// Returns the dates of a certificate. `None`: it has none that could be read.
///
/// The checks of certificates name a date when they refuse one, so they are asked about the first
/// and the last time that there is. They look at dates before they look for an issuer.
pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<CertificateDates> {
    let certificate = ParsedCertificate::try_from(certificate).ok()?;
    let not_before = match refusal_at(0, &certificate)? {
        CertificateError::NotValidYetContext { not_before, .. } => not_before,
        _ => return None,
    };
    let not_after = match refusal_at(LAST, &certificate)? {
        CertificateError::ExpiredContext { not_after, .. } => not_after,
        _ => return None,
    };
    let time = |time: UnixTime| UNIX_EPOCH + Duration::from_secs(time.as_secs());
    Some(CertificateDates { not_before: time(not_before), not_after: time(not_after) })
}

fn refusal_at(seconds: u64, certificate: &ParsedCertificate<'_>) -> Option<CertificateError> {
    let checked = verify_server_cert_signed_by_trust_anchor(
        certificate,
        &RootCertStore::empty(),
        &[],
        UnixTime::since_unix_epoch(Duration::from_secs(seconds)),
        provider::provider().signature_verification_algorithms.all,
    );
    match checked {
        Err(Error::InvalidCertificate(refusal)) => Some(refusal),
        _ => None,
    }
}
