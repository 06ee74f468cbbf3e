//! Which diagnosis a failure is a case of, for the end of its line: the one place that knows.

use std::fmt::Write as _;

use tcpx_core::{Error, Phase, PluginChoice, PluginFailure};
use tcpx_doctor::Code;
use tcpx_doctor::Diagnosis;
use tcpx_doctor::diagnosis::{
    connection, environment, limits, plugin, requests, topology, transfer,
};
use tcpx_sys::LoadError;

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
        Failure::Library(Error::Preflight(report)) => {
            return report.findings().first().map(|finding| finding.id);
        }
        Failure::Library(error) => of_library(error),
        Failure::Bootstrap(error) => of_bootstrap(error),
        Failure::PluginProcess(_) => Some(&connection::PLUGIN_EXITED),
        Failure::NotVerified(_) => Some(&transfer::PAYLOAD_DIFFERS),
        // The other end has said what there is to say; the rest is about this command line.
        Failure::OtherEnd(_)
        | Failure::Refused(_)
        | Failure::Refusing(_)
        | Failure::Usage(_)
        | Failure::Unknown(_)
        | Failure::Io { .. } => None,
    };
    diagnosis.map(|diagnosis| diagnosis.code)
}

fn of_library(error: &Error) -> Option<&'static Diagnosis> {
    match error {
        Error::Load(error) => of_load(error),
        Error::Plugin(failure) => of_call(failure),
        Error::Setting { name: "NCCL_DYNAMIC_CHUNK_SIZE", value, .. } => Some(of_chunk_size(value)),
        Error::NoNic { available, .. } if available.is_empty() => Some(&topology::NIC_MISSING),
        Error::MemoryUnavailable { reason, .. } if reason.contains("libcuda") => {
            Some(&plugin::CUDA_LIBRARY_MISSING)
        }
        Error::Deadline { phase: Phase::Send | Phase::Receive | Phase::Unpack, .. } => {
            Some(&transfer::TRANSFER_STUCK)
        }
        Error::SizeMismatch { send_bytes, recv_bytes, .. } if send_bytes > recv_bytes => {
            Some(&requests::RECEIVE_TOO_SMALL)
        }
        Error::InUse { .. } => Some(&requests::DEREGISTERED_IN_USE),
        _ => None,
    }
}

fn of_load(error: &LoadError) -> Option<&'static Diagnosis> {
    let diagnosis = match error {
        LoadError::Missing { .. } => &plugin::PLUGIN_MISSING,
        LoadError::Open { reason, .. } => {
            let reason = reason.to_lowercase();
            // The dynamic linker's words, most special first.
            [
                ("failed to map segment", &plugin::PLUGIN_ON_NOEXEC),
                ("permission denied", &plugin::PLUGIN_UNREADABLE),
                ("cannot open shared object file", &plugin::PLUGIN_DEPENDENCY_MISSING),
            ]
            .into_iter()
            .find(|(words, _)| reason.contains(words))
            .map_or(&plugin::PLUGIN_NOT_LOADABLE, |(_, diagnosis)| diagnosis)
        }
        LoadError::MissingSymbol { .. } => &plugin::PLUGIN_SYMBOL_MISSING,
        LoadError::WrongSize { .. } | LoadError::NullMember { .. } => &plugin::PLUGIN_SYMBOL_SHAPE,
        LoadError::WrongName { .. } => &plugin::PLUGIN_OTHER_VENDOR,
        _ => return None,
    };
    Some(diagnosis)
}

fn of_call(failure: &PluginFailure) -> Option<&'static Diagnosis> {
    match (failure.call, failure.code.0) {
        ("test", 2) => Some(&connection::PEER_CLOSED_AFTER_SENDING),
        ("regMr", 3) => Some(&requests::REGISTRATION_REFUSED),
        ("isend" | "irecv", 3) => Some(&requests::TOO_MANY_REQUESTS),
        ("irecvConsumed", 3) => Some(&requests::CONSUMED_WRONGLY),
        ("connect" | "accept", _) => Some(&connection::FAILED_TO_CONNECT_SOCKET),
        _ => None,
    }
}

fn of_chunk_size(value: &str) -> &'static Diagnosis {
    match value.parse::<u64>() {
        Err(_) => &environment::CHUNK_SIZE_SUFFIX,
        Ok(0) => &environment::CHUNK_SIZE_UNSET,
        Ok(bytes) if bytes > tcpx_core::MAX_CHUNK_BYTES.into() => {
            &environment::CHUNK_SIZE_TOO_LARGE
        }
        Ok(_) => &environment::CHUNK_SIZE_OUT_OF_RANGE,
    }
}

fn of_bootstrap(error: &BootstrapError) -> Option<&'static Diagnosis> {
    let BootstrapError::NoServer { error, .. } = error else { return None };
    let error = error.to_lowercase();
    [
        ("refused", &limits::PEER_REFUSES),
        ("unreachable", &limits::PEER_UNREACHABLE),
        ("timed out", &limits::PEER_TIMES_OUT),
    ]
    .into_iter()
    .find(|(words, _)| error.contains(words))
    .map(|(_, diagnosis)| diagnosis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tcpx_doctor::Report;
    use tcpx_doctor::environment::{Env, lint};

    fn open(reason: &str) -> Failure {
        let error = LoadError::Open { path: "/x.so".into(), reason: reason.into() };
        Error::Load(Arc::new(error)).into()
    }

    #[test]
    fn failures_name_their_diagnosis() {
        let chunk = |value: &str| {
            Failure::from(Error::Setting {
                name: "NCCL_DYNAMIC_CHUNK_SIZE",
                value: value.into(),
                reason: String::new(),
            })
        };
        for (failure, expected) in [
            (open("libz.so.9: cannot open shared object file: No such file"), "TCPX-207"),
            (open("/x.so: invalid ELF header"), "TCPX-202"),
            (open("/x.so: failed to map segment from shared object"), "TCPX-204"),
            (chunk("512K"), "TCPX-102"),
            (chunk("0"), "TCPX-101"),
            (chunk("8388608"), "TCPX-104"),
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
