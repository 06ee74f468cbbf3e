//! Progress of the channels to the peer: none, on their way, or open. Pure.

use std::time::{Duration, Instant};

use crate::frames::frame::ChunkCounts;

#[derive(Debug)]
pub(in super::super) enum Channels {
    /// Neither end has asked for any.
    None,
    /// Comms are being connected, both ways.
    Opening(Setup),
    Open,
}

/// Progress of the comms of a set-up.
#[derive(Debug, Default)]
pub(in super::super) struct Setup {
    /// Time at which the set-up began, and time at which it is given up; `None`: as long as another
    /// waits for it.
    pub(in super::super) began_at: Option<Instant>,
    pub(in super::super) give_up_at: Option<Instant>,
    /// Whether the peer's connect handles came.
    pub(in super::super) has_handles: bool,
    /// Chunks that there is room for on each receive comm, once all of them at this end are
    /// accepted.
    pub(in super::super) accepted: Option<ChunkCounts>,
    /// Whether every send comm of this end is connected.
    pub(in super::super) is_connected: bool,
    /// Whether the peer knows that every comm here is there. The peer may be up from then on.
    pub(in super::super) sent_open: bool,
    /// Whether every comm of the peer is there.
    pub(in super::super) peer_is_open: bool,
}

impl Setup {
    /// Returns a set-up with which the link begins.
    pub(in super::super) fn new(began_at: Instant, time: Option<Duration>) -> Self {
        let give_up_at = time.and_then(|time| began_at.checked_add(time));
        Self { began_at: Some(began_at), give_up_at, ..Self::default() }
    }

    /// Returns the progress in words, for reports and errors.
    pub(in super::super) fn words(&self) -> &'static str {
        match (self.has_handles, &self.accepted, self.is_connected) {
            (false, ..) => "proven, but its connect handles have not come",
            (true, None, _) => "connecting comms; not all of its connections have come in",
            (true, Some(_), false) => "connecting comms; ours are not all connected",
            (true, Some(_), true) => "connecting comms; it has not said that all of its are there",
        }
    }
}

/// Result of an input to a set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(in super::super) enum Opened {
    /// Nothing else is due.
    No,
    /// The peer is up, and this end leaves.
    Leaves,
}
