//! State of a NIC for the kernel's own device-memory TCP: free queues, and stale flow rules of
//! killed processes.

use tcpx_devmem::{DevmemError, InstalledRule, NicFacts, choose_queues};
use tcpx_diagnosis::Finding;
use tcpx_diagnosis::table::kernel as table;

use crate::kernel::Kernel;

/// Returns the findings about `nic`, which can receive into device memory.
pub(crate) fn check(kernel: &dyn Kernel, nic: &str) -> Vec<Finding> {
    check_queues(kernel, nic).into_iter().chain(check_rules(kernel, nic)).collect()
}

/// Returns the finding about free queues. Header split and flow steering, which a queue needs, have
/// findings of their own.
fn check_queues(kernel: &dyn Kernel, nic: &str) -> Option<Finding> {
    let facts = match kernel.queues(nic) {
        Ok(facts) => NicFacts { rings: None, has_flow_steering: true, ..facts },
        Err(error) => {
            let seen = format!("{nic}: receive queues: {error}");
            return Some(Finding::new(&table::NIC_QUERY_FAILED, seen).with("<NIC>", nic));
        }
    };
    let error = choose_queues(&facts, 1).err()?;
    let DevmemError::NoFreeQueue { queues, .. } = error else { return None };
    let finding = Finding::new(&table::NO_FREE_QUEUE, error.to_string()).with("<NIC>", nic);
    // One free queue is enough. A NIC with a single queue has none to spare.
    Some(finding.with("<COUNT>", &queues.saturating_sub(1).max(1).to_string()))
}

/// Returns the finding about stale flow rules. A driver that does not list its rules has none of
/// ours.
fn check_rules(kernel: &dyn Kernel, nic: &str) -> Option<Finding> {
    let stale: Vec<InstalledRule> = kernel.stale_rules(nic).unwrap_or_default();
    let first = stale.first()?;
    let numbers: Vec<String> = stale.iter().map(|rule| rule.location.to_string()).collect();
    let seen = format!(
        "{nic}: flow rules {} lead to queues without device memory, the first from {} to {}",
        numbers.join(", "),
        first.rule.from,
        first.rule.to
    );
    let finding = Finding::new(&table::FLOW_RULE_STALE, seen).with("<NIC>", nic);
    Some(finding.with("<NUMBER>", &first.location.to_string()))
}
