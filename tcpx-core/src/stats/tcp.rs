//! Figures of TCP connections, as the kernel counts them, and sums of them.

use serde::Serialize;

/// Figures of the TCP connections over which a comm sends, or of a control link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TcpStats {
    /// Number of open connections on which bytes were sent. 0: nothing was sent, or the plugin does
    /// not show its connections, as the hardware plugin does not.
    pub connections: u64,
    /// Number of segments that the kernel has sent again, on closed connections as well.
    pub retransmits: u64,
    /// Smoothed round-trip times of the open connections in microseconds, summed. Divided by
    /// `connections` it is the mean.
    pub rtt_us_sum: u64,
    /// Longest smoothed round-trip time of an open connection in microseconds.
    pub rtt_us_max: u64,
}

impl TcpStats {
    /// Returns the figures of one connection.
    pub(crate) fn of_connection(retransmits: u32, rtt_us: u32) -> Self {
        let (retransmits, rtt_us) = (retransmits.into(), rtt_us.into());
        Self { connections: 1, retransmits, rtt_us_sum: rtt_us, rtt_us_max: rtt_us }
    }

    /// Adds the figures of other connections.
    pub(crate) fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.retransmits += other.retransmits;
        self.rtt_us_sum += other.rtt_us_sum;
        self.rtt_us_max = self.rtt_us_max.max(other.rtt_us_max);
    }

    /// Returns what stays of the figures when the connections are closed.
    pub(crate) fn closed(self) -> Self {
        Self { retransmits: self.retransmits, ..Self::default() }
    }
}

impl FromIterator<Self> for TcpStats {
    fn from_iter<I: IntoIterator<Item = Self>>(connections: I) -> Self {
        let mut sum = Self::default();
        connections.into_iter().for_each(|connection| sum.add(&connection));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_summed_and_only_their_retransmits_outlive_them() {
        let sum: TcpStats = [(1, 40), (2, 60)]
            .map(|(again, rtt)| TcpStats::of_connection(again, rtt))
            .into_iter()
            .collect();
        let expected = TcpStats { connections: 2, retransmits: 3, rtt_us_sum: 100, rtt_us_max: 60 };
        assert_eq!(sum, expected);
        assert_eq!(sum.closed(), TcpStats { retransmits: 3, ..TcpStats::default() });
    }
}
