//! What can go wrong, with the numbers that a reader of a log needs, and the id of its diagnosis.
//!
//! [`Error`] is here; what its variants hold lies below, and knows nothing of it:
//! - `failures`, `unpack_failure`: what failed, when, and how a peer went, with all that is known
//!   of it.
//! - `problems`: why a setting or memory was refused. What is wrong with connection info and remote
//!   memory, `tcpx_protocol::error` says.
//! - `optional`: what their texts say only if it is known.
//!
//! Above it, as `impl` blocks:
//! - `diagnosis`: which entry of the table of diagnoses an error is a case of.
//! - `awaited`: what was missing when a deadline passed.
//! - `display`: an error in words, and the id at their end.

pub(crate) mod awaited;
pub(crate) mod diagnosis;
mod display;
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
pub use failures::{Departure, DialFailure, Phase, PluginFailure, PluginHang};
pub use problems::{
    BounceBufferProblem, MemoryUnavailable, PluginChunkProblem, RegistrationProblem, SettingProblem,
};
pub use tcpx_protocol::error::{RemoteKeyError, RemoteProblem};

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Every error of this crate. Cloneable, because one dead peer is the error of many transfers.
///
/// The text of one that has a diagnosis ends with its id in brackets, `[TCPX-902]`; see
/// [`Error::id`].
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is outside its range or contradicts another.
    Setting {
        /// Name of the option or variable.
        name: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it and what would be right.
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
    /// A plugin call does not return. It is left behind with its comm, whose peer ends.
    PluginHangs(PluginHang),
    /// The plugin has properties this library cannot work with.
    UnusablePlugin {
        /// Which plugin.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// No NIC fits what was asked for.
    NoNic {
        /// What was asked for.
        wanted: String,
        /// The names the plugin reported.
        available: Vec<String>,
    },
    /// Memory of a kind that is not to be had here.
    MemoryUnavailable(MemoryUnavailable),
    /// An unpack backend is not available.
    Unpack(Arc<UnpackError>),
    /// A chunk could not be unpacked. The session does not recover: every peer of it ends with
    /// this.
    UnpackFailed(Arc<UnpackFailure>),
    /// A deadline passed: the call that had it returns. No operation ends with this.
    Deadline {
        /// What was being done.
        phase: Phase,
        /// With whom, if anybody.
        peer: Option<String>,
        /// How long was waited.
        waited: Duration,
        /// What was missing; its text says it.
        detail: Awaited,
    },
    /// No peer of this name.
    UnknownPeer {
        /// The name that was used.
        peer: String,
        /// The names that exist.
        known: String,
    },
    /// The peer is not in a state for this call.
    PeerState {
        /// Which peer.
        peer: String,
        /// Its state in words.
        state: &'static str,
        /// What to call first.
        cure: &'static str,
    },
    /// The peer went away.
    PeerGone {
        /// Which peer.
        peer: String,
        /// What was being done with it.
        phase: Phase,
        /// How it went.
        how: Departure,
    },
    /// The two ends do not fit together, or the other end could not prove who it is.
    Handshake {
        /// Which peer.
        peer: String,
        /// Both ends' values, or what was wrong.
        reason: String,
    },
    /// Connection info that cannot be used.
    ConnInfo(#[from] tcpx_protocol::error::ConnInfoError),
    /// A frame that no well-behaved peer sends.
    Protocol {
        /// Which peer.
        peer: String,
        /// What came.
        detail: String,
    },
    /// The two ends posted different sizes for one message.
    SizeMismatch {
        /// Which peer.
        peer: String,
        /// Tag of the message.
        tag: i64,
        /// Bytes of the send.
        send_bytes: u64,
        /// Bytes of the receive.
        recv_bytes: u64,
    },
    /// No registration has this id.
    UnknownRegistration {
        /// The id that was used.
        id: MemoryId,
    },
    /// A registration cannot serve this post.
    Registration {
        /// The id, if it has one yet.
        id: Option<MemoryId>,
        /// What is wrong and what would be right.
        problem: RegistrationProblem,
    },
    /// A range of a list cannot be registered, so none of them was.
    ListedRegistration {
        /// Its place in the list, from 0 on.
        index: usize,
        /// What is wrong and what would be right.
        problem: RegistrationProblem,
    },
    /// A registration is used by posted operations, or by a copy through the session. After an
    /// attempt to deregister it, it still is: its memory must stay as it is, nothing begins to use
    /// it any more, and [`deregister_memory`](crate::Session::deregister_memory) waits again.
    InUse {
        /// The registration.
        id: MemoryId,
        /// How many operations use it; 0: another thread reads or writes it through the session.
        operations: usize,
        /// After an attempt to deregister it: the peers whose operations these are, and what holds
        /// each of them up; empty otherwise.
        holders: String,
    },
    /// Memory that is exported, or is said to be, cannot be used so. Nothing was moved by what was
    /// refused.
    Remote {
        /// Whose memory; `None`: this session's own.
        peer: Option<String>,
        /// Its registration there, if the key says it.
        memory: Option<MemoryId>,
        /// What is wrong.
        problem: RemoteProblem,
    },
    /// Bytes that are no key to remote memory.
    RemoteKey(#[from] RemoteKeyError),
    /// A notification of more than 65,536 bytes.
    NotificationTooLong {
        /// Its bytes.
        bytes: u64,
    },
    /// The peer's program has not taken what was sent before, or the peer is yet to be reached, and
    /// no more may wait here.
    NotificationsFull {
        /// Which peer.
        peer: String,
        /// What waits here, in bytes.
        queued_bytes: u64,
    },
    /// What arrived is not what was announced. Nothing was copied.
    Fragments {
        /// Which peer.
        peer: String,
        /// Which channel.
        channel: u16,
        /// Bytes the chunk should have.
        chunk_bytes: u64,
        /// What is wrong with the unpack descriptors.
        source: DescriptorError,
    },
    /// The operation was cancelled.
    Cancelled,
    /// It had not ended within the time that the program gave it.
    Expired {
        /// With which peer, if that is known still.
        peer: Option<String>,
        /// How long that was.
        after: Duration,
    },
    /// A transfer that was released already.
    Released,
    /// The program has closed the session, or disconnected the peer.
    Closed,
    /// This process was forked from one that had made a session, and must not use the library.
    /// Nothing was done. See [Fork](crate#fork).
    Forked,
    /// No address of a peer leads to it.
    Unreachable {
        /// Which peer.
        peer: String,
        /// Its addresses in the order in which they were tried, and what came of each.
        attempts: Vec<DialFailure>,
    },
    /// A system call failed.
    Io {
        /// What was attempted.
        what: String,
        /// The system's answer as a kind.
        kind: std::io::ErrorKind,
        /// The system's answer in words.
        error: String,
    },
}

impl Error {
    /// The same of a range that is one of a list.
    pub(crate) fn at_index_of_list(self, index: usize) -> Self {
        match self {
            Self::Registration { problem, .. } => Self::ListedRegistration { index, problem },
            other => other,
        }
    }

    /// The same of a part of an operation: its peer is named with the device at this end.
    pub(crate) fn of_device(mut self, device: Device) -> Self {
        let peer = match &mut self {
            Self::UnknownPeer { peer, .. }
            | Self::PeerState { peer, .. }
            | Self::PeerGone { peer, .. }
            | Self::Handshake { peer, .. }
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

    /// The end of a peer as an operation sees it that was sending, or receiving, when it came.
    pub(crate) fn seen_by(&self, direction: Direction) -> Self {
        match (self, direction) {
            (Self::PeerGone { peer, phase: Phase::Receive, how }, Direction::Send) => {
                Self::PeerGone { peer: peer.clone(), phase: Phase::Send, how: how.clone() }
            }
            (error, _) => error.clone(),
        }
    }

    /// The error of memory that is being copied to or from.
    pub(crate) fn copied(id: MemoryId) -> Self {
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
