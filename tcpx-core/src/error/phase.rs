//! Where in the life of a session something went wrong.

use std::fmt;

use tcpx_protocol::types::Direction;

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
