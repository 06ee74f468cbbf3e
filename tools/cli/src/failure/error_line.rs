//! Last line of a failed command: the error, and a pointer to more.

use std::fmt::Write as _;

use rustix::io::Errno;
use tcpx_core::{Code, Error, PluginChoice, diagnosis_of_io};
use tcpx_diagnosis::table::{connection, limits, transfer};

use super::connection::ConnectionError;
use super::reason::Failure;

/// Returns the error in one line. If it has a diagnosis, the line ends with a pointer to that,
/// `(see: tcpx explain TCPX-201)`. `plugin` is the value of `--plugin`.
pub(crate) fn error_line(failure: &Failure, plugin: Option<&PluginChoice>) -> String {
    let line = failure.one_line();
    let Some(code) = code_of(failure) else { return line };
    // The library's errors end with the id, which must not be repeated.
    let line = line.strip_suffix(&format!(" [{code}]")).unwrap_or(&line);
    let mut text = format!("{line} (see: tcpx explain {code}");
    if let Failure::Library(Error::Preflight(_)) = failure {
        // Without the flag the doctor finds the same plugin by the same rule.
        let flag = plugin.map(|plugin| format!(" --plugin {plugin}")).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = write!(text, "; all findings: tcpx doctor{flag}");
    }
    text + ")"
}

fn code_of(failure: &Failure) -> Option<Code> {
    let diagnosis = match failure {
        Failure::Library(error) => return error.id(),
        Failure::Connection(ConnectionError::NoServer { error, .. }) => {
            return diagnosis_of_io(error.kind()).map(|diagnosis| diagnosis.code);
        }
        Failure::Connection(ConnectionError::NoServerOverIpv6 { .. }) => &limits::PEER_REFUSES,
        Failure::Connection(ConnectionError::PortInUse { .. }) => &limits::PORT_IN_USE,
        Failure::Connection(
            ConnectionError::BadAddress { .. } | ConnectionError::UnknownHost { .. },
        ) => &connection::ADDRESS_UNUSABLE,
        Failure::Connection(ConnectionError::OtherRelease { .. }) => {
            &connection::PEER_VERSION_DIFFERS
        }
        Failure::Connection(
            ConnectionError::OtherToken { .. }
            | ConnectionError::TokenWanted { .. }
            | ConnectionError::NoTokenWanted { .. },
        ) => &connection::TOKEN_DIFFERS,
        Failure::Usage(_) => &transfer::COMMAND_LINE_WRONG,
        Failure::Io { error, .. } if is_out_of_files(error) => &limits::OPEN_FILES_LIMIT,
        Failure::Io { error, .. } if is_about_a_file(error) => &transfer::FILE_UNUSABLE,
        Failure::PluginProcess(_) => &connection::PLUGIN_EXITED,
        Failure::NotVerified(_) => &transfer::PAYLOAD_DIFFERS,
        // The other end's line is complete; the rest is about this command line.
        Failure::Connection(_)
        | Failure::OtherEnd(_)
        | Failure::Refused(_)
        | Failure::Busy(_)
        | Failure::RefusedHere(_)
        | Failure::Unknown(_)
        | Failure::OtherClient(_)
        | Failure::Interrupted
        | Failure::OutOfTime { .. }
        | Failure::Io { .. } => return None,
    };
    Some(diagnosis.code)
}

/// Returns whether a file is missing, or may not be used in this way.
fn is_about_a_file(error: &std::io::Error) -> bool {
    let errnos = [Errno::NOENT, Errno::ACCESS, Errno::ISDIR, Errno::NOTDIR, Errno::ROFS];
    errnos.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Returns whether the process, or the system, may open no more files.
pub(crate) fn is_out_of_files(error: &std::io::Error) -> bool {
    let number = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| number == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline::Deadline;
    use std::sync::Arc;
    use tcpx_diagnosis::Report;
    use tcpx_diagnosis::variables::{Env, lint};
    use tcpx_sys::LoadError;

    #[test]
    fn failures_name_their_diagnosis() {
        let missing = Error::from(LoadError::Missing { path: "/x.so".into() });
        let no_server = ConnectionError::NoServer {
            address: "10.0.0.1:9".into(),
            waited: Deadline::after(std::time::Duration::from_secs(1)),
            tried: ([10, 0, 0, 1], 9).into(),
            error: std::io::ErrorKind::ConnectionRefused.into(),
        };
        let in_use = ConnectionError::PortInUse {
            address: ([10, 0, 0, 1], 9).into(),
            error: std::io::ErrorKind::AddrInUse.into(),
        };
        for (failure, expected) in [
            (missing.into(), "TCPX-201"),
            (no_server.into(), "TCPX-607"),
            (Failure::PluginProcess("gone".into()), "TCPX-720"),
            (Failure::NotVerified("byte 3".into()), "TCPX-905"),
            (Failure::Usage("no".into()), "TCPX-920"),
            (Failure::io("opening")(std::io::Error::from_raw_os_error(24)), "TCPX-608"),
            (Failure::io("opening")(std::io::Error::from_raw_os_error(2)), "TCPX-921"),
            (in_use.into(), "TCPX-613"),
        ] {
            let line = error_line(&failure, None);
            assert!(line.ends_with(&format!(" (see: tcpx explain {expected})")), "{line}");
            assert_eq!(line.matches(expected).count(), 1, "{line}");
        }
    }

    #[test]
    fn a_failure_without_a_diagnosis_gets_no_hint() {
        for failure in [
            Failure::io("opening")(std::io::ErrorKind::BrokenPipe.into()),
            Failure::OtherEnd("gone (see: tcpx explain TCPX-201)".into()),
            Error::Cancelled.into(),
        ] {
            assert_eq!(error_line(&failure, None), failure.one_line());
        }
    }

    #[test]
    fn a_preflight_leads_to_the_doctor_with_the_same_plugin() {
        let report = Report::new(lint(&Env::new(), &[], 0)).fatal();
        let failure = Failure::from(Error::Preflight(Arc::new(report)));
        let named = PluginChoice::Path("/x.so".into());
        let text = error_line(&failure, Some(&named));
        assert!(text.contains(" (see: tcpx explain TCPX-101; "), "{text}");
        assert!(text.ends_with(": tcpx doctor --plugin /x.so)"), "{text}");
        assert!(error_line(&failure, None).ends_with(": tcpx doctor)"));
    }
}
