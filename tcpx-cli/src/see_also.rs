//! Where to read on about a failure, for the end of its line.

use std::fmt::Write as _;

use tcpx_core::{Code, Error, PluginChoice, of_connecting};
use tcpx_doctor::diagnosis::{connection, transfer};

use crate::bootstrap::BootstrapError;
use crate::failure::Failure;

/// Where to read on, ` (see: tcpx explain TCPX-201)`; empty when nothing is known. `plugin` is what `--plugin` was given.
pub(crate) fn see_also(failure: &Failure, plugin: Option<&PluginChoice>) -> String {
    let Some(code) = code_of(failure) else { return String::new() };
    let mut text = format!(" (see: tcpx explain {code}");
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
        Failure::Bootstrap(BootstrapError::NoServer { error, .. }) => {
            return of_connecting(error).map(|diagnosis| diagnosis.code);
        }
        Failure::PluginProcess(_) => &connection::PLUGIN_EXITED,
        Failure::NotVerified(_) => &transfer::PAYLOAD_DIFFERS,
        // The other end has said what there is to say; the rest is about this command line.
        Failure::Bootstrap(_)
        | Failure::OtherEnd(_)
        | Failure::Refused(_)
        | Failure::Refusing(_)
        | Failure::Usage(_)
        | Failure::Unknown(_)
        | Failure::Io { .. } => return None,
    };
    Some(diagnosis.code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tcpx_doctor::Report;
    use tcpx_doctor::environment::{Env, lint};
    use tcpx_sys::LoadError;

    #[test]
    fn failures_name_their_diagnosis() {
        let missing = Error::from(LoadError::Missing { path: "/x.so".into() });
        let no_server = BootstrapError::NoServer {
            address: "10.0.0.1:9".into(),
            waited: std::time::Duration::from_secs(1),
            error: "Connection refused (os error 111)".into(),
        };
        for (failure, expected) in [
            (missing.into(), "TCPX-201"),
            (no_server.into(), "TCPX-607"),
            (Failure::PluginProcess("gone".into()), "TCPX-720"),
            (Failure::NotVerified("byte 3".into()), "TCPX-905"),
        ] {
            assert_eq!(see_also(&failure, None), format!(" (see: tcpx explain {expected})"));
        }
    }

    #[test]
    fn what_has_no_diagnosis_gets_no_hint() {
        for failure in [
            Failure::Usage("no".into()),
            Failure::OtherEnd("gone (see: tcpx explain TCPX-201)".into()),
            Error::Cancelled.into(),
        ] {
            assert_eq!(see_also(&failure, None), "", "{failure}");
        }
    }

    #[test]
    fn a_preflight_leads_to_the_doctor_with_the_same_plugin() {
        let report = Report::new(lint(&Env::new(), &[], 0)).fatal();
        let failure = Failure::from(Error::Preflight(Arc::new(report)));
        let named = PluginChoice::Path("/x.so".into());
        let text = see_also(&failure, Some(&named));
        assert!(text.starts_with(" (see: tcpx explain TCPX-101; "), "{text}");
        assert!(text.ends_with(": tcpx doctor --plugin /x.so)"), "{text}");
        assert!(see_also(&failure, None).ends_with(": tcpx doctor)"));
    }
}
