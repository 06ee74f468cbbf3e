//! What failed: calls of the plugin that failed or do not return, addresses at which a peer was not
//! reached, peers that went away; and where in the life of a session that was.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;
use std::{fmt, io};

use tcpx_diagnosis::{Code, Finding};
use tcpx_protocol::types::Direction;
use tcpx_sys::{NcclResult, printable};

use super::optional::after;

/// How a peer went away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Departure {
    /// It said goodbye.
    #[error("it said goodbye")]
    Goodbye,
    /// Its end of the control link closed without a goodbye: the process ended or was killed.
    #[error("its control link closed without a goodbye; the process ended or was killed")]
    LinkClosed,
    /// The control link failed.
    #[error("its control link failed: {}", printable(.error))]
    LinkFailed {
        /// The system's answer as a kind; `None` where the peer stopped reading.
        kind: Option<io::ErrorKind>,
        /// What happened, in words.
        error: String,
    },
    /// What comes on its authenticated control link is not what it sent: somebody on the way has
    /// changed, left out, repeated, moved or made up bytes.
    #[error(
        "record {record} on its control link is not the one that it sent: {problem}; bytes were \
         changed, left out, repeated or put in on the way"
    )]
    LinkTampered {
        /// The first record that is not its own, counted from 0.
        record: u64,
        /// What is wrong with it, in words.
        problem: String,
    },
    /// It gave up and said why.
    #[error("it aborted: {}", printable(.0))]
    Abort(String),
    /// It makes progress by itself, and yet nothing was heard of it for so long, though it was
    /// asked.
    #[error(
        "nothing was heard of it for {:.1} s, though it was asked and has a progress thread: it is \
         frozen, or the network is cut", .0.as_secs_f64()
    )]
    Silent(Duration),
    /// Its host has acknowledged nothing for so long, though bytes are under way to it.
    #[error(
        "its host has acknowledged nothing for {:.1} s: the network is cut, or the host is down",
        .0.as_secs_f64()
    )]
    HostGone(Duration),
    /// It did not answer this end's goodbye within this time.
    #[error("it did not answer this end's goodbye within {0:.1?}")]
    Unanswered(Duration),
    /// It was not connected within its time.
    #[error("it was not connected within {waited:.1?}: {state}")]
    NeverUp {
        /// How long that was.
        waited: Duration,
        /// How far it came, in words.
        state: &'static str,
    },
    /// It has not ended what it did with memory that was taken back, within this time.
    #[error("it did not let go of memory that was taken back within {0:.1?}")]
    KeptMemory(Duration),
    /// It wants a data channel dialled at an address that is not its own, as far as this end knows:
    /// neither the other end of its link, nor in the connection info that was loaded for it.
    #[error(
        "it wants channel {channel} dialled at {address}, which is neither the other end of its \
         control link nor in connection info that was loaded for it"
    )]
    ForeignAddress {
        /// The channel.
        channel: u16,
        /// The address.
        address: SocketAddr,
    },
    /// Its control link lives, but chunks that it has sent do not arrive.
    #[error(
        "it has sent {sent} chunks on channel {channel}, {arrived} have arrived, and none for {:.1} \
         s: the data path is cut, though its control link lives", .waited.as_secs_f64()
    )]
    ChunksLost {
        /// The channel.
        channel: u16,
        /// Chunks that it has sent on this channel.
        sent: u64,
        /// Those of them that have arrived here.
        arrived: u64,
        /// How long none has, though a receive is posted.
        waited: Duration,
    },
}

impl Departure {
    /// How far a peer has come whose data channels were dialled in vain.
    pub(crate) const DIAL_UNANSWERED: &'static str = "its data channels do not answer";
}

/// One address of a peer that was tried, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address}: {error}")]
#[non_exhaustive]
pub struct DialFailure {
    /// The address, with its port.
    pub address: String,
    /// The system's answer as a kind; `None` where something answered that is not the peer.
    pub kind: Option<ErrorKind>,
    /// The answer in words.
    pub error: String,
}

/// Where in the life of a session something went wrong.
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
    /// What an operation of this direction does.
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

/// A call into the plugin that did not return 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "plugin call {call} returned {code} during {phase}{}{}{}{}",
    after(", peer ", .peer),
    after(", channel ", .channel),
    after(", NIC ", .nic),
    .cause.as_deref().map_or_else(String::new, |Finding { seen, cure, .. }| {
        format!(": {seen}; cure: {}", cure.join("; "))
    })
)]
#[non_exhaustive]
pub struct PluginFailure {
    /// The member of the v7 table that was called, or of the software plugin's addition to it,
    /// which tells of dead comms: `checkComm`.
    pub call: &'static str,
    /// What it returned.
    pub code: NcclResult,
    /// Where in the session's life.
    pub phase: Phase,
    /// The peer whose comm it was, if any.
    pub peer: Option<String>,
    /// The channel whose comm it was, if any.
    pub channel: Option<u16>,
    /// The NIC, by name.
    pub nic: Option<String>,
    /// What explains it, where this host was seen to have such a fault.
    pub cause: Option<Box<Finding>>,
}

/// A call into the plugin that has not returned for a long time, or that says each time that it is
/// not ready. It is left behind, with its comm.
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
    /// The member of the v7 table that was called.
    pub call: &'static str,
    /// Where in the session's life.
    pub phase: Phase,
    /// The peer whose comm it is.
    pub peer: String,
    /// The channel whose comm it is.
    pub channel: u16,
    /// The NIC, by name.
    pub nic: String,
    /// How long it has been under way.
    pub waited: Duration,
    /// Whether it returns, and it is a thread of the plugin that waits.
    pub returns: bool,
    /// The diagnosis of what it waits for, where that was found, or is the one thing that it may
    /// be.
    pub found: Option<Code>,
}
