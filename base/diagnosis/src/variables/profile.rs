//! Settings recommended for GCP A3 High hosts.

use std::fmt::Write as _;

use serde::Serialize;

use super::env::{Env, value};
use crate::report::Finding;
use crate::table::environment as table;

/// Variable of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Setting {
    /// Name of the variable.
    pub name: &'static str,
    /// Recommended value.
    pub value: &'static str,
    /// Reason for the value.
    pub reason: &'static str,
}

const fn set(name: &'static str, value: &'static str, reason: &'static str) -> Setting {
    Setting { name, value, reason }
}

#[rustfmt::skip]
static A3_HIGH: &[Setting] = &[
    set("NCCL_SOCKET_IFNAME", "eth0", "NCCL's bootstrap stays off the data NICs"),
    set("NCCL_GPUDIRECTTCPX_CTRL_DEV", "eth0", "control sockets stay off the data NICs"),
    set("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "eth1,eth2,eth3,eth4", "the four data NICs"),
    set("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX", "/run/tcpx", "where RxDM puts its sockets"),
    set("NCCL_TCPX_RXMEM_IMPORT_USE_GPU_PCI_CLIENT", "1", "the bounce buffer comes from RxDM's sockets"),
    set("NCCL_DYNAMIC_CHUNK_SIZE", "524288", "transfers hang without it; 512 KiB stays far below 2048 fragments"),
    set("NCCL_P2P_NET_CHUNKSIZE", "524288", "NCCL's chunk equals the plugin's, so no pages leak"),
    set("NCCL_P2P_PCI_CHUNKSIZE", "524288", "NCCL's chunk equals the plugin's, so no pages leak"),
    set("NCCL_P2P_NVL_CHUNKSIZE", "1048576", "larger chunks where NVLink carries them"),
    set("NCCL_BUFFSIZE", "4194304", "a protocol buffer fits one slot of the unpack queue"),
    set("NCCL_NSOCKS_PERTHREAD", "4", "four data sockets fill a 200 Gbit/s NIC"),
    set("NCCL_SOCKET_NTHREADS", "1", "one helper thread for a comm"),
    set("NCCL_CROSS_NIC", "0", "each GPU keeps to its own NIC"),
    set("NCCL_ALGO", "Ring", "from NCCL 2.24 on PAT may be chosen, whose kernels do not unpack: all-gather and reduce-scatter give wrong data"),
    set("NCCL_PROTO", "Simple", "the only protocol whose data the plugin can unpack"),
    set("NCCL_NET_GDR_LEVEL", "PIX", "GPU and NIC must share a PCIe switch"),
    set("NCCL_P2P_PXN_LEVEL", "0", "messages leave through the GPU's own NIC"),
    set("NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS", "500000", "half a second is enough for a rule; the default is 5 s for each accept"),
    set("NCCL_GPUDIRECTTCPX_TX_BINDINGS", "eth1:8-21,112-125;eth2:8-21,112-125;eth3:60-73,164-177;eth4:60-73,164-177", "sending threads on the NIC's own NUMA node"),
    set("NCCL_GPUDIRECTTCPX_RX_BINDINGS", "eth1:22-35,126-139;eth2:22-35,126-139;eth3:74-87,178-191;eth4:74-87,178-191", "receiving threads on the NIC's own NUMA node, apart from sending ones"),
];

/// Returns the settings recommended for an A3 High host, in reading order.
#[must_use]
pub fn profile_a3_high() -> &'static [Setting] {
    A3_HIGH
}

/// Returns `settings` as lines that a POSIX shell can source, each below its reason.
#[must_use]
pub fn render_profile(settings: &[Setting]) -> String {
    let mut script = String::new();
    for setting in settings {
        // Writing to a String cannot fail. No value holds a quote, see the test.
        let _ =
            writeln!(script, "# {}\nexport {}='{}'", setting.reason, setting.name, setting.value);
    }
    script
}

/// Returns a finding for each variable of the profile that is unset or has another value. For A3
/// High hosts only.
#[must_use]
pub fn compare_with_profile(env: &Env, settings: &[Setting]) -> Vec<Finding> {
    settings.iter().filter_map(|setting| compare(env, setting)).collect()
}

fn compare(env: &Env, setting: &Setting) -> Option<Finding> {
    let finding = match value(env, setting.name) {
        Some(value) if value == setting.value => return None,
        Some(value) => Finding::new(
            &table::PROFILE_VALUE_DIFFERS,
            format!("{}={value}, the A3 High profile has {}", setting.name, setting.value),
        ),
        None => Finding::new(
            &table::PROFILE_VALUE_MISSING,
            format!("{} is unset, the A3 High profile has {}", setting.name, setting.value),
        ),
    };
    Some(
        finding
            .with("<REASON>", setting.reason)
            .with("<VARIABLE>", setting.name)
            .with("<VALUE>", setting.value),
    )
}

