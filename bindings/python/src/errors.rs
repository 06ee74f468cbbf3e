//! Errors of the library as exceptions of the package, with the id and the cure of their diagnosis.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;
use tcpx_core::{Error, RemoteProblem};

/// Returns the exception of an error. The thread is attached to the interpreter.
pub(crate) fn to_python(error: &Error) -> PyErr {
    let diagnosis = error.diagnosis();
    let id = error.id().map(|id| id.to_string());
    let cure = diagnosis.map(|diagnosis| diagnosis.cure.join("\n"));
    make(class_of(error), &error.to_string(), id, cure)
}

/// Returns the exception for memory that cannot be moved.
pub(crate) fn bad_memory(text: &str, cure: &str) -> PyErr {
    make("BadMemory", text, None, (!cure.is_empty()).then(|| cure.to_owned()))
}

/// Returns the exception for memory that would be received into.
pub(crate) fn read_only() -> PyErr {
    bad_memory(
        "the memory is read-only, so nothing can be received into it",
        "pass memory that can be written: a bytearray, or an array with writeable=True",
    )
}

/// Returns the exception for bytes that are no address of an agent.
pub(crate) fn bad_address(text: &str) -> PyErr {
    let cure = "pass the other agent's `address`, unchanged and from the same version of tcpx";
    make("ConfigError", &format!("the address of a peer: {text}"), None, Some(cure.to_owned()))
}

/// Returns the exception of a session that was closed.
pub(crate) fn closed() -> PyErr {
    to_python(&Error::Closed)
}

fn make(class: &str, text: &str, id: Option<String>, cure: Option<String>) -> PyErr {
    Python::attach(|py| {
        static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        let module = ERRORS.get_or_try_init(py, || py.import("tcpx._errors").map(Bound::unbind));
        let made = module.and_then(|module| {
            let class = module.bind(py).getattr(class)?;
            class.call1((text, id, cure))
        });
        made.map_or_else(|error| error, PyErr::from_value)
    })
}

fn class_of(error: &Error) -> &'static str {
    match error {
        Error::Deadline { .. } | Error::Expired { .. } => "Timeout",
        Error::PeerGone { .. } | Error::Unreachable { .. } | Error::Protocol { .. } => "PeerLost",
        Error::Handshake { .. } => "Refused",
        Error::Remote { problem, .. } => match problem {
            RemoteProblem::OutOfRange { .. }
            | RemoteProblem::LengthsDiffer { .. }
            | RemoteProblem::Nothing
            | RemoteProblem::MixedMemory
            | RemoteProblem::TooMany { .. } => "BadMemory",
            _ => "Refused",
        },
        Error::MemoryUnavailable(_)
        | Error::UnknownRegistration { .. }
        | Error::Registration { .. }
        | Error::ListedRegistration { .. }
        | Error::InUse { .. }
        | Error::RemoteKey(_)
        | Error::SizeMismatch { .. } => "BadMemory",
        Error::Setting { .. }
        | Error::Load(_)
        | Error::Preflight(_)
        | Error::NoSoftPlugin
        | Error::UnusablePlugin { .. }
        | Error::NoNic { .. }
        | Error::Unpack(_)
        | Error::ConnInfo(_) => "ConfigError",
        Error::Cancelled => "Cancelled",
        Error::Closed | Error::Released => "Closed",
        _ => "Error",
    }
}
