#![allow(unsafe_code)]
//! Flow rules of a NIC, over the ethtool ioctl. Rules belong to the NIC and not to a process: they
//! stay when the process that made them is killed.

use std::io;

use super::ethtool_socket::EthtoolSocket;
use super::flow_rule::{
    FlowRule, RULE_LOCATIONS, RXNFC_WORDS, about_location, location, rule_count, to_bytes, u32_at,
};

const COUNT_RULES: u32 = 0x2e;
const GET_RULE: u32 = 0x2f;
const LIST_RULES: u32 = 0x30;
const DELETE_RULE: u32 = 0x31;
const INSERT_RULE: u32 = 0x32;
/// Limit of the allocation: more rules than any NIC has.
const MAX_RULES: usize = 1 << 17;
/// Room for rules that others insert during the listing.
const SPARE_RULES: usize = 64;

/// Flow rule, and its place in the NIC's table, by which it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstalledRule {
    /// The flow rule.
    pub rule: FlowRule,
    /// Number of the rule in `ethtool -n`.
    pub location: u32,
}

/// Table of the flow rules of one NIC.
#[derive(Debug)]
pub(crate) struct RuleTable {
    socket: EthtoolSocket,
}

impl RuleTable {
    pub(crate) fn open(nic: &str) -> io::Result<Self> {
        Ok(Self { socket: EthtoolSocket::open(nic)? })
    }

    /// Inserts the rule and returns its location.
    pub(crate) fn insert(&self, rule: &FlowRule) -> io::Result<u32> {
        let mut words = rule.encode(INSERT_RULE);
        self.call(&mut words)?;
        Ok(location(&words))
    }

    pub(crate) fn delete(&self, location: u32) -> io::Result<()> {
        self.call(&mut about_location(DELETE_RULE, location))
    }

    /// Returns the rules of the kind that is made here, and leaves out others.
    pub(crate) fn list(&self) -> io::Result<Vec<InstalledRule>> {
        let mut count = about_location(COUNT_RULES, 0);
        self.call(&mut count)?;
        let room = rule_count(&count) as usize + SPARE_RULES;
        if room > MAX_RULES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the NIC has too many rules"));
        }
        let mut all = vec![0; RXNFC_WORDS + room / 2];
        all[0] = about_location(LIST_RULES, 0)[0];
        set_rule_count(&mut all, room as u32);
        self.call(&mut all)?;
        let bytes = to_bytes(&all);
        let count = (rule_count(&all) as usize).min(room);
        let locations = (0..count).map(|at| u32_at(&bytes, RULE_LOCATIONS + at * 4));
        Ok(locations.filter_map(|location| self.get(location)).collect())
    }

    /// Returns the rule at `location`, or `None` when the rule is of another kind, or was deleted
    /// meanwhile.
    fn get(&self, location: u32) -> Option<InstalledRule> {
        let mut words = about_location(GET_RULE, location);
        self.call(&mut words).ok()?;
        Some(InstalledRule { rule: FlowRule::decode(&words)?, location })
    }

    fn call(&self, words: &mut [u64]) -> io::Result<()> {
        debug_assert!(words.len() >= RXNFC_WORDS);
        // SAFETY: `words` is as large as the struct. Where a list follows the struct, `rule_cnt` is
        // the number of entries that the list has room for.
        unsafe { self.socket.call(words) }
    }
}

/// Sets `rule_cnt`, which is the first half of the struct's last word.
fn set_rule_count(words: &mut [u64], count: u32) {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&count.to_ne_bytes());
    words[RXNFC_WORDS - 1] = u64::from_ne_bytes(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_where_the_kernel_reads_it() {
        let mut words = [0; RXNFC_WORDS + 4];
        set_rule_count(&mut words, 70_000);
        assert_eq!(rule_count(&words), 70_000);
    }

    #[test]
    fn nics_that_are_not_there_have_no_rules() {
        let table = RuleTable::open("no-such-nic").expect("a socket");
        let refused = table.list().map_err(|error| error.raw_os_error());
        assert_eq!(refused.map(|rules| rules.len()), Err(Some(libc::ENODEV)));
        assert!(RuleTable::open("a-name-of-sixteen-bytes").is_err());
        assert!(table.delete(0).is_err());
    }
}
