//! Growth of NIC counters: packets that reach device memory, errors and drops.

use std::collections::BTreeMap;

use serde::Serialize;
use tcpx_diagnosis::Finding;
use tcpx_diagnosis::table::kernel as table;

use crate::kernel::{Kernel, Statistics};

/// Counter of packets that reach device memory. Drivers that count these use this name, some with
/// the queue in front or behind.
const DEVMEM_COUNTER: &str = "rx_devmem_pkts";

/// Parts of the names of counters that grow with errors and drops only.
const ERROR_NAMES: &[&str] = &["err", "drop", "fail", "timeout", "no_buf", "alloc", "discard"];

/// Snapshot of the counters of some NICs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicCounters(BTreeMap<String, Statistics>);

/// Growth of a NIC's counters between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NicGrowth {
    /// The NIC.
    pub nic: String,
    /// Packets that reached device memory; `None` when the driver does not count them.
    pub devmem_packets: Option<u64>,
    /// Growth of the counters of errors and drops that grew, by name.
    pub errors: BTreeMap<String, u64>,
}

impl NicCounters {
    /// Reads the counters of these NICs. An absent NIC, or one without counters, has an empty
    /// snapshot.
    pub fn read<'a>(kernel: &dyn Kernel, nics: impl IntoIterator<Item = &'a str>) -> Self {
        let read = |nic: &str| (nic.to_owned(), kernel.statistics(nic).unwrap_or_default());
        Self(nics.into_iter().map(read).collect())
    }

    /// Returns the growth of the counters since `before`, NIC by NIC. A counter that was reset
    /// counts as not grown.
    #[must_use]
    pub fn since(&self, before: &Self) -> Vec<NicGrowth> {
        let growth = |(nic, now): (&String, &Statistics)| {
            let empty = Statistics::new();
            let before = before.0.get(nic).unwrap_or(&empty);
            let devmem = devmem_packets(now)
                .map(|now| now.saturating_sub(devmem_packets(before).unwrap_or(0)));
            let is_error = |name: &str| ERROR_NAMES.iter().any(|part| name.contains(part));
            let errors = now
                .iter()
                .filter(|(name, _)| is_error(&name.to_lowercase()))
                .map(|(name, now)| {
                    (name.clone(), now.saturating_sub(before.get(name).copied().unwrap_or(*now)))
                })
                .filter(|(_, grown)| *grown > 0)
                .collect();
            NicGrowth { nic: nic.clone(), devmem_packets: devmem, errors }
        };
        self.0.iter().map(growth).collect()
    }

    /// Returns the findings about the growth since `before`.
    #[must_use]
    pub fn check_since(&self, before: &Self) -> Vec<Finding> {
        let empty = Statistics::new();
        let mut findings = Vec::new();
        for NicGrowth { nic, errors, .. } in self.since(before) {
            let of = |counters: &Self| counters.0.get(&nic).unwrap_or(&empty).clone();
            findings.push(check_devmem_packets(&nic, &of(before), &of(self)));
            if !errors.is_empty() {
                let list: Vec<String> =
                    errors.iter().map(|(name, grown)| format!("{name} +{grown}")).collect();
                let seen = format!("{nic}: {}", list.join(", "));
                findings.push(Finding::new(&table::NIC_ERRORS_GROW, seen).with("<NIC>", &nic));
            }
        }
        findings
    }
}

/// Returns the finding about packets that reached device memory between two snapshots of a NIC's
/// counters, before and after a transfer. Without such packets the plugin logs "rx no cmsg".
#[must_use]
pub fn check_devmem_packets(nic: &str, before: &Statistics, after: &Statistics) -> Finding {
    let finding = match (devmem_packets(before), devmem_packets(after)) {
        (Some(before), Some(after)) if after > before => {
            let seen = format!("{nic}: {} packets reached device memory", after - before);
            Finding::new(&table::DEVMEM_PACKETS_COUNTED, seen)
        }
        (Some(before), Some(after)) => {
            let seen = format!("{nic}: {DEVMEM_COUNTER} was {before} before and is {after} after");
            Finding::new(&table::DEVMEM_PACKETS_NOT_COUNTED, seen)
        }
        _ => Finding::new(
            &table::DEVMEM_COUNTER_ABSENT,
            format!("{nic} has no counter {DEVMEM_COUNTER}"),
        ),
    };
    finding.with("<NIC>", nic)
}

/// Returns the packets that reached device memory, summed over all queues; `None` without such a
/// counter.
fn devmem_packets(statistics: &Statistics) -> Option<u64> {
    statistics
        .iter()
        .filter(|(name, _)| name.contains(DEVMEM_COUNTER))
        .map(|(_, &value)| value)
        .reduce(u64::saturating_add)
}
