//! Diagnosis of an error, from the table of diagnoses. Pure: no other place decides this.
//!
//! Types decide, except for two errors that come as words alone. The dynamic linker says why it
//! does not open a file in a line of text (`of_linker`). A peer that gave up sends its error as
//! text, which ends with an id (`id_at_end`).

use std::io::ErrorKind;

use tcpx_cuda::CudaError;
use tcpx_diagnosis::table::{
    connection, daemon, environment, limits, plugin, requests, topology, transfer,
};
use tcpx_diagnosis::{Code, Diagnosis, explain};
use tcpx_protocol::error::RemoteProblem;
use tcpx_rx::DescriptorError;
use tcpx_sys::LoadError;

use super::Error;
use super::encryption_problem::EncryptionProblem;
use super::failures::{Departure, DialFailure, Phase, PluginFailure};
use super::problems::{
    BounceBufferProblem, MemoryUnavailable, PluginChunkProblem, RegistrationProblem, SettingProblem,
};

impl Error {
    /// Returns the id of the diagnosis, as `tcpx explain` takes it. The error's text ends with the
    /// id in brackets: `[TCPX-902]`.
    ///
    /// Returns `None` for mistakes of the program whose text says everything. These are an unknown
    /// name or id, a call in the wrong state, and a cancelled, released or closed object. They also
    /// include more operations than there is memory for. Returns `None` also for system calls whose
    /// answer says everything.
    #[must_use]
    pub fn id(&self) -> Option<Code> {
        match self {
            Self::Preflight(report) => report.findings().first().map(|finding| finding.id),
            _ => self.diagnosis().map(|diagnosis| diagnosis.code),
        }
    }

    /// Returns symptom, cause and cure from the table; `None` as for [`id`](Self::id).
    #[must_use]
    pub fn diagnosis(&self) -> Option<&'static Diagnosis> {
        Some(match self {
            Self::Setting { problem: SettingProblem::PluginChunk(problem), .. } => {
                of_plugin_chunk(*problem)
            }
            Self::Setting { problem: SettingProblem::TooManyFragments { .. }, .. } => {
                &requests::TOO_MANY_FRAGMENTS
            }
            Self::Setting { problem: SettingProblem::InlineThreshold, .. } => {
                &environment::INLINE_WITH_CUDA
            }
            Self::Setting { problem: SettingProblem::GpuNeeded, .. } => &plugin::GPU_NEEDED,
            Self::Setting { problem: SettingProblem::OtherTransport { .. }, .. } => {
                &plugin::OTHER_TRANSPORT
            }
            Self::Setting { problem: SettingProblem::CannotEncrypt { .. }, .. } => {
                &connection::DATA_NOT_ENCRYPTED
            }
            Self::Setting { problem: SettingProblem::Certificate(problem), .. } => {
                problem.diagnosis()
            }
            Self::Setting { .. } => &environment::SETTING_OUT_OF_RANGE,
            Self::Load(error) => of_load(error),
            Self::Preflight(report) => return explain(report.findings().first()?.id),
            Self::NoSoftPlugin => &plugin::SOFT_PLUGIN_ABSENT,
            Self::Plugin(failure) => of_call(failure),
            Self::PluginHangs(hang) => {
                hang.found.and_then(explain).unwrap_or(&connection::PLUGIN_CALL_HANGS)
            }
            Self::UnusablePlugin { .. } => &plugin::PLUGIN_UNUSABLE,
            Self::NoNic { available, .. } if available.is_empty() => &topology::NIC_MISSING,
            Self::NoNic { .. } => &topology::NIC_UNKNOWN,
            Self::MemoryUnavailable(MemoryUnavailable::BounceBuffer(
                BounceBufferProblem::TooSmall { .. },
            )) => &daemon::BOUNCE_BUFFER_TOO_SMALL,
            Self::MemoryUnavailable(MemoryUnavailable::BounceBuffer(_)) => {
                &daemon::BOUNCE_BUFFER_MISSING
            }
            Self::MemoryUnavailable(MemoryUnavailable::Cuda(CudaError::NoDriver)) => {
                &plugin::CUDA_LIBRARY_MISSING
            }
            Self::MemoryUnavailable(MemoryUnavailable::Cuda(_)) => &plugin::GPU_MEMORY_UNAVAILABLE,
            Self::Unpack(_) | Self::UnpackFailed(_) => &transfer::UNPACK_FAILED,
            Self::Deadline { detail, .. } if detail.is_nic_down() => &topology::NIC_DOWN,
            Self::Deadline { phase, .. } => of_deadline(*phase),
            Self::PeerGone { how, .. } => of_departure(how),
            Self::Handshake { reason, .. } => {
                id_at_end(reason).unwrap_or(&connection::HANDSHAKE_FAILED)
            }
            Self::Encryption { problem, .. } => of_encryption(problem),
            Self::ConnInfo(_) => &connection::CONN_INFO_UNUSABLE,
            Self::Protocol { .. } => &connection::PROTOCOL_BROKEN,
            Self::SizeMismatch { send_bytes, recv_bytes, .. } if send_bytes > recv_bytes => {
                &requests::RECEIVE_TOO_SMALL
            }
            Self::SizeMismatch { .. } => &requests::SIZES_DIFFER,
            Self::Registration { problem, .. } | Self::ListedRegistration { problem, .. } => {
                of_registration(*problem)
            }
            Self::Remote { problem, .. } => return of_remote_memory(*problem),
            Self::RemoteKey(_) => &requests::REMOTE_KEY_UNUSABLE,
            Self::NotificationTooLong { .. } => &requests::LISTS_DIFFER,
            Self::NotificationsFull { .. } => &requests::NOTIFICATIONS_NOT_READ,
            Self::Expired { .. } => &requests::OPERATION_EXPIRED,
            Self::UnknownPeer { .. } => &requests::PEER_UNKNOWN,
            Self::UnknownRegistration { .. } => &requests::REGISTRATION_UNKNOWN,
            Self::InUse { .. } => &requests::DEREGISTERED_IN_USE,
            Self::Fragments { source: DescriptorError::DestinationOutOfBounds { .. }, .. } => {
                &requests::RECEIVE_TOO_SMALL
            }
            Self::Fragments { .. } => &requests::FRAGMENTS_WRONG,
            Self::Forked => &requests::CALLED_AFTER_FORK,
            Self::Unreachable { attempts, .. } => return of_attempts(attempts),
            Self::Io { kind, .. } => return diagnosis_of_io(*kind),
            // Mistakes and decisions of the calling program: the text says all there is.
            Self::MemoryUnavailable(MemoryUnavailable::Operations { .. })
            | Self::PeerState { .. }
            | Self::Cancelled
            | Self::Released
            | Self::Closed => return None,
        })
    }
}

