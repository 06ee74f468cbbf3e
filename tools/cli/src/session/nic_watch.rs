//! Counters of the NICs that a session uses, before and after: they show whether its packets reach
//! device memory.

use tcpx_core::Session;
use tcpx_doctor::{LiveKernel, NicCounters, NicGrowth};

/// Counters at the beginning of a step.
pub(crate) struct NicWatch(NicCounters);

impl NicWatch {
    /// Reads the counters of every NIC that the session's plugin offers.
    pub(crate) fn start(session: &Session) -> Self {
        let nics = session.nics();
        let names = nics.iter().map(|nic| nic.name.as_str());
        Self(NicCounters::read(&LiveKernel::default(), names))
    }

    /// Returns the growth of the counters since then, on the NICs of the session's channels.
    pub(crate) fn end(self, session: &Session) -> Vec<NicGrowth> {
        let nics = session.stats().nics;
        let names = nics.iter().map(|channel| channel.nic.as_str());
        NicCounters::read(&LiveKernel::default(), names).since(&self.0)
    }
}

/// Returns one line for each NIC with something to report.
pub(crate) fn render_growth(growth: &[NicGrowth]) -> Vec<String> {
    let line = |NicGrowth { nic, devmem_packets, errors }: &NicGrowth| {
        let packets = devmem_packets.map(|count| format!("{count} packets reached device memory"));
        let errors = errors.iter().map(|(name, grown)| format!("{name} +{grown}"));
        let facts: Vec<String> = packets.into_iter().chain(errors).collect();
        (!facts.is_empty()).then(|| format!("{nic}: {}", facts.join(", ")))
    };
    growth.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nics_that_count_something_get_a_line() {
        let growth = |nic: &str, devmem_packets, errors: &[(&str, u64)]| NicGrowth {
            nic: nic.to_owned(),
            devmem_packets,
            errors: errors.iter().map(|(name, grown)| ((*name).to_owned(), *grown)).collect(),
        };
        let lines = render_growth(&[
            growth("eth0", None, &[]),
            growth("eth1", Some(0), &[]),
            growth("eth2", Some(7), &[("rx_drops", 2)]),
            growth("lo", None, &[("tx_errors", 1)]),
        ]);
        assert_eq!(
            lines,
            [
                "eth1: 0 packets reached device memory",
                "eth2: 7 packets reached device memory, rx_drops +2",
                "lo: tx_errors +1"
            ]
        );
    }
}
