//! Where in its life a conversation is. What belongs to a stage lives inside it.

use std::time::Instant;

use super::shutdown::Shutdown;

#[derive(Debug)]
pub(super) enum Stage {
    /// Comms are being connected, both ways.
    Connecting(Connecting),
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

/// How far the comms are.
#[derive(Debug)]
pub(super) struct Connecting {
    pub(super) began_at: Instant,
    /// Nobody waits for a peer that no accept has asked for, so its connecting ends at this time.
    pub(super) give_up_at: Option<Instant>,
    /// The peer's connect handles came.
    pub(super) has_handles: bool,
    /// The peer was told that every receive comm here is accepted. It may be up from then on.
    pub(super) said_ready: bool,
    /// The peer has accepted every send comm of this end.
    pub(super) peer_ready: bool,
    /// Every send comm of this end is connected.
    pub(super) is_connected: bool,
    /// The peer was up first, and is through already.
    pub(super) peer_left: bool,
    /// This end leaves as soon as it is up, because the peer may be up already.
    pub(super) leaves: bool,
}

impl Connecting {
    pub(super) fn new(began_at: Instant, give_up_at: Option<Instant>) -> Self {
        Self {
            began_at,
            give_up_at,
            has_handles: false,
            said_ready: false,
            peer_ready: false,
            is_connected: false,
            peer_left: false,
            leaves: false,
        }
    }

    /// Whether chunks may flow both ways.
    pub(super) fn is_ready(&self) -> bool {
        self.said_ready && self.peer_ready && self.is_connected
    }
}

impl Stage {
    /// What the driver is told of it.
    pub(super) fn seen(&self) -> PeerStage {
        match self {
            Self::Connecting(_) => PeerStage::Connecting,
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
            Self::Connecting(connecting) => connecting.peer_left || connecting.leaves,
            Self::Up { peer_left } => *peer_left,
            Self::Closing(_) | Self::Over => true,
        }
    }

    /// In words, for reports and errors.
    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::Connecting(connecting) => {
                match (connecting.has_handles, connecting.said_ready, connecting.peer_ready) {
                    (false, ..) => "proven, but its connect handles have not come",
                    (true, false, _) => "connecting comms; not all of its connections have come in",
                    (true, true, false) => "connecting comms; it has not accepted all of ours",
                    (true, true, true) => "connecting comms; ours are not all connected",
                }
            }
            Self::Up { .. } => "up",
            Self::Closing(_) => "closing",
            Self::Over => "gone",
        }
    }
}

/// Where in its life a peer is, as its driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerStage {
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
pub(crate) enum Leaving {
    /// It is said when it is due, and answered by the peer.
    Begun,
    /// The peer cannot be up at its end: nobody there would answer.
    NobodyThere,
}