/// First release of NCCL that may choose PAT over a plugin whose receives are unpacked, as 10000 ×
/// major + 100 × minor + patch.
const FIRST_WITH_PAT: u32 = 22_400;

/// Returns a finding if NCCL of this version may choose an algorithm that gives wrong data over the
/// plugin: an algorithm list that has more than Ring and Tree.
#[must_use]
pub fn lint_algorithms(env: &Env, nccl: u32) -> Option<Finding> {
    const ALGO: &str = "NCCL_ALGO";
    if nccl < FIRST_WITH_PAT {
        return None;
    }
    let value = value(env, ALGO);
    let unpacks = |word: &str| {
        let word = word.trim();
        word.eq_ignore_ascii_case("ring") || word.eq_ignore_ascii_case("tree")
    };
    if value.is_some_and(|list| list.split(',').all(unpacks)) {
        return None;
    }
    let release = format!("{}.{}.{}", nccl / 10_000, nccl / 100 % 100, nccl % 100);
    let setting = value.map_or_else(|| format!("{ALGO} is unset"), |list| format!("{ALGO}={list}"));
    Some(Finding::new(&table::ALGORITHM_UNSAFE, format!("{setting}, NCCL is {release}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::lint::lint;
    use crate::variables::variable::variables;

    fn profile() -> Env {
        A3_HIGH.iter().map(|setting| (setting.name.to_owned(), setting.value.to_owned())).collect()
    }

    #[test]
    fn every_setting_is_a_known_variable_and_needs_no_quoting() {
        for setting in A3_HIGH {
            assert!(
                variables().iter().any(|variable| variable.name == setting.name),
                "{}",
                setting.name
            );
            assert!(!setting.value.contains('\''), "{}", setting.name);
        }
    }

    #[test]
    fn the_profile_passes_its_own_lint() {
        let names = ["lo", "eth0", "eth1", "eth2", "eth3", "eth4"];
        assert_eq!(lint(&profile(), &names, 208), vec![]);
        assert_eq!(compare_with_profile(&profile(), A3_HIGH), vec![]);
    }

    #[test]
    fn differences_name_both_values() {
        let mut env = profile();
        env.insert("NCCL_PROTO".into(), "LL".into());
        env.remove("NCCL_ALGO");
        let findings = compare_with_profile(&env, A3_HIGH);
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[0].id, table::PROFILE_VALUE_MISSING.code);
        assert_eq!(findings[0].cure, ["export NCCL_ALGO='Ring'"]);
        assert_eq!(findings[1].id, table::PROFILE_VALUE_DIFFERS.code);
        assert_eq!(findings[1].seen, "NCCL_PROTO=LL, the A3 High profile has Simple");
    }

    #[test]
    fn an_algorithm_that_does_not_unpack_is_found_where_nccl_has_it() {
        for (value, nccl, found) in [
            ("", 22_403, true),
            ("", 22_305, false),
            ("", 21_903, false),
            ("Ring", 22_809, false),
            ("ring,Tree", 22_809, false),
            ("PAT", 22_809, true),
            ("Ring,PAT", 22_809, true),
            ("^PAT", 22_809, true),
        ] {
            let env: Env = [("NCCL_ALGO".to_owned(), value.to_owned())].into();
            let finding = lint_algorithms(&env, nccl);
            assert_eq!(finding.is_some(), found, "{value:?} {nccl}: {finding:?}");
        }
        let finding = lint_algorithms(&Env::new(), 22_809).expect("unset");
        assert_eq!(finding.seen, "NCCL_ALGO is unset, NCCL is 2.28.9");
        assert_eq!(finding.cure, ["export NCCL_ALGO=Ring"]);
    }

    #[test]
    fn the_rendering_sets_the_same_values_in_a_shell() {
        let script = format!("{}env", render_profile(A3_HIGH));
        let output = std::process::Command::new("sh")
            .env_clear()
            .args(["-c", &script])
            .output()
            .expect("sh runs");
        let shown = String::from_utf8(output.stdout).expect("UTF-8");
        for setting in A3_HIGH {
            let line = format!("{}={}", setting.name, setting.value);
            assert!(shown.lines().any(|shown| shown == line), "{line} is missing");
        }
    }
}
