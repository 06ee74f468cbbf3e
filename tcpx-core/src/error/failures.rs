//! Failures: calls of the plugin that failed or do not return, addresses at which a peer was not
//! reached, peers that went away, and the phase of the session.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;
use std::{fmt, io};

use tcpx_diagnosis::{Code, Finding};
use tcpx_protocol::types::Direction;
use tcpx_sys::{NcclResult, printable};

use super::optional::prefixed;

/// How a peer went away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Departure {
    /// The peer said goodbye.
    #[error("it said goodbye")]
    Goodbye,
    /// The peer's end of the control link closed without a goodbye: the process ended or was
    /// killed.
    #[error("its control link closed without a goodbye; the process ended or was killed")]
    LinkClosed,
    /// The control link failed.
    #[error("its control link failed: {}", printable(.error))]
    LinkFailed {
        /// Kind of the system's answer; `None` if the peer stopped reading.
        kind: Option<io::ErrorKind>,
        /// What happened, in words.
        error: String,
    },
    /// The bytes on the peer's encrypted control link are not those that it sent. An attacker
    /// on the way has changed, omitted, repeated, moved or inserted bytes.
    #[error(
        "record {record} on its control link is not the one that it sent: {problem}; bytes were \
         changed, left out, repeated or put in on the way"
    )]
    LinkTampered {
        /// Number of the first record that is not the peer's own, counted from 0.
        record: u64,
        /// What is wrong with the record, in words.
        problem: String,
    },
    /// The peer gave up and said why.
    #[error("it aborted: {}", printable(.0))]
    Abort(String),
    /// The peer makes progress by itself, and yet nothing was heard of it for this time, though it
    /// was asked.
    #[error(
        "nothing was heard of it for {:.1} s, though it was asked and has a progress thread: it is \
         frozen, or the network is cut", .0.as_secs_f64()
    )]
    Silent(Duration),
    /// The peer's host has acknowledged nothing for this time, though bytes are in flight to it.
    #[error(
        "its host has acknowledged nothing for {:.1} s: the network is cut, or the host is down",
        .0.as_secs_f64()
    )]
    HostGone(Duration),
    /// The peer did not answer this end's goodbye within this time.
    #[error("it did not answer this end's goodbye within {0:.1?}")]
    Unanswered(Duration),
    /// The peer was not connected within its time.
    #[error("it was not connected within {waited:.1?}: {state}")]
    NeverUp {
        /// Length of that time.
        waited: Duration,
        /// State that the peer reached, in words.
        state: &'static str,
    },
    /// The peer has not ended its use of memory that was taken back, within this time.
    #[error("it did not release revoked memory within {0:.1?}")]
    KeptMemory(Duration),
    /// The peer wants a data channel dialled at an address that is not its own, as this end sees
    /// it. The address is neither the other end of its link, nor in the connection info that was
    /// loaded for the peer.
    #[error(
        "it wants channel {channel} dialled at {address}, which is neither the other end of its \
         control link nor in connection info that was loaded for it"
    )]
    ForeignAddress {
        /// Number of the channel.
        channel: u16,
        /// Address that the peer wants dialled.
        address: SocketAddr,
    },
    /// The peer's control link lives, but chunks that it has sent do not arrive.
    #[error(
        "it has sent {sent} chunks on channel {channel}, {arrived} have arrived, and none for {:.1} \
         s: the data path is cut, though its control link lives", .waited.as_secs_f64()
    )]
    ChunksLost {
        /// Number of the channel.
        channel: u16,
        /// Number of chunks that the peer has sent on this channel.
        sent: u64,
        /// Number of those chunks that have arrived here.
        arrived: u64,
        /// Time for which none has arrived, though a receive is posted.
        waited: Duration,
    },
}

impl Departure {
    /// State of a peer whose data channels were dialled in vain.
    pub(crate) const DIAL_UNANSWERED: &'static str = "its data channels do not answer";
}

/// Address of a peer that was tried, and the outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address}: {error}")]
#[non_exhaustive]
pub struct DialFailure {
    /// Address with its port.
    pub address: String,
    /// Kind of the system's answer; `None` if another program than the peer answered.
    pub kind: Option<ErrorKind>,
    /// The answer in words.
    pub error: String,
}

/// Phase of a session's life in which an error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Opening and initialising the plugin.
    Load,
    /// Making the control listener or listen comms.
    Listen,
    /// Reaching the peer's control link, or connecting comms to it.
    Connect,
    /// Waiting for the peer's control link, or accepting its comms.
    Accept,
    /// Hello and proof of the secret.
    Handshake,
    /// Making memory known to the plugin.
    Register,
    /// Sending chunks.
    Send,
    /// Receiving chunks.
    Receive,
    /// Copying fragments out of the bounce buffer.
    Unpack,
    /// Saying goodbye and closing comms.
    Close,
}

impl Phase {
    /// Returns the phase of an operation of this direction.
    pub(crate) fn of(direction: Direction) -> Self {
        match direction {
            Direction::Send => Self::Send,
            Direction::Receive => Self::Receive,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "load",
            Self::Listen => "listen",
            Self::Connect => "connect",
            Self::Accept => "accept",
            Self::Handshake => "handshake",
            Self::Register => "register",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Unpack => "unpack",
            Self::Close => "close",
        })
    }
}

/// Call of the plugin that did not return 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "plugin call {call} returned {code} during {phase}{}{}{}{}",
    prefixed(", peer ", .peer),
    prefixed(", channel ", .channel),
    prefixed(", NIC ", .nic),
    .cause.as_deref().map_or_else(String::new, |Finding { seen, cure, .. }| {
        format!(": {seen}; cure: {}", cure.join("; "))
    })
)]
#[non_exhaustive]
pub struct PluginFailure {
    /// Member of the v7 table that was called, or of the software plugin's addition to it, which
    /// reports dead comms: `checkComm`.
    pub call: &'static str,
    /// Return code of the call.
    pub code: NcclResult,
    /// Phase of the session's life.
    pub phase: Phase,
    /// Peer of the comm, if the call has one.
    pub peer: Option<String>,
    /// Channel of the comm, if the call has one.
    pub channel: Option<u16>,
    /// Name of the NIC.
    pub nic: Option<String>,
    /// Finding that explains the failure, if this host was seen to have such a fault.
    pub cause: Option<Box<Finding>>,
}

/// Call of the plugin that has not returned for a long time, or that answers each time that it is
/// not ready. The call is abandoned with its comm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "plugin call {call} {} for {:.1} s during {phase}, peer {peer}, channel {channel}, NIC {nic}; it \
     is left behind{}",
    if *.returns { "was not ready" } else { "has not returned" },
    .waited.as_secs_f64(),
    if *.returns { " with the thread of the plugin that waits" } else { "" }
)]
#[non_exhaustive]
pub struct PluginHang {
    /// Member of the v7 table that was called.
    pub call: &'static str,
    /// Phase of the session's life.
    pub phase: Phase,
    /// Peer of the comm.
    pub peer: String,
    /// Channel of the comm.
    pub channel: u16,
    /// Name of the NIC.
    pub nic: String,
    /// Time for which the call has been in progress. A pause of the process counts as a moment,
    /// unless the call returns.
    pub waited: Duration,
    /// Whether the call returns, and a thread of the plugin waits instead.
    pub returns: bool,
    /// Diagnosis of what the call waits for, if it was found, or if there is only one candidate.
    pub found: Option<Code>,
}
