//! How a peer went away.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tcpx_sys::printable;

/// How a peer went away.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Departure {
    /// It said goodbye.
    Goodbye,
    /// Its end of the control link closed without a goodbye: the process ended or was killed.
    LinkClosed,
    /// The control link failed.
    LinkFailed {
        /// The system's answer as a kind; `None` where the peer stopped reading.
        kind: Option<io::ErrorKind>,
        /// What happened, in words.
        error: String,
    },
    /// What comes on its authenticated control link is not what it sent: somebody on the way has
    /// changed, left out, repeated, moved or made up bytes.
    LinkTampered {
        /// The first record that is not its own, counted from 0.
        record: u64,
        /// What is wrong with it, in words.
        problem: String,
    },
    /// It gave up and said why.
    Abort(String),
    /// It makes progress by itself, and yet nothing was heard of it for so long, though it was
    /// asked.
    Silent(Duration),
    /// Its host has acknowledged nothing for so long, though bytes are under way to it.
    HostGone(Duration),
    /// It did not answer this end's goodbye within this time.
    Unanswered(Duration),
    /// It was not connected within its time.
    NeverUp {
        /// How long that was.
        waited: Duration,
        /// How far it came, in words.
        state: &'static str,
    },
    /// It has not ended what it did with memory that was taken back, within this time.
    KeptMemory(Duration),
    /// It wants a data channel dialled at an address that is not its own, as far as this end knows:
    /// neither the other end of its link, nor in the connection info that was loaded for it.
    ForeignAddress {
        /// The channel.
        channel: u16,
        /// The address.
        address: SocketAddr,
    },
    /// Its control link lives, but chunks that it has sent do not arrive.
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

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Goodbye => f.write_str("it said goodbye"),
            Self::LinkClosed => f.write_str(
                "its control link closed without a goodbye; the process ended or was killed",
            ),
            Self::LinkFailed { error, .. } => {
                write!(f, "its control link failed: {}", printable(error))
            }
            Self::LinkTampered { record, problem } => write!(
                f,
                "record {record} on its control link is not the one that it sent: {problem}; bytes \
                 were changed, left out, repeated or put in on the way"
            ),
            Self::Abort(reason) => write!(f, "it aborted: {}", printable(reason)),
            Self::Silent(silence) => write!(
                f,
                "nothing was heard of it for {:.1} s, though it was asked and has a progress \
                 thread: it is frozen, or the network is cut",
                silence.as_secs_f64()
            ),
            Self::HostGone(silence) => write!(
                f,
                "its host has acknowledged nothing for {:.1} s: the network is cut, or the host is \
                 down",
                silence.as_secs_f64()
            ),
            Self::Unanswered(waited) => {
                write!(f, "it did not answer this end's goodbye within {waited:.1?}")
            }
            Self::NeverUp { waited, state } => {
                write!(f, "it was not connected within {waited:.1?}: {state}")
            }
            Self::KeptMemory(waited) => {
                write!(f, "it did not let go of memory that was taken back within {waited:.1?}")
            }
            Self::ForeignAddress { channel, address } => write!(
                f,
                "it wants channel {channel} dialled at {address}, which is neither the other end of \
                 its control link nor in connection info that was loaded for it"
            ),
            Self::ChunksLost { channel, sent, arrived, waited } => write!(
                f,
                "it has sent {sent} chunks on channel {channel}, {arrived} have arrived, and none \
                 for {:.1} s: the data path is cut, though its control link lives",
                waited.as_secs_f64()
            ),
        }
    }
}
