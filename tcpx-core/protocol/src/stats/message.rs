//! Counters of a peer's messages.

use serde::Serialize;

use super::one_sided::OneSidedStats;

/// Counters of a peer's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageStats {
    /// Sends that found their receive, or went ahead of it.
    pub sent: u64,
    /// Receives that found their send.
    pub received: u64,
    /// Those of them that travelled on the control link.
    pub sent_on_link: EagerStats,
    /// Those of the received ones that travelled on the control link.
    pub received_on_link: EagerStats,
    /// What was done with exported memory, and notifications.
    pub one_sided: OneSidedStats,
}

/// Messages that travelled on the control link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EagerStats {
    /// How many.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl EagerStats {
    /// One more.
    pub fn note(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }

    /// Adds what another peer counted.
    pub fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}