impl Error {
    /// Returns the text of this error for the peer that it ends. The peer chose the addresses of
    /// its channels, so it must not learn how dialling them failed. It receives the same text for
    /// every failure, except for faults of this host.
    pub(crate) fn text_for_peer(&self) -> String {
        let is_of_dial = match self {
            Self::Plugin(PluginFailure { call: "connect", cause: Some(cause), .. }) => {
                let id = cause.id;
                return format!(
                    "plugin call connect failed for what is wrong with its host [{id}]"
                );
            }
            Self::Plugin(failure) => failure.call == "connect",
            Self::PeerGone { how: Departure::NeverUp { state, .. }, .. } => {
                *state == Departure::DIAL_UNANSWERED
            }
            _ => false,
        };
        match is_of_dial {
            true => {
                let id = connection::FAILED_TO_CONNECT_SOCKET.code;
                format!("its data channels cannot be connected from there [{id}]")
            }
            false => self.to_string(),
        }
    }
}

impl EncryptionProblem {
    /// Returns the text of this problem for the end that is refused. It ends with the id of the
    /// diagnosis.
    pub(crate) fn text_for_peer(&self) -> String {
        format!("{self} [{}]", of_encryption(self).code)
    }
}

/// Returns the diagnosis that a text from the other end names in its last brackets, if this release
/// knows it.
pub(super) fn id_at_end(text: &str) -> Option<&'static Diagnosis> {
    let (_, id) = text.strip_suffix(']')?.rsplit_once('[')?;
    explain(id.starts_with("TCPX-").then(|| id.parse().ok())??)
}

fn of_departure(how: &Departure) -> &'static Diagnosis {
    match how {
        Departure::Goodbye => &connection::PEER_SAID_GOODBYE,
        Departure::LinkClosed | Departure::LinkFailed { .. } => &connection::PEER_ENDED,
        Departure::Silent(_) | Departure::HostGone(_) => &connection::PEER_SILENT,
        Departure::Unanswered(_) => &connection::GOODBYE_UNANSWERED,
        Departure::NeverUp { .. } => &connection::PEER_DID_NOT_COME,
        Departure::KeptMemory(_) => &connection::PEER_KEPT_MEMORY,
        Departure::ChunksLost { .. } => &connection::DATA_PATH_CUT,
        Departure::LinkTampered { .. } => &connection::LINK_TAMPERED,
        Departure::ForeignAddress { .. } => &connection::FOREIGN_ADDRESS,
        Departure::Abort(reason) => id_at_end(reason).unwrap_or(&connection::PEER_ABORTED),
    }
}

fn of_encryption(problem: &EncryptionProblem) -> &'static Diagnosis {
    match problem {
        EncryptionProblem::Mismatch(_) => &connection::ENCRYPTION_DIFFERS,
        EncryptionProblem::Credentials(_) => &connection::CREDENTIALS_DIFFER,
        EncryptionProblem::Certificate(problem) => problem.diagnosis(),
        EncryptionProblem::WrongKey | EncryptionProblem::OtherSession => {
            &connection::KEY_NOT_PINNED
        }
        EncryptionProblem::Handshake(_) => &connection::KEY_EXCHANGE_FAILED,
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
        LoadError::Open { reason, .. } => of_linker(reason),
        LoadError::MissingSymbol { .. } => &plugin::PLUGIN_SYMBOL_MISSING,
        LoadError::WrongSize { .. } | LoadError::NullMember { .. } => &plugin::PLUGIN_SYMBOL_SHAPE,
        LoadError::WrongName { .. } => &plugin::PLUGIN_OTHER_VENDOR,
        _ => &plugin::PLUGIN_NOT_LOADABLE,
    }
}

