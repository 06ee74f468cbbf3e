//! Which diagnosis of the table an error is a case of. Pure: the one place that knows.

use tcpx_diagnosis::table::{
    connection, daemon, environment, limits, plugin, requests, topology, transfer,
};
use tcpx_diagnosis::{Code, Diagnosis, explain};
use tcpx_rx::DescriptorError;
use tcpx_sys::LoadError;

use super::Error;
use super::departure::Departure;
use super::phase::Phase;
use super::plugin_failure::PluginFailure;

/// Begins the text of a registration that is refused because hardware cannot receive into host memory.
pub(crate) const HOST_RECEIVE: &str = "the hardware plugin cannot receive into host memory";

impl Error {
    /// The id of the diagnosis, as `tcpx explain` takes it. The error's text ends with it in brackets: `[TCPX-902]`.
    ///
    /// `None` for what a program only does wrong itself, where the text says all there is: an unknown name or id, a call
    /// in the wrong state, something cancelled, released or closed; and for system calls whose answer says it.
    #[must_use]
    pub fn id(&self) -> Option<Code> {
        match self {
            Self::Preflight(report) => report.findings().first().map(|finding| finding.id),
            _ => self.diagnosis().map(|diagnosis| diagnosis.code),
        }
    }

    /// Symptom, cause and cure from the table; `None` as for [`id`](Self::id).
    #[must_use]
    pub fn diagnosis(&self) -> Option<&'static Diagnosis> {
        Some(match self {
            Self::Setting { name: "NCCL_DYNAMIC_CHUNK_SIZE", value, .. } => of_chunk_size(value),
            Self::Setting { .. } => &environment::SETTING_OUT_OF_RANGE,
            Self::Load(error) => of_load(error),
            Self::Preflight(report) => return explain(report.findings().first()?.id),
            Self::NoSoftPlugin => &plugin::SOFT_PLUGIN_ABSENT,
            Self::Plugin(failure) => of_call(failure),
            Self::UnusablePlugin { .. } => &plugin::PLUGIN_UNUSABLE,
            Self::NoNic { available, .. } if available.is_empty() => &topology::NIC_MISSING,
            Self::NoNic { .. } => &topology::NIC_UNKNOWN,
            Self::MemoryUnavailable { kind: "bounce", .. } => &daemon::BOUNCE_BUFFER_MISSING,
            Self::MemoryUnavailable { reason, .. } if reason.contains("libcuda") => {
                &plugin::CUDA_LIBRARY_MISSING
            }
            Self::MemoryUnavailable { .. } => &plugin::GPU_MEMORY_UNAVAILABLE,
            Self::Unpack(_) | Self::UnpackFailed(_) => &transfer::UNPACK_FAILED,
            Self::Deadline { phase, .. } => of_deadline(*phase),
            Self::PeerGone { how, .. } => of_departure(how),
            Self::Handshake { .. } => &connection::HANDSHAKE_FAILED,
            Self::ConnInfo(_) => &connection::CONN_INFO_UNUSABLE,
            Self::Protocol { .. } => &connection::PROTOCOL_BROKEN,
            Self::SizeMismatch { send_bytes, recv_bytes, .. } if send_bytes > recv_bytes => {
                &requests::RECEIVE_TOO_SMALL
            }
            Self::SizeMismatch { .. } => &requests::SIZES_DIFFER,
            Self::Registration { reason, .. } if reason.starts_with(HOST_RECEIVE) => {
                &requests::RECEIVE_INTO_HOST_MEMORY
            }
            Self::Registration { .. } => &requests::REGISTRATION_UNFIT,
            Self::InUse { .. } => &requests::DEREGISTERED_IN_USE,
            Self::Fragments { source: DescriptorError::DestinationOutOfBounds { .. }, .. } => {
                &requests::RECEIVE_TOO_SMALL
            }
            Self::Fragments { .. } => &requests::FRAGMENTS_WRONG,
            Self::Io { error, .. } => return of_connecting(error),
            // Mistakes and decisions of the program that calls: the text says all there is.
            Self::UnknownPeer { .. }
            | Self::PeerState { .. }
            | Self::UnknownRegistration { .. }
            | Self::Cancelled
            | Self::Released
            | Self::Closed => return None,
        })
    }
}

