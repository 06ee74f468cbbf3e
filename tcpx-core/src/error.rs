//! Errors of this crate, with the numbers that a reader of a log needs, and the ids of their
//! diagnoses.
//!
//! [`Error`] is here. The contents of its variants lie below, and do not depend on it:
//! - `failures`, `unpack_failure`: what failed, in which phase, and how a peer went, with all known
//!   details.
//! - `problems`: reasons why a setting or memory was refused. Problems of connection info and
//!   remote memory are in `tcpx_protocol::error`.
//! - `certificate_problem`: reasons why certificates of one of the ends cannot be used.
//! - `encryption_problem`: reasons why a link that must be encrypted cannot be.
//! - `optional`: parts of their texts that are present only if their value is known.
//!
//! Above it, as `impl` blocks:
//! - `diagnosis`: entry of an error in the table of diagnoses.
//! - `awaited`: what was missing when a deadline passed.
//! - `display`: an error in words, and the id at their end.

pub(crate) mod awaited;
mod certificate_problem;
pub(crate) mod diagnosis;
mod display;
mod encryption_problem;
mod failures;
mod optional;
mod problems;
pub(crate) mod unpack_failure;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tcpx_protocol::types::Direction;
use tcpx_protocol::types::memory::{Device, MemoryId};
use tcpx_rx::DescriptorError;
use tcpx_sys::{Forked, LoadError};
use tcpx_unpack::UnpackError;

use self::unpack_failure::UnpackFailure;

