//! Findings about the certificates that the environment names.

use std::time::{Duration, SystemTime};

use tcpx_core::{CertificateDates, SessionOptions};
use tcpx_diagnosis::table::connection as table;
use tcpx_diagnosis::{Finding, Severity};

/// Time before the end of a certificate in which it is a finding.
const AHEAD: Duration = Duration::from_secs(14 * 86_400);

/// Returns the finding about the files of these options at this time, if there is one.
pub(super) fn check(options: &SessionOptions, now: SystemTime) -> Option<Finding> {
    match options.certificate_dates() {
        Ok(dates) => check_dates(dates?, now),
        // Every problem of a file has an entry.
        Err(error) => Some(Finding::new(error.diagnosis()?, error.to_string())),
    }
}

fn check_dates(dates: CertificateDates, now: SystemTime) -> Option<Finding> {
    let days = |time: Duration| time.as_secs() / 86_400;
    if let Ok(time) = dates.not_before.duration_since(now) {
        let seen = format!("TCPX_TLS_CERT is not valid for {} s yet", time.as_secs());
        return (!time.is_zero()).then(|| Finding::new(&table::CERTIFICATE_NOT_YET_VALID, seen));
    }
    match dates.not_after.duration_since(now) {
        Err(over) => {
            let seen = format!("TCPX_TLS_CERT expired {} days ago", days(over.duration()));
            Some(Finding::new(&table::CERTIFICATE_EXPIRED, seen))
        }
        Ok(left) if left < AHEAD => {
            let seen = format!("TCPX_TLS_CERT expires in {} days", days(left));
            Some(Finding::new(&table::CERTIFICATE_EXPIRED, seen).at(Severity::Warning))
        }
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use tcpx_core::Encryption;
    use tcpx_testkit::certificates::{Authority, CertificateFolder, Files, Validity};

    use super::*;

    fn options(files: &Files) -> SessionOptions {
        SessionOptions::default()
            .encryption(Encryption::Require)
            .tls_cert(Some(files.cert.clone()))
            .tls_key(Some(files.key.clone()))
            .tls_ca(Some(files.ca.clone()))
    }

    #[test]
    fn a_certificate_is_a_finding_before_its_time_shortly_before_its_end_and_after_it() {
        let (folder, authority) = (CertificateFolder::new(), Authority::new());
        let files = folder.write("a", &authority, &[&authority], Validity::Now);
        let options = options(&files);
        let dates = options.certificate_dates().expect("sound files").expect("it has a time");
        let (begin, end) = (dates.not_before, dates.not_after);
        let at = |time| {
            let found = check(&options, time)?;
            Some((found.id.to_string(), found.severity, found.seen))
        };
        let second = Duration::from_secs(1);
        let (id, severity, _) = at(begin - second).expect("it is too early");
        assert_eq!((id.as_str(), severity), ("TCPX-748", Severity::Error));
        assert_eq!(at(begin), None);
        assert_eq!(at(end - AHEAD), None);
        let (id, severity, seen) = at(end - AHEAD + second).expect("it ends soon");
        assert_eq!((id.as_str(), severity), ("TCPX-747", Severity::Warning));
        assert!(seen.ends_with("in 13 days"), "{seen}");
        let (id, severity, _) = at(end + second).expect("it is over");
        assert_eq!((id.as_str(), severity), ("TCPX-747", Severity::Error));
    }

    #[test]
    fn a_file_that_is_missing_is_a_finding_and_no_file_is_none() {
        let (folder, authority) = (CertificateFolder::new(), Authority::new());
        let files = folder.write("a", &authority, &[&authority], Validity::Now);
        let now = SystemTime::now();
        assert!(check(&options(&files), now).is_none());
        assert!(check(&SessionOptions::default(), now).is_none());
        let found = check(&options(&files).tls_ca(Some(folder.file("none"))), now);
        assert_eq!(found.expect("it is missing").id.to_string(), "TCPX-752");
    }
}
