//! When a peer must be driven next, apart from when something happens on its descriptors.

use std::time::Instant;

/// What a peer wants after a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attention {
    /// In the next round: it has more to do.
    pub(crate) again: bool,
    /// In every round: what it waits for is told by no descriptor.
    pub(crate) polls: bool,
    /// When a worker has come to something.
    pub(crate) awaits_worker: bool,
    /// Chunks of it are being unpacked or gathered.
    pub(crate) holds_slots: bool,
    /// Chunks are being sent.
    pub(crate) sending: bool,
    /// Posted receives wait.
    pub(crate) receiving: bool,
    /// At this time.
    pub(crate) timeout: Option<Instant>,
}

impl Attention {
    /// What both want together.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            again: self.again || other.again,
            polls: self.polls || other.polls,
            awaits_worker: self.awaits_worker || other.awaits_worker,
            holds_slots: self.holds_slots || other.holds_slots,
            sending: self.sending || other.sending,
            receiving: self.receiving || other.receiving,
            timeout: [self.timeout, other.timeout].into_iter().flatten().min(),
        }
    }
}