/// The diagnosis that a text from the other end names in its last brackets, if this release knows it.
pub(super) fn id_at_end(text: &str) -> Option<&'static Diagnosis> {
    let (_, id) = text.strip_suffix(']')?.rsplit_once('[')?;
    explain(id.starts_with("TCPX-").then(|| id.parse().ok())??)
}

fn of_departure(how: &Departure) -> &'static Diagnosis {
    match how {
        Departure::Goodbye => &connection::PEER_SAID_GOODBYE,
        Departure::LinkClosed | Departure::LinkFailed(_) => &connection::PEER_ENDED,
        Departure::Silent(_) | Departure::HostGone(_) => &connection::PEER_SILENT,
        Departure::Abort(reason) => id_at_end(reason).unwrap_or(&connection::PEER_ABORTED),
    }
}

fn of_deadline(phase: Phase) -> &'static Diagnosis {
    match phase {
        Phase::Listen | Phase::Connect | Phase::Accept | Phase::Handshake => {
            &connection::PEER_DID_NOT_COME
        }
        Phase::Close => &connection::GOODBYE_UNANSWERED,
        Phase::Load | Phase::Register | Phase::Send | Phase::Receive | Phase::Unpack => {
            &transfer::TRANSFER_STUCK
        }
    }
}

fn of_load(error: &LoadError) -> &'static Diagnosis {
    match error {
        LoadError::Missing { .. } => &plugin::PLUGIN_MISSING,
        LoadError::Open { reason, .. } => {
            let reason = reason.to_lowercase();
            // The dynamic linker's words, most special first.
            first_of(
                &reason,
                &[
                    ("failed to map segment", &plugin::PLUGIN_ON_NOEXEC),
                    ("permission denied", &plugin::PLUGIN_UNREADABLE),
                    ("cannot open shared object file", &plugin::PLUGIN_DEPENDENCY_MISSING),
                ],
            )
            .unwrap_or(&plugin::PLUGIN_NOT_LOADABLE)
        }
        LoadError::MissingSymbol { .. } => &plugin::PLUGIN_SYMBOL_MISSING,
        LoadError::WrongSize { .. } | LoadError::NullMember { .. } => &plugin::PLUGIN_SYMBOL_SHAPE,
        LoadError::WrongName { .. } => &plugin::PLUGIN_OTHER_VENDOR,
        _ => &plugin::PLUGIN_NOT_LOADABLE,
    }
}

fn of_call(failure: &PluginFailure) -> &'static Diagnosis {
    match (failure.call, failure.code.0) {
        ("test", 2) => &connection::PEER_CLOSED_AFTER_SENDING,
        ("regMr", 3) => &requests::REGISTRATION_REFUSED,
        ("isend" | "irecv", 3) => &requests::TOO_MANY_REQUESTS,
        ("irecvConsumed", 3) => &requests::CONSUMED_WRONGLY,
        ("connect" | "accept", _) => &connection::FAILED_TO_CONNECT_SOCKET,
        _ => &connection::PLUGIN_CALL_FAILED,
    }
}

fn of_chunk_size(value: &str) -> &'static Diagnosis {
    match value.parse::<u64>() {
        Err(_) => &environment::CHUNK_SIZE_SUFFIX,
        Ok(0) => &environment::CHUNK_SIZE_UNSET,
        Ok(bytes) if bytes > crate::types::MAX_CHUNK_BYTES.into() => {
            &environment::CHUNK_SIZE_TOO_LARGE
        }
        Ok(_) => &environment::CHUNK_SIZE_OUT_OF_RANGE,
    }
}

/// The diagnosis of a connection that could not be made, by the system's words.
#[must_use]
pub fn of_connecting(error: &str) -> Option<&'static Diagnosis> {
    first_of(
        &error.to_lowercase(),
        &[
            ("connection refused", &limits::PEER_REFUSES),
            ("unreachable", &limits::PEER_UNREACHABLE),
            ("timed out", &limits::PEER_TIMES_OUT),
        ],
    )
}

fn first_of(text: &str, words: &[(&str, &'static Diagnosis)]) -> Option<&'static Diagnosis> {
    words.iter().find(|(words, _)| text.contains(words)).map(|(_, diagnosis)| *diagnosis)
}

#[cfg(test)]
mod tests;
