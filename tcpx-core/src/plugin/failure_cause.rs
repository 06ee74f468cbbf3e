//! What this host says of a call of the plugin that failed: a return code says little, and the
//! plugin's words only go to the log.

use rustix::process::{Resource, getrlimit};
use tcpx_diagnosis::table::{environment, limits};
use tcpx_diagnosis::variables::{Env, lint, process_env, value};
use tcpx_diagnosis::{Facts, Finding, LiveFacts};
use tcpx_sys::NcclResult;

use crate::error::Phase;

/// A pair of comms takes about as many descriptors, and a registration two.
const FEW_DESCRIPTORS: u64 = 8;
/// What the software plugin reads before the plugin's own variable.
const SOFT_INTERFACES: &str = "TCPX_SOFT_IFNAME";
const INTERFACES: &str = "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME";

/// Why `init` may have failed: a variable. `is_soft`: of the software plugin.
pub(super) fn of_init(is_soft: bool) -> Option<Finding> {
    if let Some(found) = of_nic() {
        return Some(found);
    }
    let addresses = LiveFacts.addresses().unwrap_or_default();
    let mut names: Vec<&str> = addresses.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    of_variables(process_env(), is_soft, &names)
}

fn of_variables(mut env: Env, is_soft: bool, interfaces: &[&str]) -> Option<Finding> {
    let own = value(&env, SOFT_INTERFACES).filter(|_| is_soft).map(str::to_owned);
    let is_own = own.is_some();
    if let Some(own) = own {
        env.insert(INTERFACES.to_owned(), own);
    }
    let causes = [
        environment::SOCKET_DISABLED.code,
        environment::NO_INTERFACE_MATCHES.code,
        environment::STRATEGY_UNSUPPORTED.code,
    ];
    let mut found = lint(&env, interfaces, 0).into_iter().find(|it| causes.contains(&it.id))?;
    if is_own {
        // The variable that was set, in what was seen and in the cure.
        found.seen = found.seen.replace(INTERFACES, SOFT_INTERFACES);
        found.cure.iter_mut().for_each(|line| *line = line.replace(INTERFACES, SOFT_INTERFACES));
    }
    Some(found)
}

/// What device memory or a NIC had to do with it. Nobody but the built-in plugin tells.
fn of_nic() -> Option<Finding> {
    #[cfg(feature = "soft")]
    return super::soft::nic_failure();
    #[cfg(not(feature = "soft"))]
    None
}

/// Why a call for a comm may have failed: device memory or its NIC; or no file may be opened any
/// more.
pub(super) fn of_call(code: NcclResult, phase: Phase) -> Option<Finding> {
    if let Some(found) = of_nic() {
        return Some(found);
    }
    let opens_files =
        matches!(phase, Phase::Listen | Phase::Connect | Phase::Accept | Phase::Register);
    if code != NcclResult::SYSTEM_ERROR || !opens_files {
        return None;
    }
    let limit = getrlimit(Resource::Nofile).current?;
    // Asking takes a descriptor itself.
    let open = std::fs::read_dir("/proc/self/fd").map_or(limit, |all| all.count() as u64 - 1);
    of_descriptors(open, limit)
}

fn of_descriptors(open: u64, limit: u64) -> Option<Finding> {
    (open.saturating_add(FEW_DESCRIPTORS) >= limit).then(|| {
        let seen = format!("{open} files are open, and {limit} may be (ulimit -n)");
        Finding::new(&limits::OPEN_FILES_LIMIT, seen)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(is_soft: bool, set: &[(&str, &str)]) -> Option<Finding> {
        let env = set.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        of_variables(env, is_soft, &["eth0", "lo"])
    }

    #[test]
    fn a_variable_that_keeps_init_from_working_is_named_with_its_value() {
        let by_plugins = found(false, &[(INTERFACES, "eth9")]).unwrap();
        assert_eq!(by_plugins.id.number(), 117);
        assert!(by_plugins.seen.contains("SOCKET_IFNAME=eth9, interfaces are eth0 lo"));
        let by_own = found(true, &[(SOFT_INTERFACES, "eth9"), (INTERFACES, "eth0")]).unwrap();
        assert!(by_own.seen.starts_with("TCPX_SOFT_IFNAME=eth9"), "{}", by_own.seen);
        assert!(by_own.cure.iter().any(|line| line.contains("TCPX_SOFT_IFNAME=")), "{by_own}");
        assert_eq!(found(false, &[(SOFT_INTERFACES, "eth9")]), None);
        assert_eq!(found(true, &[(INTERFACES, "eth")]), None);
    }

    #[test]
    fn few_descriptors_are_a_cause_and_many_are_not() {
        assert_eq!(of_descriptors(500, 512), None);
        let seen = of_descriptors(505, 512).unwrap().seen;
        assert_eq!(seen, "505 files are open, and 512 may be (ulimit -n)");
        assert!(of_descriptors(512, 512).is_some());
        assert_eq!(of_call(NcclResult::INTERNAL_ERROR, Phase::Connect), None);
        assert_eq!(of_call(NcclResult::SYSTEM_ERROR, Phase::Send), None);
    }
}
