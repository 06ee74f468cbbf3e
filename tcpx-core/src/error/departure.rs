//! How a peer went away.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tcpx_sys::printable;

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
