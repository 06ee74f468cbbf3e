//! Findings about names of variables.

use tcpx_diagnosis::variables::{self, Env};
use tcpx_doctor::environment::{lint, misspelt_variables};

use crate::fixture::codes;
use crate::fixture::profile_lint::{CPUS, INTERFACES, ProfileLint};

const LINT: ProfileLint = ProfileLint(lint);

#[test]
fn misspelt_variables_get_the_nearest_name() {
    LINT.expect(
        &[("NCCL_GPUDIRECTTCPX_SOCKET_IFNAMES", "eth1")],
        "TCPX-110",
        "NCCL_GPUDIRECTTCPX_SOCKET_IFNAMES is set; did you mean NCCL_GPUDIRECTTCPX_SOCKET_IFNAME?",
        &[
            "export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=\"$NCCL_GPUDIRECTTCPX_SOCKET_IFNAMES\"",
            "unset NCCL_GPUDIRECTTCPX_SOCKET_IFNAMES",
        ],
    );
    LINT.expect(
        &[("NCCL_DYNAMIC_CHUNKSIZE", "524288")],
        "TCPX-110",
        "NCCL_DYNAMIC_CHUNKSIZE is set; did you mean NCCL_DYNAMIC_CHUNK_SIZE?",
        &[
            "export NCCL_DYNAMIC_CHUNK_SIZE=\"$NCCL_DYNAMIC_CHUNKSIZE\"",
            "unset NCCL_DYNAMIC_CHUNKSIZE",
        ],
    );
    LINT.expect(
        &[("NCCL_TCPX_ZZZZZZZZZZ", "1")],
        "TCPX-110",
        "NCCL_TCPX_ZZZZZZZZZZ is set",
        &["unset NCCL_TCPX_ZZZZZZZZZZ"],
    );
    // Other programs' variables, and NCCL's own that the plugin does not share.
    assert_eq!(
        LINT.with(&[("PATH", "/bin"), ("NCCL_TOPO_FILE", "/x"), ("NCCL_DEBUG", "INFO")]),
        []
    );
}

#[test]
fn only_similar_names_are_misspelt() {
    let env = ["TCPX_CHANNEL", "TCPX_CHANNELS", "NCCL_TCPX_ZZZZZZZZZZ", "PATH"];
    let env: Env = env.map(|name| (name.to_owned(), "2".to_owned())).into();
    let findings = misspelt_variables(&env);
    let seen: Vec<&str> = findings.iter().map(|finding| finding.seen.as_str()).collect();
    assert_eq!(seen, ["TCPX_CHANNEL is set; did you mean TCPX_CHANNELS?"]);
}

#[test]
fn values_are_judged_too() {
    let env = Env::from([("NCCL_DYNAMIC_CHUNKSIZE".to_owned(), "512K".to_owned())]);
    let of_values = variables::lint(&env, &INTERFACES, CPUS);
    let findings = lint(&env, &INTERFACES, CPUS);
    assert_eq!(codes(&of_values), ["TCPX-101", "TCPX-127"]);
    assert_eq!(codes(&findings), ["TCPX-101", "TCPX-127", "TCPX-110"]);
}
