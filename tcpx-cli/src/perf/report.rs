//! What was measured, before it becomes a table or JSON.

use tcpx_doctor::NicGrowth;

use super::plan::{Mode, Plan};
use super::samples::{Samples, micros};
use super::stages::Shares;
use super::times::CaseTimes;
use crate::rendezvous::Agreed;
use crate::session::Memory;

/// A whole run.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) mode: Mode,
    /// `software` or `hardware`.
    pub(super) transport: String,
    pub(super) plugin_name: String,
    pub(super) memory: Memory,
    /// The receiving end's implementation.
    pub(super) unpack: String,
    /// Bytes of a chunk that both ends agreed on.
    pub(super) chunk_bytes: u32,
    pub(super) channels: u16,
    pub(super) iterations: u32,
    pub(super) seed: u64,
    /// One for each size.
    pub(super) cases: Vec<Case>,
    pub(super) is_sweep: bool,
    /// What the NICs at this end counted meanwhile.
    pub(super) nics: Vec<NicGrowth>,
}

/// One size.
#[derive(Clone, Debug, Default)]
pub(super) struct Case {
    /// Of one message.
    pub(super) bytes: u64,
    /// Messages of one iteration.
    pub(super) messages: u64,
    /// The client's times: sends, or round trips.
    pub(super) sender: Samples,
    /// The server's times: receives. None of round trips.
    pub(super) receiver: Samples,
    /// Receives of the same bytes in large messages, of a batch.
    pub(super) large: Samples,
    /// Plain sockets: receives, or round trips. Empty without a baseline.
    pub(super) raw: Samples,
    /// Where the time went; warmup included.
    pub(super) shares: Option<Shares>,
    pub(super) mismatch: Option<String>,
}

impl Case {
    pub(super) fn new(
        mode: Mode,
        bytes: u64,
        messages: u64,
        client: &CaseTimes,
        server: &CaseTimes,
    ) -> Self {
        let raw = match mode {
            Mode::Throughput | Mode::Messages(_) => &server.raw_ns,
            Mode::Latency => &client.raw_ns,
        };
        Self {
            bytes,
            messages,
            sender: Samples::from_nanos(&client.session_ns),
            receiver: Samples::from_nanos(&server.session_ns),
            large: Samples::from_nanos(&server.large_ns),
            raw: Samples::from_nanos(raw),
            shares: None,
            mismatch: server.mismatch.clone().or_else(|| client.mismatch.clone()),
        }
    }

    /// Bytes of one iteration.
    pub(super) fn total_bytes(&self) -> u64 {
        self.bytes * self.messages
    }

    /// How long a batch takes compared with the same bytes in large messages: medians as the
    /// receiver sees them. Less is better.
    pub(super) fn small_message_ratio(&self) -> Option<f64> {
        ratio(&self.receiver, &self.large)
    }

    /// Time of one message of a batch, in µs.
    pub(super) fn message_us(&self) -> f64 {
        micros(self.receiver.median()) / self.messages.max(1) as f64
    }

    /// How fast the session is compared with plain sockets: medians of throughput as the receiver
    /// sees it. More is better.
    pub(super) fn throughput_ratio(&self) -> Option<f64> {
        ratio(&self.raw, &self.receiver)
    }

    /// How long a round trip of the session takes compared with one of plain sockets: medians. Less
    /// is better.
    pub(super) fn latency_ratio(&self) -> Option<f64> {
        ratio(&self.sender, &self.raw)
    }
}

fn ratio(over: &Samples, under: &Samples) -> Option<f64> {
    let divisor = under.median().as_secs_f64();
    (!over.is_empty() && divisor > 0.0).then(|| over.median().as_secs_f64() / divisor)
}

impl Report {
    pub(super) fn new(
        agreed: &Agreed<'_>,
        plan: &Plan,
        cases: Vec<Case>,
        nics: Vec<NicGrowth>,
    ) -> Self {
        let stats = agreed.session.stats();
        let peer = stats.peers.iter().find(|peer| peer.name == agreed.peer());
        let chunk_bytes = agreed.session.options().chunk_bytes;
        Self {
            mode: plan.mode,
            transport: stats.transport,
            plugin_name: stats.plugin_name,
            memory: agreed.memory(),
            unpack: agreed.unpack().to_owned(),
            chunk_bytes: peer.map_or(chunk_bytes, |peer| peer.chunk_bytes),
            channels: agreed.channels(),
            iterations: plan.iterations,
            seed: plan.seed,
            cases,
            is_sweep: plan.sizes.len() > 1,
            nics,
        }
    }

    pub(super) fn first_mismatch(&self) -> Option<String> {
        self.cases.iter().find_map(|case| case.mismatch.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::plan::Batch;

    fn case(mode: Mode) -> Case {
        let times = |session_ns, large_ns, raw_ns| CaseTimes {
            session_ns,
            large_ns,
            raw_ns,
            mismatch: None,
            ..CaseTimes::default()
        };
        let client = times(vec![30, 10, 20], vec![7], vec![5]);
        let server = times(vec![40], vec![16], vec![32]);
        Case::new(mode, 4096, 2, &client, &server)
    }

    #[test]
    fn ratios_compare_what_can_be_compared() {
        assert_eq!(case(Mode::Throughput).throughput_ratio(), Some(0.8), "receiver to receiver");
        assert_eq!(case(Mode::Latency).latency_ratio(), Some(4.0), "round trip to round trip");
        let batch = case(Mode::Messages(Batch { messages: 2, is_scattered: false }));
        assert_eq!(batch.small_message_ratio(), Some(2.5), "small by large messages");
        assert_eq!((batch.total_bytes(), batch.message_us()), (8192, 0.02));
        let without = Case { raw: Samples::default(), ..case(Mode::Throughput) };
        assert_eq!(without.throughput_ratio(), None);
    }
}
