//! Label of a comm: its peer, channel and device memory, for errors.
//!
//! Also this host's explanation of a failed call of the plugin. A return code says little, and the
//! plugin's own words only go to the log.
//!
//! Also the calls of the plugin that may block.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tcpx_diagnosis::table::{environment, limits};
use tcpx_diagnosis::variables::{Env, lint, process_env, value};
use tcpx_diagnosis::{Facts, Finding, LiveFacts};
use tcpx_sys::NcclResult;

use crate::error::{Error, Phase, PluginFailure, PluginHang, Result};
use crate::memory::device_memory::DeviceMemory;
use crate::types::{PeerKey, PeerName, SessionNumber};

/// Label of a comm for errors, and the memory that it works on.
#[derive(Clone, Debug)]
pub(crate) struct CommLabel {
    pub(crate) session: SessionNumber,
    pub(crate) peer_key: PeerKey,
    pub(crate) peer: PeerName,
    pub(crate) channel: u16,
    pub(crate) nic: Arc<str>,
    pub(crate) nic_index: c_int,
    /// Kind of device memory on this comm. The plugin takes the GPU from the thread that makes the
    /// comm.
    pub(crate) memory: DeviceMemory,
}

impl CommLabel {
    #[inline]
    pub(super) fn check(&self, call: &'static str, code: NcclResult, phase: Phase) -> Result<()> {
        if code.is_success() { Ok(()) } else { Err(self.failure(call, code, phase)) }
    }

    #[cold]
    pub(super) fn failure(&self, call: &'static str, code: NcclResult, phase: Phase) -> Error {
        Error::Plugin(PluginFailure {
            call,
            code,
            phase,
            peer: Some(self.peer.to_string()),
            channel: Some(self.channel),
            nic: Some(self.nic.to_string()),
            cause: of_call(code, phase).map(Box::new),
        })
    }

    /// Describes a call for this comm that has been in progress for `waited`.
    pub(crate) fn hang(&self, call: BlockingCall, waited: Duration) -> PluginHang {
        PluginHang {
            call: call.name(),
            phase: call.phase(),
            peer: self.peer.to_string(),
            channel: self.channel,
            nic: self.nic.to_string(),
            waited,
            returns: false,
            found: None,
        }
    }
}

/// Number of descriptors that counts as few. A pair of comms takes about this many, and a
/// registration two.
const FEW_DESCRIPTORS: u64 = 8;
/// Variable that the software plugin reads before the plugin's own variable.
const SOFT_INTERFACES: &str = "TCPX_SOFT_IFNAME";
const INTERFACES: &str = "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME";

/// Returns the variable that may have made `init` fail. `is_soft`: `init` of the software plugin.
pub(super) fn of_init(is_soft: bool) -> Option<Finding> {
    if let Some(found) = of_plugin() {
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
        // The finding and its cure name the variable that was set.
        found.seen = found.seen.replace(INTERFACES, SOFT_INTERFACES);
        found.cure.iter_mut().for_each(|line| *line = line.replace(INTERFACES, SOFT_INTERFACES));
    }
    Some(found)
}

/// Returns the reason of the failure that the plugin knows: device memory, a NIC, or an attacker on
/// the way. Only the built-in plugin reports it.
fn of_plugin() -> Option<Finding> {
    #[cfg(feature = "soft")]
    return super::soft::failure_reason();
    #[cfg(not(feature = "soft"))]
    None
}

/// Returns why a call for a comm may have failed: what the plugin knows, or a lack of file
/// descriptors.
pub(super) fn of_call(code: NcclResult, phase: Phase) -> Option<Finding> {
    if let Some(found) = of_plugin() {
        return Some(found);
    }
    let opens_files =
        matches!(phase, Phase::Listen | Phase::Connect | Phase::Accept | Phase::Register);
    if code != NcclResult::SYSTEM_ERROR || !opens_files {
        return None;
    }
    let limit = getrlimit(Resource::Nofile).current?;
    // Reading the directory takes a descriptor itself.
    let open = std::fs::read_dir("/proc/self/fd").map_or(limit, |all| all.count() as u64 - 1);
    of_descriptors(open, limit)
}

fn of_descriptors(open: u64, limit: u64) -> Option<Finding> {
    (open.saturating_add(FEW_DESCRIPTORS) >= limit).then(|| {
        let seen = format!("{open} files are open, and {limit} may be (ulimit -n)");
        Finding::new(&limits::OPEN_FILES_LIMIT, seen)
    })
}

/// Entry of the table that may ask another process, join threads, or wait for the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockingCall {
    Listen,
    Connect,
    Accept,
    Register,
    Deregister,
    CloseSend,
    CloseReceive,
    CloseListen,
}

impl BlockingCall {
    /// Returns the entry's name in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Listen => "listen",
            Self::Connect => "connect",
            Self::Accept => "accept",
            Self::Register => "regMr",
            Self::Deregister => "deregMr",
            Self::CloseSend => "closeSend",
            Self::CloseReceive => "closeRecv",
            Self::CloseListen => "closeListen",
        }
    }

    /// Returns the phase of the session's life in which the call is made.
    pub(crate) fn phase(self) -> Phase {
        match self {
            Self::Listen => Phase::Listen,
            Self::Connect => Phase::Connect,
            Self::Accept => Phase::Accept,
            Self::Register | Self::Deregister => Phase::Register,
            Self::CloseSend | Self::CloseReceive | Self::CloseListen => Phase::Close,
        }
    }

    /// Returns whether the original asks RxDM in this call, on the calling thread and without a
    /// time limit. It asks for the bounce buffer, or to have steering rules removed.
    pub(crate) fn asks_rxdm(self) -> bool {
        matches!(self, Self::Accept | Self::CloseReceive)
    }

    /// Returns whether the call touches unlocked globals of the original plugin, so that it must
    /// not run twice at once in a process.
    pub(super) fn takes_turns(self) -> bool {
        !matches!(self, Self::CloseSend | Self::CloseReceive)
    }
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
