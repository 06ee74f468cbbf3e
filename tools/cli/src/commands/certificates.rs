//! Findings about the certificates that the environment names.

use std::time::{Duration, SystemTime};

use tcpx_core::{CertificateDates, SessionOptions};
use tcpx_diagnosis::table::connection as table;
use tcpx_diagnosis::{Finding, Severity};

/// Time before the end of a certificate in which it is a finding.
const AHEAD: Duration = Duration::from_secs(14 * 86_400);

/// Returns the findings about the files of these options at this time. `name` is what a session
/// here is called, if it is known.
pub(super) fn check(options: &SessionOptions, name: Option<&str>, now: SystemTime) -> Vec<Finding> {
    let dates = match options.certificate_dates() {
        Ok(dates) => dates,
        // Every problem of a file has an entry.
        Err(error) => {
            let finding = error.diagnosis().map(|it| Finding::new(it, error.to_string()));
            return Vec::from_iter(finding);
        }
    };
    let mut findings = Vec::from_iter(dates.and_then(|dates| check_dates(dates, now)));
    findings.extend(name.and_then(|name| check_name(options, name)));
    findings
}

fn check_name(options: &SessionOptions, name: &str) -> Option<Finding> {
    // A problem of a file is a finding of its own.
    let is_for_it = options.certificate_is_for(name).ok()??;
    (!is_for_it).then(|| {
        let seen = format!("the certificate in TCPX_TLS_CERT is not for the name {name:?}");
        Finding::new(&table::CERTIFICATE_OF_ANOTHER_NAME, seen)
    })
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
            let found = check(&options, None, time).pop()?;
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
        assert!(check(&options(&files), None, now).is_empty());
        assert!(check(&SessionOptions::default(), Some("a"), now).is_empty());
        let found = check(&options(&files).tls_ca(Some(folder.file("none"))), Some("b"), now);
        assert_eq!(found.iter().map(|it| it.id.to_string()).collect::<Vec<_>>(), ["TCPX-752"]);
    }

    #[test]
    fn a_certificate_that_lacks_the_name_is_a_finding() {
        let (folder, authority) = (CertificateFolder::new(), Authority::new());
        let names = ["decode-0", "10.0.0.7"];
        let files = folder.write_for(&names, &authority, &[&authority], Validity::Now);
        let found = |name| {
            let found = check(&options(&files), Some(name), SystemTime::now());
            found.into_iter().map(|it| (it.id.to_string(), it.seen)).collect::<Vec<_>>()
        };
        for name in names {
            assert_eq!(found(name), [], "{name}");
        }
        for name in ["decode-1", "10.0.0.8", "", "no name of the DNS"] {
            let seen = format!("the certificate in TCPX_TLS_CERT is not for the name {name:?}");
            assert_eq!(found(name), [("TCPX-749".to_owned(), seen)]);
        }
    }
}
