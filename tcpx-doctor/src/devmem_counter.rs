//! The counter that tells whether packets reach device memory.

use crate::diagnosis::kernel as table;
use crate::finding::Finding;
use crate::kernel::Statistics;

/// Every driver that counts such packets calls them so, some with the queue in front or behind.
const COUNTER: &str = "rx_devmem_pkts";

/// What two snapshots of a NIC's counters, taken before and after a transfer, say: the one fact behind "rx no cmsg".
#[must_use]
pub fn check_devmem_packets(nic: &str, before: &Statistics, after: &Statistics) -> Finding {
    let finding = match (total(before), total(after)) {
        (Some(before), Some(after)) if after > before => {
            let seen = format!("{nic}: {} packets reached device memory", after - before);
            Finding::new(&table::DEVMEM_PACKETS_COUNTED, seen)
        }
        (Some(before), Some(after)) => {
            let seen = format!("{nic}: {COUNTER} was {before} before and is {after} after");
            Finding::new(&table::DEVMEM_PACKETS_NOT_COUNTED, seen)
        }
        _ => Finding::new(&table::DEVMEM_COUNTER_ABSENT, format!("{nic} has no counter {COUNTER}")),
    };
    finding.with("<NIC>", nic)
}

/// The sum over all queues; `None` without any such counter.
pub(crate) fn total(statistics: &Statistics) -> Option<u64> {
    statistics
        .iter()
        .filter(|(name, _)| name.contains(COUNTER))
        .map(|(_, &value)| value)
        .reduce(u64::saturating_add)
}