pub use awaited::Awaited;
pub use certificate_problem::{CertificateFileProblem, CertificateProblem};
pub use encryption_problem::EncryptionProblem;
pub use failures::{Departure, DialFailure, Phase, PluginFailure, PluginHang};
pub use problems::{
    BounceBufferProblem, MemoryUnavailable, PluginChunkProblem, RegistrationProblem, SettingProblem,
};
pub use tcpx_protocol::error::{RemoteKeyError, RemoteProblem};

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Every error of this crate. It can be cloned, because one dead peer is the error of many
/// transfers.
///
/// The text of an error with a diagnosis ends with the id in brackets, `[TCPX-902]`; see
/// [`Error::id`].
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is outside its range or contradicts another.
    Setting {
        /// Name of the option or variable.
        name: &'static str,
        /// Value that was given.
        value: String,
        /// What is wrong with the value, and what would be right.
        problem: SettingProblem,
    },
    /// The plugin file could not be used.
    Load(Arc<LoadError>),
    /// The hardware plugin would end the process, crash or hang on this host, so it was not loaded.
    Preflight(Arc<tcpx_diagnosis::Report>),
    /// A plugin was asked for that this build does not contain.
    NoSoftPlugin,
    /// A plugin call failed.
    Plugin(PluginFailure),
    /// A plugin call does not return. It is abandoned with its comm, whose peer ends.
    PluginHangs(PluginHang),
    /// The plugin has properties that this library cannot work with.
    UnusablePlugin {
        /// Path of the plugin.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// No NIC matches the request.
    NoNic {
        /// Requested NIC.
        wanted: String,
        /// Names that the plugin reported.
        available: Vec<String>,
    },
    /// Memory of this kind is not available here.
    MemoryUnavailable(MemoryUnavailable),
    /// An unpack backend is not available.
    Unpack(Arc<UnpackError>),
    /// A chunk could not be unpacked. The session does not recover: every peer of it ends with
    /// this.
    UnpackFailed(Arc<UnpackFailure>),
    /// A deadline passed, and the call with this deadline returns. No operation ends with this.
    Deadline {
        /// Phase in which the deadline passed.
        phase: Phase,
        /// Peer of the call, if it has one.
        peer: Option<String>,
        /// Time that was waited.
        waited: Duration,
        /// What was missing; its text says it.
        detail: Awaited,
    },
    /// No peer has this name.
    UnknownPeer {
        /// Name that was used.
        peer: String,
        /// Names that exist.
        known: String,
    },
    /// The peer is not in a state for this call.
    PeerState {
        /// Name of the peer.
        peer: String,
        /// State of the peer in words.
        state: &'static str,
        /// What to call first.
        cure: &'static str,
    },
    /// The peer went away.
    PeerGone {
        /// Name of the peer.
        peer: String,
        /// Phase in which the peer went away.
        phase: Phase,
        /// How the peer went away.
        how: Departure,
    },
    /// The two ends are incompatible, or the other end could not prove its identity.
    Handshake {
        /// Name of the peer.
        peer: String,
        /// Both ends' values, or what was wrong.
        reason: String,
    },
    /// The link to the peer must be encrypted, and cannot be.
    Encryption {
        /// Name of the peer.
        peer: String,
        /// What is wrong.
        problem: EncryptionProblem,
    },
    /// The connection info cannot be used.
    ConnInfo(#[from] tcpx_protocol::error::ConnInfoError),
    /// The peer sent a frame that no well-behaved peer sends.
    Protocol {
        /// Name of the peer.
        peer: String,
        /// What the peer sent.
        detail: String,
    },
    /// The two ends posted different sizes for one message.
    SizeMismatch {
        /// Name of the peer.
        peer: String,
        /// Tag of the message.
        tag: i64,
        /// Number of bytes of the send.
        send_bytes: u64,
        /// Number of bytes of the receive.
        recv_bytes: u64,
    },
    /// No registration has this id.
    UnknownRegistration {
        /// Id that was used.
        id: MemoryId,
    },
    /// A registration cannot serve this post.
    Registration {
        /// Id of the registration, if it has one yet.
        id: Option<MemoryId>,
        /// What is wrong, and what would be right.
        problem: RegistrationProblem,
    },
    /// A range of a list cannot be registered, so no range of the list was.
    ListedRegistration {
        /// Index of the range in the list, from 0 on.
        index: usize,
        /// What is wrong, and what would be right.
        problem: RegistrationProblem,
    },
    /// A registration is used by posted operations, or by a copy through the session. After an
    /// attempt to deregister it, this is still so. Its memory must stay as it is, and no new
    /// operation begins to use it. [`deregister_memory`](crate::Session::deregister_memory) waits
    /// again.
    InUse {
        /// Id of the registration.
        id: MemoryId,
        /// Number of operations that use it; 0: another thread reads or writes it through the
        /// session.
        operations: usize,
        /// After an attempt to deregister it: the peers of these operations, and what holds each of
        /// them up. Empty otherwise.
        holders: String,
    },
    /// Exported memory cannot be used in this way, or the memory is not exported. The refused
    /// request moved no byte.
    Remote {
        /// Peer that owns the memory; `None`: it is this session's own.
        peer: Option<String>,
        /// Id of its registration there, if the key says it.
        memory: Option<MemoryId>,
        /// What is wrong.
        problem: RemoteProblem,
    },
    /// The bytes are no key to remote memory.
    RemoteKey(#[from] RemoteKeyError),
    /// A notification has more than 65,536 bytes.
    NotificationTooLong {
        /// Number of bytes of the notification.
        bytes: u64,
    },
    /// No more notifications may wait here. The peer's program has not taken the earlier ones, or
    /// the peer is yet to be reached.
    NotificationsFull {
        /// Name of the peer.
        peer: String,
        /// Number of bytes that wait here.
        queued_bytes: u64,
    },
    /// The bytes that arrived are not those that were announced. Nothing was copied.
    Fragments {
        /// Name of the peer.
        peer: String,
        /// Number of the channel.
        channel: u16,
        /// Number of bytes that the chunk should have.
        chunk_bytes: u64,
        /// What is wrong with the unpack descriptors.
        source: DescriptorError,
    },
    /// The operation was cancelled.
    Cancelled,
    /// The operation had not ended within the time that the program gave it.
    Expired {
        /// Peer of the operation, if it is still known.
        peer: Option<String>,
        /// Time that the program gave the operation.
        after: Duration,
    },
    /// The transfer was released already.
    Released,
    /// The program has closed the session, or disconnected the peer.
    Closed,
    /// This process was forked from a process with a session, and must not use the library. Nothing
    /// was done. See [Fork](crate#fork).
    Forked,
    /// No address of a peer leads to it.
    Unreachable {
        /// Name of the peer.
        peer: String,
        /// Its addresses in the order in which they were tried, and the outcome of each.
        attempts: Vec<DialFailure>,
    },
    /// A system call failed.
    Io {
        /// What was attempted.
        what: String,
        /// Kind of the system's answer.
        kind: std::io::ErrorKind,
        /// The system's answer in words.
        error: String,
    },
}

impl Error {
    /// Converts the error of a range to that of a range in a list.
    pub(crate) fn at_index_of_list(self, index: usize) -> Self {
        match self {
            Self::Registration { problem, .. } => Self::ListedRegistration { index, problem },
            other => other,
        }
    }

    /// Converts the error to that of a part of an operation: the peer's name includes the device at
    /// this end.
    pub(crate) fn of_device(mut self, device: Device) -> Self {
        let peer = match &mut self {
            Self::UnknownPeer { peer, .. }
            | Self::PeerState { peer, .. }
            | Self::PeerGone { peer, .. }
            | Self::Handshake { peer, .. }
            | Self::Encryption { peer, .. }
            | Self::Protocol { peer, .. }
            | Self::Fragments { peer, .. }
            | Self::Unreachable { peer, .. } => Some(peer),
            Self::Deadline { peer, .. }
            | Self::Remote { peer, .. }
            | Self::Expired { peer, .. } => peer.as_mut(),
            _ => None,
        };
        if let Some(peer) = peer {
            *peer = format!("{peer} from {device}");
        }
        self
    }

    /// Returns the end of a peer as a sending or receiving operation sees it.
    pub(crate) fn seen_by(&self, direction: Direction) -> Self {
        match (self, direction) {
            (Self::PeerGone { peer, phase: Phase::Receive, how }, Direction::Send) => {
                Self::PeerGone { peer: peer.clone(), phase: Phase::Send, how: how.clone() }
            }
            (error, _) => error.clone(),
        }
    }

    /// Makes the error of memory that is being copied to or from.
    pub(crate) fn being_copied(id: MemoryId) -> Self {
        Self::InUse { id, operations: 0, holders: String::new() }
    }

    pub(crate) fn io(what: impl Into<String>, error: &std::io::Error) -> Self {
        Self::Io { what: what.into(), kind: error.kind(), error: error.to_string() }
    }

    pub(crate) fn setting(
        name: &'static str,
        value: impl Into<String>,
        problem: SettingProblem,
    ) -> Self {
        Self::Setting { name, value: value.into(), problem }
    }
}

impl From<Forked> for Error {
    fn from(_: Forked) -> Self {
        Self::Forked
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        Self::Load(Arc::new(error))
    }
}

impl From<UnpackError> for Error {
    fn from(error: UnpackError) -> Self {
        Self::Unpack(Arc::new(error))
    }
}