fn of_registration(problem: RegistrationProblem) -> &'static Diagnosis {
    match problem {
        RegistrationProblem::ReceiveIntoHostMemory => &requests::RECEIVE_INTO_HOST_MEMORY,
        RegistrationProblem::NotExportable { .. } => &requests::MEMORY_NOT_EXPORTABLE,
        _ => &requests::REGISTRATION_UNFIT,
    }
}

fn of_remote_memory(problem: RemoteProblem) -> Option<&'static Diagnosis> {
    Some(match problem {
        RemoteProblem::AnotherSession | RemoteProblem::UnknownKey => &requests::REMOTE_KEY_UNKNOWN,
        RemoteProblem::Revoked => &requests::REMOTE_MEMORY_REVOKED,
        RemoteProblem::OutOfRange { .. } => &requests::REMOTE_RANGE_OUTSIDE,
        RemoteProblem::Access { .. } => &requests::REMOTE_ACCESS_REFUSED,
        RemoteProblem::LengthsDiffer { .. }
        | RemoteProblem::Nothing
        | RemoteProblem::MixedMemory
        | RemoteProblem::TooMany { .. } => &requests::LISTS_DIFFER,
        RemoteProblem::ReceiveIntoHostMemory => &requests::RECEIVE_INTO_HOST_MEMORY,
        RemoteProblem::Leaves => &connection::PEER_SAID_GOODBYE,
        // Missing memory is no fault of the range.
        RemoteProblem::NoMemory | _ => return None,
    })
}

/// Returns the diagnosis for the dynamic linker's words. The most special words come first.
fn of_linker(words: &str) -> &'static Diagnosis {
    let words = words.to_lowercase();
    let known = [
        ("failed to map segment", &plugin::PLUGIN_ON_NOEXEC),
        ("permission denied", &plugin::PLUGIN_UNREADABLE),
        ("cannot open shared object file", &plugin::PLUGIN_DEPENDENCY_MISSING),
    ];
    let found = known.iter().find(|(known, _)| words.contains(known));
    found.map_or(&plugin::PLUGIN_NOT_LOADABLE, |(_, diagnosis)| *diagnosis)
}

fn of_call(failure: &PluginFailure) -> &'static Diagnosis {
    if let Some(found) = failure.cause.as_ref().and_then(|cause| explain(cause.id)) {
        return found;
    }
    match (failure.call, failure.code.0) {
        ("test", 2) => &connection::PEER_CLOSED_AFTER_SENDING,
        ("checkComm", 2) => &connection::DATA_PATH_CUT,
        ("regMr", 3) => &requests::REGISTRATION_REFUSED,
        ("isend" | "irecv", 3) => &requests::TOO_MANY_REQUESTS,
        ("irecvConsumed", 3) => &requests::CONSUMED_WRONGLY,
        ("connect" | "accept", _) => &connection::FAILED_TO_CONNECT_SOCKET,
        _ => &connection::PLUGIN_CALL_FAILED,
    }
}

fn of_plugin_chunk(problem: PluginChunkProblem) -> &'static Diagnosis {
    match problem {
        PluginChunkProblem::NotANumber => &environment::CHUNK_SIZE_SUFFIX,
        PluginChunkProblem::Zero => &environment::CHUNK_SIZE_UNSET,
        PluginChunkProblem::TooLarge => &environment::CHUNK_SIZE_TOO_LARGE,
        PluginChunkProblem::TooSmall => &environment::CHUNK_SIZE_OUT_OF_RANGE,
    }
}

/// Returns the diagnosis of a peer that no address leads to. An address at which a host answers is
/// more significant than one without an answer, in any order of the tries.
fn of_attempts(attempts: &[DialFailure]) -> Option<&'static Diagnosis> {
    let known = [&limits::PEER_REFUSES, &limits::PEER_UNREACHABLE, &limits::PEER_TIMES_OUT];
    let seen = |diagnosis: &&Diagnosis| {
        attempts
            .iter()
            .filter_map(|attempt| attempt.kind)
            .any(|kind| diagnosis_of_io(kind).is_some_and(|of_kind| of_kind.code == diagnosis.code))
    };
    known.into_iter().find(seen)
}

/// Returns the diagnosis of a connection that could not be made, or of a port that could not be
/// listened on, by the system's answer. Returns `None` for answers that say all there is.
#[must_use]
pub fn diagnosis_of_io(kind: ErrorKind) -> Option<&'static Diagnosis> {
    match kind {
        ErrorKind::ConnectionRefused => Some(&limits::PEER_REFUSES),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            Some(&limits::PEER_UNREACHABLE)
        }
        ErrorKind::TimedOut => Some(&limits::PEER_TIMES_OUT),
        ErrorKind::AddrInUse => Some(&limits::PORT_IN_USE),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
