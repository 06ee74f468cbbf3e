//! Where in its life a conversation is. What belongs to a stage lives inside it.

use super::shutdown::Shutdown;

#[derive(Debug)]
pub(super) enum Stage {
    /// The first channels are being made, both ways.
    Connecting {
        /// This end leaves as soon as it is up, because the peer may be up already.
        leaves: bool,
    },
    /// Transfers may be posted.
    Up {
        /// The peer has said goodbye before an accept had named it: the answer waits for that.
        peer_left: bool,
    },
    /// Saying goodbye.
    Closing(Shutdown),
    /// It has ended.
    Over,
}

impl Stage {
    /// What the driver is told of it.
    pub(super) fn seen(&self) -> PeerStage {
        match self {
            Self::Connecting { .. } => PeerStage::Connecting,
            Self::Up { .. } => PeerStage::Up,
            Self::Closing(shutdown) => {
                PeerStage::Closing { peer_left: shutdown.has_heard_goodbye() }
            }
            Self::Over => PeerStage::Over,
        }
    }

    /// Whether it is over, or one of the ends has said goodbye or is about to.
    pub(super) fn is_leaving(&self) -> bool {
        match self {
            Self::Connecting { leaves } => *leaves,
            Self::Up { peer_left } => *peer_left,
            Self::Closing(_) | Self::Over => true,
        }
    }

    /// In words, for reports and errors.
    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::Connecting { .. } => "connecting",
            Self::Up { .. } => "up",
            Self::Closing(_) => "closing",
            Self::Over => "gone",
        }
    }
}

/// Where in its life a peer is, as its driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerStage {
    /// Comms are being connected, both ways.
    Connecting,
    /// Transfers may be posted.
    Up,
    /// Saying goodbye.
    Closing {
        /// The peer has said it.
        peer_left: bool,
    },
    /// It has ended.
    Over,
}

/// What became of a goodbye that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// It is said when it is due, and answered by the peer.
    Begun,
    /// The peer cannot be up at its end: nobody there would answer.
    NobodyThere,
}
