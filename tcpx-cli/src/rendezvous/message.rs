//! What the two ends say to each other.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::session::SessionRequest;

/// Every kind of message, by its number in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Kind {
    Abort = 1,
    Request,
    Answer,
    Connected,
    Go,
    Times,
    SocketOffer,
    Verdict,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Abort,
        Self::Request,
        Self::Answer,
        Self::Connected,
        Self::Go,
        Self::Times,
        Self::SocketOffer,
        Self::Verdict,
    ];

    /// The kind with this number.
    pub(super) fn of(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u16 == number)
    }

    /// The noun for errors.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::Request => "request",
            Self::Answer => "answer",
            Self::Connected => "word that it is connected",
            Self::Go => "go",
            Self::Times => "times",
            Self::SocketOffer => "offer of plain sockets",
            Self::Verdict => "verdict",
        }
    }

    /// Longest body, in bytes.
    pub(super) fn body_limit(self) -> usize {
        match self {
            // The times of every iteration there can be, of three ways each, and room to spare.
            Self::Times => 4 << 20,
            _ => 64 << 10,
        }
    }
}

/// One message. Its body is in postcard's format.
pub(crate) trait Message: Serialize + DeserializeOwned {
    const KIND: Kind;
}

/// Either end: I give up, and this is why.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Abort(pub(super) String);

/// Client: this is what we are going to do. The server adopts all of it or refuses.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    /// The client's subcommand of `tcpx`.
    pub(super) command: String,
    pub(super) session: SessionRequest,
    /// What the command is to do. Only the same command can read it.
    pub(super) plan: Vec<u8>,
}

/// Server: yes, and this is how my session is reached; or no.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Accepted {
        conn_info: Vec<u8>,
        /// The unpack implementation that the server uses.
        unpack: String,
    },
    Refused {
        reason: String,
    },
}

/// Either end: my session is connected.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Connected;

impl Message for Abort {
    const KIND: Kind = Kind::Abort;
}

impl Message for Request {
    const KIND: Kind = Kind::Request;
}

impl Message for Answer {
    const KIND: Kind = Kind::Answer;
}

impl Message for Connected {
    const KIND: Kind = Kind::Connected;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_number_of_its_own() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index + 1, "{}", kind.name());
            assert_eq!(Kind::of(kind as u16), Some(kind));
        }
        assert_eq!((Kind::of(0), Kind::of(9)), (None, None));
    }
}
