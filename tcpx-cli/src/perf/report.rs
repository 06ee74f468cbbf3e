//! What was measured, before it becomes a table or JSON.

use tcpx_core::Session;

use crate::bootstrap::{CaseTimes, Mode, Plan};
use crate::meeting::Agreement;
use crate::memory::Memory;
use crate::samples::Samples;

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
}

/// One size.
#[derive(Clone, Debug, Default)]
pub(super) struct Case {
    /// Of one message.
    pub(super) bytes: u64,
    /// The client's times: sends, or round trips.
    pub(super) sender: Samples,
    /// The server's times: receives. None of round trips.
    pub(super) receiver: Samples,
    /// Plain sockets: receives, or round trips. Empty without a baseline.
    pub(super) raw: Samples,
    pub(super) mismatch: Option<String>,
}

impl Case {
    pub(super) fn new(mode: Mode, bytes: u64, client: &CaseTimes, server: &CaseTimes) -> Self {
        let raw = match mode {
            Mode::Throughput => &server.raw_ns,
            Mode::Latency => &client.raw_ns,
        };
        Self {
            bytes,
            sender: Samples::from_nanos(&client.session_ns),
            receiver: Samples::from_nanos(&server.session_ns),
            raw: Samples::from_nanos(raw),
            mismatch: server.mismatch.clone().or_else(|| client.mismatch.clone()),
        }
    }

    /// How fast the session is compared with plain sockets: medians of throughput as the receiver sees it. More is
    /// better.
    pub(super) fn throughput_ratio(&self) -> Option<f64> {
        ratio(&self.raw, &self.receiver)
    }

    /// How long a round trip of the session takes compared with one of plain sockets: medians. Less is better.
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
        session: &Session,
        agreement: &Agreement,
        plan: &Plan,
        cases: Vec<Case>,
    ) -> Self {
        let stats = session.stats();
        let peer = stats.peers.iter().find(|peer| peer.name == agreement.peer());
        Self {
            mode: plan.mode,
            transport: stats.transport.clone(),
            plugin_name: stats.plugin_name.clone(),
            memory: agreement.memory,
            unpack: agreement.unpack.clone(),
            chunk_bytes: peer.map_or(session.options().chunk_bytes, |peer| peer.chunk_bytes),
            channels: agreement.channels,
            iterations: plan.iterations,
            seed: plan.seed,
            cases,
            is_sweep: plan.sizes.len() > 1,
        }
    }

    pub(super) fn first_mismatch(&self) -> Option<String> {
        self.cases.iter().find_map(|case| case.mismatch.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(mode: Mode) -> Case {
        let client = CaseTimes { session_ns: vec![30, 10, 20], raw_ns: vec![5], mismatch: None };
        let server = CaseTimes { session_ns: vec![40], raw_ns: vec![32], mismatch: None };
        Case::new(mode, 4096, &client, &server)
    }

    #[test]
    fn ratios_compare_what_can_be_compared() {
        assert_eq!(case(Mode::Throughput).throughput_ratio(), Some(0.8), "receiver to receiver");
        assert_eq!(case(Mode::Latency).latency_ratio(), Some(4.0), "round trip to round trip");
        let without = Case { raw: Samples::default(), ..case(Mode::Throughput) };
        assert_eq!(without.throughput_ratio(), None);
    }
}
