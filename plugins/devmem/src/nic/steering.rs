//! Steering of connections to a queue, for the lifetime of an owner.

use std::io;
use std::net::SocketAddr;

use super::connections;
use super::flow_rule::FlowRule;
use super::identity::Nic;
use super::queues::{QueueUser, RxQueue};
use super::rules::{InstalledRule, RuleTable};
use crate::error::DevmemError;

/// Flow rule that is deleted on drop. It outlives a process that is killed; see [`stale_rules`].
#[derive(Debug)]
pub struct SteeredFlow {
    table: RuleTable,
    installed: InstalledRule,
}

impl SteeredFlow {
    /// Steers the packets from `from` to `to`, an address of this NIC, to receive queue `queue`.
    ///
    /// # Errors
    /// Returns [`DevmemError::NotPermitted`] and [`DevmemError::RuleRefused`].
    pub fn new(nic: &Nic, rule: FlowRule) -> Result<Self, DevmemError> {
        let refused = |source: io::Error| refusal(nic.name(), source);
        let table = RuleTable::open(nic.name()).map_err(refused)?;
        let location = table.insert(&rule).map_err(refused)?;
        Ok(Self { table, installed: InstalledRule { rule, location } })
    }

    /// Returns the rule and its place.
    #[must_use]
    pub fn installed(&self) -> InstalledRule {
        self.installed
    }
}

impl Drop for SteeredFlow {
    fn drop(&mut self) {
        // The NIC may be gone, and its rules with it. A refusal has no remedy here.
        let _ = self.table.delete(self.installed.location);
    }
}

fn refusal(nic: &str, source: io::Error) -> DevmemError {
    let nic = nic.to_owned();
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => DevmemError::NotPermitted { nic, what: "a flow rule" },
        Some(libc::ENODEV) => DevmemError::NoNic { nic },
        _ => DevmemError::RuleRefused { nic, source },
    }
}

/// Returns rules of the kind that [`SteeredFlow`] makes whose process was killed. No device memory
/// has the rule's queue any more, and no process of this network namespace has its connection.
///
/// # Errors
/// Returns an error when the driver does not list its rules.
pub fn stale_rules(nic: &Nic, queues: &[RxQueue]) -> io::Result<Vec<InstalledRule>> {
    Ok(select_stale(RuleTable::open(nic.name())?.list()?, queues, &connections::read()?))
}

/// Deletes the stale rules that lead to `queue`, which the caller has just bound. Their maker had
/// the queue before, and is gone. Returns how many rules there were.
///
/// # Errors
/// Returns an error when the driver does not list its rules, or keeps one.
pub fn delete_stale_rules(nic: &Nic, queue: u32) -> io::Result<usize> {
    let table = RuleTable::open(nic.name())?;
    let mut rules = table.list()?;
    rules.retain(|installed| installed.rule.queue == queue);
    let stale = select_stale(rules, &[], &connections::read()?);
    stale.iter().try_for_each(|installed| table.delete(installed.location))?;
    Ok(stale.len())
}

fn select_stale(
    mut rules: Vec<InstalledRule>,
    queues: &[RxQueue],
    connections: &[(SocketAddr, SocketAddr)],
) -> Vec<InstalledRule> {
    let is_bound = |id: u32| {
        let queue = queues.iter().find(|queue| queue.id == id);
        queue.is_some_and(|queue| matches!(queue.user, Some(QueueUser::DeviceMemory(_))))
    };
    let is_connected = |rule: &FlowRule| connections.contains(&(rule.to, rule.from));
    rules.retain(|installed| !is_bound(installed.rule.queue) && !is_connected(&installed.rule));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(port: u16, queue: u32) -> InstalledRule {
        let from = SocketAddr::from(([10, 0, 0, 1], port));
        let rule = FlowRule { from, to: SocketAddr::from(([10, 0, 0, 2], 9)), queue };
        InstalledRule { rule, location: u32::from(port) }
    }

    #[test]
    fn a_rule_is_stale_without_a_binding_and_a_connection() {
        let user = Some(QueueUser::DeviceMemory(1));
        let queues = [RxQueue { id: 6, user: None }, RxQueue { id: 7, user }];
        let rules = vec![installed(1, 7), installed(2, 6), installed(3, 6), installed(4, 9)];
        let connected = (rules[1].rule.to, rules[1].rule.from);
        let stale = select_stale(rules, &queues, &[connected]);
        assert_eq!(stale, [installed(3, 6), installed(4, 9)]);
    }

    #[test]
    fn each_refusal_has_its_error() {
        let id = |errno| {
            let error = refusal("eth1", io::Error::from_raw_os_error(errno));
            error.diagnosis().map(|diagnosis| diagnosis.code.number())
        };
        assert_eq!(id(libc::EPERM), Some(421));
        assert_eq!(id(libc::EOPNOTSUPP), Some(426));
        assert_eq!(id(libc::ENOSPC), Some(426));
        assert_eq!(id(libc::ENODEV), Some(428));
    }

    #[test]
    fn the_loopback_takes_no_rules() {
        let nic = Nic::named("lo").expect("every namespace has one");
        let error = SteeredFlow::new(&nic, installed(1, 1).rule).expect_err("it has no queues");
        assert!(matches!(error.diagnosis().map(|it| it.code.number()), Some(421 | 426)), "{error}");
    }
}
