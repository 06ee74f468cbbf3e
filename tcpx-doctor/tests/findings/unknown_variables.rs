//! Findings about names of variables.

use tcpx_diagnosis::Finding;
use tcpx_diagnosis::variables::{self, Env, profile_a3_high};
use tcpx_doctor::environment::lint;

use crate::fixture::codes;

const INTERFACES: [&str; 6] = ["lo", "eth0", "eth1", "eth2", "eth3", "eth4"];
const CPUS: u32 = 208;

/// The A3 High profile with `changes`; an empty value takes a variable out.
fn lint_with(changes: &[(&str, &str)]) -> Vec<Finding> {
    let mut env: Env = profile_a3_high()
        .iter()
        .map(|setting| (setting.name.to_owned(), setting.value.to_owned()))
        .collect();
    env.extend(changes.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
    lint(&env, &INTERFACES, CPUS)
}

/// One change of the profile leads to one finding.
#[track_caller]
fn expect(changes: &[(&str, &str)], code: &str, seen: &str, cure: &[&str]) {
    let findings = lint_with(changes);
    assert_eq!(codes(&findings), [code], "{findings:#?}");
    assert_eq!(findings[0].seen, seen);
    assert_eq!(findings[0].cure, cure);
}

#[test]
fn misspelt_variables_get_the_nearest_name() {
    expect(
        &[("NCCL_GPUDIRECTTCPX_SOCKET_IFNAMES", "eth1")],
        "TCPX-110",
        "NCCL_GPUDIRECTTCPX_SOCKET_IFNAMES is set; did you mean NCCL_GPUDIRECTTCPX_SOCKET_IFNAME?",
        &[
            "export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=\"$NCCL_GPUDIRECTTCPX_SOCKET_IFNAMES\"",
            "unset NCCL_GPUDIRECTTCPX_SOCKET_IFNAMES",
        ],
    );
    expect(
        &[("NCCL_DYNAMIC_CHUNKSIZE", "524288")],
        "TCPX-110",
        "NCCL_DYNAMIC_CHUNKSIZE is set; did you mean NCCL_DYNAMIC_CHUNK_SIZE?",
        &[
            "export NCCL_DYNAMIC_CHUNK_SIZE=\"$NCCL_DYNAMIC_CHUNKSIZE\"",
            "unset NCCL_DYNAMIC_CHUNKSIZE",
        ],
    );
    expect(
        &[("NCCL_TCPX_ZZZZZZZZZZ", "1")],
        "TCPX-110",
        "NCCL_TCPX_ZZZZZZZZZZ is set",
        &["unset NCCL_TCPX_ZZZZZZZZZZ"],
    );
    // Other programs' variables, and NCCL's own that the plugin does not share.
    assert_eq!(
        lint_with(&[("PATH", "/bin"), ("NCCL_TOPO_FILE", "/x"), ("NCCL_DEBUG", "INFO")]),
        []
    );
}

#[test]
fn values_are_judged_too() {
    let env = Env::from([("NCCL_DYNAMIC_CHUNKSIZE".to_owned(), "512K".to_owned())]);
    let of_values = variables::lint(&env, &INTERFACES, CPUS);
    let findings = lint(&env, &INTERFACES, CPUS);
    assert_eq!(codes(&of_values), ["TCPX-101", "TCPX-127"]);
    assert_eq!(codes(&findings), ["TCPX-101", "TCPX-127", "TCPX-110"]);
}
