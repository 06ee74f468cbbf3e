//! Counters of NICs before and after something: did packets reach device memory, and did errors grow meanwhile?

use std::collections::BTreeMap;

use serde::Serialize;

use crate::devmem_counter::{check_devmem_packets, total};
use crate::diagnosis::kernel as table;
use crate::finding::Finding;
use crate::kernel::{Kernel, Statistics};

/// Parts of the names of counters that only trouble makes grow.
const TROUBLE: &[&str] = &["err", "drop", "fail", "timeout", "no_buf", "alloc", "discard"];

/// Counters of some NICs at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicCounters(BTreeMap<String, Statistics>);

/// How a NIC's counters grew between two moments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NicGrowth {
    /// The NIC.
    pub nic: String,
    /// Packets that reached device memory; `None` when the driver does not count them.
    pub devmem_packets: Option<u64>,
    /// Counters of errors and drops that grew, and by how much.
    pub errors: BTreeMap<String, u64>,
}

impl NicCounters {
    /// Reads the counters of these NICs. One that has none, or is not there, counts nothing.
    pub fn read<'a>(kernel: &dyn Kernel, nics: impl IntoIterator<Item = &'a str>) -> Self {
        let read = |nic: &str| (nic.to_owned(), kernel.statistics(nic).unwrap_or_default());
        Self(nics.into_iter().map(read).collect())
    }

    /// What has happened since `before`, NIC by NIC. A counter that began anew has grown by nothing.
    #[must_use]
    pub fn since(&self, before: &Self) -> Vec<NicGrowth> {
        let growth = |(nic, now): (&String, &Statistics)| {
            let empty = Statistics::new();
            let before = before.0.get(nic).unwrap_or(&empty);
            let devmem = total(now).map(|now| now.saturating_sub(total(before).unwrap_or(0)));
            let is_trouble = |name: &str| TROUBLE.iter().any(|part| name.contains(part));
            let errors = now
                .iter()
                .filter(|(name, _)| is_trouble(&name.to_lowercase()))
                .map(|(name, now)| {
                    (name.clone(), now.saturating_sub(before.get(name).copied().unwrap_or(*now)))
                })
                .filter(|(_, grown)| *grown > 0)
                .collect();
            NicGrowth { nic: nic.clone(), devmem_packets: devmem, errors }
        };
        self.0.iter().map(growth).collect()
    }

    /// The findings about what has happened since `before`.
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
