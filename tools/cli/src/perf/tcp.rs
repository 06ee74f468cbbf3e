//! Retransmits and round-trip times of the TCP connections between both ends, as their kernels know
//! them.

use serde::{Deserialize, Serialize};
use tcpx_core::{ChannelReport, TcpStats};

use crate::rendezvous::ConnectedEnd;

/// Round-trip times in microseconds: a sample for each connection after each part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct RoundTrips {
    samples: u64,
    sum_us: u64,
    max_us: u64,
}

impl RoundTrips {
    fn add(&mut self, other: &Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        self.max_us = self.max_us.max(other.max_us);
    }
}

impl From<&TcpStats> for RoundTrips {
    fn from(stats: &TcpStats) -> Self {
        Self { samples: stats.connections, sum_us: stats.rtt_us_sum, max_us: stats.rtt_us_max }
    }
}

/// Connections of one end while parts were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EndConnections {
    /// Segments sent again, on channels and on the control link.
    retransmits: u64,
    /// Of channels that sent.
    channels: RoundTrips,
    link: RoundTrips,
    /// Whether a channel sent over connections that the plugin does not show.
    are_hidden: bool,
}

impl EndConnections {
    /// Adds the connections of another part, or of the other end.
    pub(super) fn add(&mut self, other: &Self) {
        self.retransmits = self.retransmits.saturating_add(other.retransmits);
        self.channels.add(&other.channels);
        self.link.add(&other.link);
        self.are_hidden |= other.are_hidden;
    }
}

/// Connections to the other end at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionCounts {
    channels: Vec<ChannelReport>,
    link: TcpStats,
}

impl ConnectionCounts {
    pub(super) fn of(connected: &ConnectedEnd<'_>) -> Self {
        let mut peers = connected.session.stats().peers.into_iter();
        let peer = peers.find(|peer| peer.name == connected.peer());
        peer.map(|peer| Self { channels: peer.channels, link: peer.link_tcp }).unwrap_or_default()
    }

    /// Returns the connections since `before`.
    pub(super) fn since(&self, before: &Self) -> EndConnections {
        let again =
            |now: &TcpStats, before: &TcpStats| now.retransmits.saturating_sub(before.retransmits);
        let mut all = EndConnections {
            retransmits: again(&self.link, &before.link),
            link: RoundTrips::from(&self.link),
            ..EndConnections::default()
        };
        for (index, now) in self.channels.iter().enumerate() {
            // Channels are made when they are first needed.
            let before = before.channels.get(index).cloned().unwrap_or_default();
            all.retransmits += again(&now.tcp, &before.tcp);
            if now.send.chunks > before.send.chunks {
                all.channels.add(&RoundTrips::from(&now.tcp));
                all.are_hidden |= now.tcp.connections == 0;
            }
        }
        all
    }
}

/// TCP connections of one size, warmup included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct TcpFigures {
    /// Segments that the kernels of both ends have sent again.
    pub(super) retransmits: u64,
    /// Smoothed round-trip time of the connections that carried the payload.
    pub(super) rtt_us_mean: f64,
    pub(super) rtt_us_max: u64,
}

impl TcpFigures {
    /// Returns the figures by the connections of both ends, which carried the payload on channels
    /// or else on the link; `None` where the plugin does not show them.
    pub(super) fn new(client: &EndConnections, server: &EndConnections) -> Option<Self> {
        let mut both = *client;
        both.add(server);
        let has_channels = both.channels.samples > 0;
        let trips = if has_channels { both.channels } else { both.link };
        (trips.samples > 0 && !both.are_hidden).then(|| Self {
            retransmits: both.retransmits,
            rtt_us_mean: trips.sum_us as f64 / trips.samples as f64,
            rtt_us_max: trips.max_us,
        })
    }

    /// Returns the figures of several clients: the sum of retransmits, the mean of the means, and
    /// the longest time.
    pub(super) fn of_clients(clients: impl Iterator<Item = Option<Self>>) -> Option<Self> {
        let clients: Vec<Self> = clients.collect::<Option<_>>()?;
        let means: f64 = clients.iter().map(|it| it.rtt_us_mean).sum();
        Some(Self {
            retransmits: clients.iter().map(|it| it.retransmits).sum(),
            rtt_us_mean: means / clients.len() as f64,
            rtt_us_max: clients.iter().map(|it| it.rtt_us_max).max()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(connections: u64, retransmits: u64, rtt_us: u64) -> TcpStats {
        let mut stats = TcpStats::default();
        (stats.connections, stats.retransmits) = (connections, retransmits);
        (stats.rtt_us_sum, stats.rtt_us_max) = (connections * rtt_us, rtt_us);
        stats
    }

    fn channel(chunks: u64, tcp: TcpStats) -> ChannelReport {
        let mut channel = ChannelReport::default();
        (channel.send.chunks, channel.tcp) = (chunks, tcp);
        channel
    }

    #[test]
    fn round_trips_are_those_of_connections_that_carried_the_payload() {
        let link = |retransmits, rtt_us| stats(1, retransmits, rtt_us);
        let before =
            ConnectionCounts { channels: vec![channel(4, stats(2, 10, 70))], link: link(3, 9) };
        let channels =
            vec![channel(5, stats(2, 12, 50)), channel(1, stats(2, 1, 90)), channel(0, link(0, 8))];
        let client = ConnectionCounts { channels, link: link(4, 900) }.since(&before);
        let server = ConnectionCounts { channels: Vec::new(), link: link(7, 800) };
        let server = server.since(&ConnectionCounts::default());
        let figures = TcpFigures::new(&client, &server).unwrap();
        assert_eq!(figures.retransmits, 2 + 1 + 1 + 7);
        assert_eq!((figures.rtt_us_mean, figures.rtt_us_max), (70.0, 90), "of two channels");
        let small = TcpFigures::new(&server, &server).unwrap();
        assert_eq!((small.rtt_us_mean, small.rtt_us_max), (800.0, 800), "of the link");
        let both = TcpFigures::of_clients([Some(figures), Some(small)].into_iter()).unwrap();
        assert_eq!((both.retransmits, both.rtt_us_mean, both.rtt_us_max), (11 + 14, 435.0, 800));
    }

    #[test]
    fn nothing_is_known_of_connections_that_are_not_shown() {
        let hidden = ConnectionCounts {
            channels: vec![channel(1, TcpStats::default())],
            link: stats(1, 0, 40),
        };
        let hidden = hidden.since(&ConnectionCounts::default());
        let shown = EndConnections { channels: hidden.link, ..EndConnections::default() };
        assert_eq!(TcpFigures::new(&shown, &hidden), None);
        assert_eq!(TcpFigures::new(&EndConnections::default(), &EndConnections::default()), None);
        assert_eq!(TcpFigures::of_clients([None].into_iter()), None);
    }
}
