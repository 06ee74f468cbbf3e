//! What can go wrong, with the numbers that a reader of a log needs, and the id of its diagnosis.
//!
//! [`Error`] is here; what its variants hold lies below, and knows nothing of it:
//! - `phase`, `departure`: when it happened, and how a peer went.
//! - `plugin_failure`, `unpack_failure`, `conn_info`: what failed.
//!
//! Above it, as `impl` blocks:
//! - `diagnosis`: which entry of the table of diagnoses an error is a case of.

pub(crate) mod conn_info;
mod departure;
mod diagnosis;
mod phase;
mod plugin_failure;
pub(crate) mod unpack_failure;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tcpx_rx::DescriptorError;
use tcpx_sys::LoadError;
use tcpx_unpack::UnpackError;

pub use departure::Departure;
pub(crate) use diagnosis::HOST_RECEIVE;
pub use diagnosis::of_connecting;
use diagnosis::suffix;
pub use phase::Phase;
pub use plugin_failure::PluginFailure;

use self::unpack_failure::UnpackFailure;
use crate::types::Direction;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Every error of this crate. Cloneable, because one dead peer is the error of many transfers.
///
/// The text of one that has a diagnosis ends with its id in brackets, `[TCPX-902]`; see [`Error::id`].
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is outside its range or contradicts another.
    #[error("{name} = {value}: {reason}{}", suffix(self))]
    Setting {
        /// Name of the option or variable.
        name: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it and what would be right.
        reason: String,
    },
    /// The plugin file could not be used.
    #[error("{}{}", .0, suffix(self))]
    Load(Arc<LoadError>),
    /// The hardware plugin would end the process, crash or hang on this host, so it was not loaded.
    #[error("the plugin was not loaded: {}{}", first_finding(.0), suffix(self))]
    Preflight(Arc<tcpx_diagnosis::Report>),
    /// A plugin was asked for that this build does not contain.
    #[error(
        "the software plugin is not part of this build (feature `soft`); name a plugin by path{}",
        suffix(self)
    )]
    NoSoftPlugin,
    /// A plugin call failed.
    #[error("{}{}", .0, suffix(self))]
    Plugin(PluginFailure),
    /// The plugin has properties this library cannot work with.
    #[error("plugin {path}: {reason}{}", suffix(self))]
    UnusablePlugin {
        /// Which plugin.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// No NIC fits what was asked for.
    #[error("no NIC {wanted}; the plugin offers: {available}{}", suffix(self))]
    NoNic {
        /// What was asked for.
        wanted: String,
        /// The names the plugin reported.
        available: String,
    },
    /// Memory of a kind that is not to be had here.
    #[error("{kind} memory is not available: {reason}{}", suffix(self))]
    MemoryUnavailable {
        /// What was asked for.
        kind: &'static str,
        /// Why not.
        reason: String,
    },
    /// An unpack backend is not available.
    #[error("unpack: {}{}", .0, suffix(self))]
    Unpack(Arc<UnpackError>),
    /// A chunk could not be unpacked. The session does not recover: every peer of it ends with this.
    #[error("{}{}", .0, suffix(self))]
    UnpackFailed(Arc<UnpackFailure>),
    /// A deadline passed.
    #[error("deadline of {waited:?} passed during {phase}{}: {detail}{}", peer_suffix(.peer.as_ref()), suffix(self))]
    Deadline {
        /// What was being done.
        phase: Phase,
        /// With whom, if anybody.
        peer: Option<String>,
        /// How long was waited.
        waited: Duration,
        /// What was missing, in words.
        detail: String,
    },
    /// No peer of this name.
    #[error("unknown peer {peer}; known peers: {known}")]
    UnknownPeer {
        /// The name that was used.
        peer: String,
        /// The names that exist.
        known: String,
    },
    /// The peer is not in a state for this call.
    #[error("peer {peer} is {state}: {cure}")]
    PeerState {
        /// Which peer.
        peer: String,
        /// Its state in words.
        state: &'static str,
        /// What to call first.
        cure: &'static str,
    },
    /// The peer went away.
    #[error("peer {peer} is gone during {phase}: {how}{}", suffix(self))]
    PeerGone {
        /// Which peer.
        peer: String,
        /// What was being done with it.
        phase: Phase,
        /// How it went.
        how: Departure,
    },
    /// The two ends do not fit together, or the other end could not prove who it is.
    #[error("handshake with {peer} failed: {reason}{}", suffix(self))]
    Handshake {
        /// Which peer.
        peer: String,
        /// Both ends' values, or what was wrong.
        reason: String,
    },
    /// Connection info that cannot be used.
    #[error("connection info: {}{}", .0, suffix(self))]
    ConnInfo(#[from] conn_info::ConnInfoError),
    /// A frame that no well-behaved peer sends.
    #[error("peer {peer} broke the control link protocol: {detail}{}", suffix(self))]
    Protocol {
        /// Which peer.
        peer: String,
        /// What came.
        detail: String,
    },
    /// The two ends posted different sizes for one message.
    #[error(
        "size mismatch with peer {peer}, tag {tag}: sender posted {send_bytes} bytes, receiver {recv_bytes}{}",
        suffix(self)
    )]
    SizeMismatch {
        /// Which peer.
        peer: String,
        /// Tag of the message.
        tag: i32,
        /// Bytes of the send.
        send_bytes: u64,
        /// Bytes of the receive.
        recv_bytes: u64,
    },
    /// No registration has this id.
    #[error("registration {id} does not exist")]
    UnknownRegistration {
        /// The id that was used.
        id: u64,
    },
    /// A registration cannot serve this post.
    #[error("registration {id}: {reason}{}", suffix(self))]
    Registration {
        /// The id, 0 when it has none yet.
        id: u64,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// A registration is still used by posted operations.
    #[error(
        "registration {id} is in use by {operations} posted operations; wait for their transfers or cancel them{}",
        suffix(self)
    )]
    InUse {
        /// The registration.
        id: u64,
        /// How many operations use it.
        operations: usize,
    },
    /// What arrived is not what was announced. Nothing was copied.
    #[error(
        "peer {peer}, channel {channel}, chunk of {chunk_bytes} bytes: {source}{}",
        suffix(self)
    )]
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
    #[error("cancelled")]
    Cancelled,
    /// A transfer that was released already.
    #[error("the transfer was released")]
    Released,
    /// The session is closed.
    #[error("the session is closed")]
    Closed,
    /// A system call failed.
    #[error("{what}: {error}{}", suffix(self))]
    Io {
        /// What was attempted.
        what: String,
        /// The system's answer.
        error: String,
    },
}

fn peer_suffix(peer: Option<&String>) -> String {
    peer.map(|peer| format!(" with peer {peer}")).unwrap_or_default()
}

fn first_finding(report: &tcpx_diagnosis::Report) -> String {
    let more = match report.findings().len() {
        0 | 1 => String::new(),
        findings => format!(" (and {} more findings)", findings - 1),
    };
    report.findings().first().map_or_else(String::new, |first| {
        let cure = first.cure.join("; ");
        format!("{}; {}; cure: {cure}{more}", first.seen, first.why)
    })
}

impl Error {
    /// The end of a peer as an operation sees it that was sending, or receiving, when it came.
    pub(crate) fn seen_by(&self, direction: Direction) -> Self {
        match (self, direction) {
            (Self::PeerGone { peer, phase: Phase::Receive, how }, Direction::Send) => {
                Self::PeerGone { peer: peer.clone(), phase: Phase::Send, how: how.clone() }
            }
            (error, _) => error.clone(),
        }
    }

    pub(crate) fn io(what: impl Into<String>, error: &std::io::Error) -> Self {
        Self::Io { what: what.into(), error: error.to_string() }
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
