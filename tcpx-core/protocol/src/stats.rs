//! Counters of what peers do: of their messages, and of what they have done with memory of this
//! session by themselves, and notifications.

use serde::Serialize;

use crate::exports::refusal::Refusal;
use crate::types::memory::OperationKind;

/// Counters of a peer's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageStats {
    /// Sends that found their receive, or went ahead of it.
    pub sent: u64,
    /// Receives that found their send.
    pub received: u64,
    /// Counts of the sends that travelled on the control link.
    pub sent_on_link: EagerStats,
    /// Counts of the receives that travelled on the control link.
    pub received_on_link: EagerStats,
    /// Counts of exported memory and notifications.
    pub one_sided: OneSidedStats,
}

/// Messages that travelled on the control link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EagerStats {
    /// Number of messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl EagerStats {
    /// Counts one more.
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

/// Counts of what a peer has read and written of memory that this session exports, of its refused
/// requests, and of what both ends told each other for these. They are sums that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OneSidedStats {
    /// Writes of the peer that are done.
    pub writes_served: u64,
    /// Number of reads of the peer that were sent to the end.
    pub reads_served: u64,
    /// Bytes that the peer has written, also with writes that were stopped in the middle.
    pub bytes_written: u64,
    /// Bytes that the peer has read, likewise.
    pub bytes_read: u64,
    /// Requests of the peer that were refused because it has no key to the memory.
    pub refused_key: u64,
    /// Requests that were refused because they reach past what is exported.
    pub refused_range: u64,
    /// Requests that were refused because the key does not allow them.
    pub refused_access: u64,
    /// Requests that were refused for other reasons: there is no memory for the list, it is of
    /// mixed kinds or cannot be received into, or this session is leaving.
    pub refused_otherwise: u64,
    /// Requests that were refused, or stopped in the middle, because the export was taken back.
    pub revoked: u64,
    /// Notifications that were sent to the peer, by themselves or with operations.
    pub notifications_sent: u64,
    /// Number of notifications that waited for room at the peer when it ended, or said goodbye as
    /// well: they are lost.
    pub notifications_unsent: u64,
    /// Notifications of the peer that the program got, or can take out.
    pub notifications_received: u64,
    /// Number of ranges that the peer was sent in lists of operations, each list once.
    pub ranges_told: u64,
    /// Number of bytes of reads and writes of either end that this end has sent on the control
    /// link, which no channel counts.
    pub link_bytes_sent: u64,
    /// Bytes of reads and writes that came there.
    pub link_bytes_received: u64,
}

impl OneSidedStats {
    /// Counts a request of the peer that is over and has moved this many bytes. `stopped`: not all
    /// of its bytes moved.
    pub fn served(&mut self, kind: OperationKind, bytes: u64, stopped: Option<Refusal>) {
        let (requests, moved) = match kind {
            OperationKind::Write => (&mut self.writes_served, &mut self.bytes_written),
            OperationKind::Read => (&mut self.reads_served, &mut self.bytes_read),
        };
        *moved += bytes;
        match stopped {
            None => *requests += 1,
            Some(Refusal::Revoked) => self.revoked += 1,
            // The peer has given it up.
            Some(_) => {}
        }
    }

    /// Counts a request of the peer that was refused: nothing of it moves.
    pub fn refused(&mut self, why: Refusal) {
        *match why {
            Refusal::UnknownKey => &mut self.refused_key,
            Refusal::OutOfRange => &mut self.refused_range,
            Refusal::Access => &mut self.refused_access,
            Refusal::Revoked => &mut self.revoked,
            Refusal::NoMemory
            | Refusal::ReceiveIntoHostMemory
            | Refusal::MixedMemory
            | Refusal::Cancelled
            | Refusal::Leaves => &mut self.refused_otherwise,
        } += 1;
    }

    /// Adds what was counted for another peer.
    pub fn add(&mut self, other: &Self) {
        self.writes_served += other.writes_served;
        self.reads_served += other.reads_served;
        self.bytes_written += other.bytes_written;
        self.bytes_read += other.bytes_read;
        self.refused_key += other.refused_key;
        self.refused_range += other.refused_range;
        self.refused_access += other.refused_access;
        self.refused_otherwise += other.refused_otherwise;
        self.revoked += other.revoked;
        self.notifications_sent += other.notifications_sent;
        self.notifications_unsent += other.notifications_unsent;
        self.notifications_received += other.notifications_received;
        self.ranges_told += other.ranges_told;
        self.link_bytes_sent += other.link_bytes_sent;
        self.link_bytes_received += other.link_bytes_received;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_once_by_what_has_become_of_it() {
        let mut stats = OneSidedStats::default();
        stats.served(OperationKind::Write, 10, None);
        stats.served(OperationKind::Write, 3, Some(Refusal::Revoked));
        stats.served(OperationKind::Read, 7, Some(Refusal::Cancelled));
        for why in [Refusal::UnknownKey, Refusal::OutOfRange, Refusal::Access, Refusal::Leaves] {
            stats.refused(why);
        }
        stats.refused(Refusal::Revoked);
        let mut sum = stats;
        sum.add(&stats);
        let OneSidedStats { writes_served, reads_served, bytes_written, bytes_read, .. } = sum;
        assert_eq!((writes_served, bytes_written, reads_served, bytes_read), (2, 26, 0, 14));
        let refused = [sum.refused_key, sum.refused_range, sum.refused_access];
        assert_eq!((refused, sum.refused_otherwise, sum.revoked), ([2; 3], 2, 4));
    }
}
