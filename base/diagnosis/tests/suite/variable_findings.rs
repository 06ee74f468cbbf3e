//! Findings about variables.

use tcpx_diagnosis::Severity;
use tcpx_diagnosis::variables::{Env, lint};

use crate::fixture::profile_lint::{CPUS, INTERFACES, ProfileLint};
use crate::fixture::{codes, one};

const LINT: ProfileLint = ProfileLint(lint);

const CHUNK_CURE: &[&str] = &["export NCCL_DYNAMIC_CHUNK_SIZE=524288"];

#[test]
fn chunk_size() {
    let chunk = |value| [("NCCL_DYNAMIC_CHUNK_SIZE", value)];
    LINT.expect(&chunk(""), "TCPX-101", "NCCL_DYNAMIC_CHUNK_SIZE is unset", CHUNK_CURE);
    LINT.expect(&chunk("0"), "TCPX-101", "NCCL_DYNAMIC_CHUNK_SIZE=0, read as 0 bytes", CHUNK_CURE);
    LINT.expect(
        &chunk("large"),
        "TCPX-101",
        "NCCL_DYNAMIC_CHUNK_SIZE=large, read as 0 bytes",
        CHUNK_CURE,
    );
    LINT.expect(
        &chunk("512K"),
        "TCPX-102",
        "NCCL_DYNAMIC_CHUNK_SIZE=512K, read as 512 bytes",
        CHUNK_CURE,
    );
    LINT.expect(
        &chunk("-1"),
        "TCPX-103",
        "NCCL_DYNAMIC_CHUNK_SIZE=-1, read as -1 bytes",
        CHUNK_CURE,
    );
    LINT.expect(
        &chunk("2147483647"),
        "TCPX-103",
        "NCCL_DYNAMIC_CHUNK_SIZE=2147483647, read as 2147483647 bytes",
        CHUNK_CURE,
    );
    LINT.expect(
        &chunk("8388608"),
        "TCPX-104",
        "NCCL_DYNAMIC_CHUNK_SIZE=8388608, read as 8388608 bytes",
        CHUNK_CURE,
    );
    assert_eq!(LINT.with(&chunk("0x80000")), []);
}

#[test]
fn nccls_chunk_is_the_plugins() {
    let both =
        |plugins, nccls| [("NCCL_DYNAMIC_CHUNK_SIZE", plugins), ("NCCL_P2P_NET_CHUNKSIZE", nccls)];
    assert_eq!(LINT.with(&both("4194304", "4194304")), []);
    assert_eq!(LINT.with(&both("524288", "")), []);
    LINT.expect(
        &both("524288", "1048576"),
        "TCPX-135",
        "NCCL_P2P_NET_CHUNKSIZE=1048576, NCCL_DYNAMIC_CHUNK_SIZE=524288",
        &["export NCCL_P2P_NET_CHUNKSIZE=524288", "# the same on all hosts"],
    );
}

#[test]
fn threads_and_sockets() {
    let cure = ["export NCCL_SOCKET_NTHREADS=1 NCCL_NSOCKS_PERTHREAD=4"];
    LINT.expect(&[("NCCL_SOCKET_NTHREADS", "9")], "TCPX-105", "NCCL_SOCKET_NTHREADS=9", &cure);
    LINT.expect(
        &[("NCCL_SOCKET_NTHREADS", "3")],
        "TCPX-106",
        "4 sockets for each of 3 threads: 6 are left",
        &cure,
    );
    assert_eq!(LINT.with(&[("NCCL_SOCKET_NTHREADS", "2")]), []);
    // Out of range is the default of one thread.
    LINT.expect(
        &[("NCCL_SOCKET_NTHREADS", "17")],
        "TCPX-107",
        "NCCL_SOCKET_NTHREADS=17, read as 17; legal is 1..16",
        &["unset NCCL_SOCKET_NTHREADS", "# or give it a value in 1..16"],
    );
}

#[test]
fn values_out_of_range() {
    LINT.expect(
        &[("NCCL_NSOCKS_PERTHREAD", "9")],
        "TCPX-107",
        "NCCL_NSOCKS_PERTHREAD=9, read as 9; legal is 1..8",
        &["unset NCCL_NSOCKS_PERTHREAD", "# or give it a value in 1..8"],
    );
    LINT.expect(
        &[("NCCL_GPUDIRECTTCPX_SCHED_ALG", "FAIR")],
        "TCPX-107",
        "NCCL_GPUDIRECTTCPX_SCHED_ALG=FAIR; legal is RR, KATY",
        &["unset NCCL_GPUDIRECTTCPX_SCHED_ALG", "# or give it a value in RR, KATY"],
    );
    LINT.expect(
        &[("NCCL_GPUDIRECTTCPX_TX_COMPLETION_NANOSLEEP", "1us")],
        "TCPX-108",
        "NCCL_GPUDIRECTTCPX_TX_COMPLETION_NANOSLEEP=1us, read as 1; legal is 0 or more",
        &[
            "# write NCCL_GPUDIRECTTCPX_TX_COMPLETION_NANOSLEEP as plain decimal digits, in 0 or more",
        ],
    );
}

#[test]
fn variables_without_effect() {
    LINT.expect(
        &[("NCCL_GPUDIRECTTCPX_PORT_BEGIN", "50000")],
        "TCPX-109",
        "NCCL_GPUDIRECTTCPX_PORT_BEGIN=50000: declared, never read: ports are ephemeral",
        &["unset NCCL_GPUDIRECTTCPX_PORT_BEGIN"],
    );
    LINT.expect(
        &[("NCCL_GPUDIRECTTCPX_MIN_ZCOPY_SIZE", "4096")],
        "TCPX-110",
        "NCCL_GPUDIRECTTCPX_MIN_ZCOPY_SIZE=4096: does not exist; NCCL_MIN_ZCOPY_SIZE does, for host sends",
        &["unset NCCL_GPUDIRECTTCPX_MIN_ZCOPY_SIZE"],
    );
}

const RX: &str = "NCCL_GPUDIRECTTCPX_RX_BINDINGS";
const TX: &str = "NCCL_GPUDIRECTTCPX_TX_BINDINGS";

#[test]
fn bindings_without_a_range() {
    let profile = "export NCCL_GPUDIRECTTCPX_RX_BINDINGS='eth1:22-35,126-139;eth2:22-35,126-139;\
                   eth3:74-87,178-191;eth4:74-87,178-191'";
    LINT.expect(
        &[(RX, "eth1:22")],
        "TCPX-111",
        "NCCL_GPUDIRECTTCPX_RX_BINDINGS=eth1:22: no valid range for eth1",
        &[profile],
    );
    LINT.expect(
        &[(RX, ";")],
        "TCPX-111",
        "NCCL_GPUDIRECTTCPX_RX_BINDINGS=;: no valid range for any interface",
        &[profile],
    );
    assert_eq!(one(&LINT.with(&[(TX, "eth1:9-8")]), "TCPX-111").severity, Severity::FatalForPlugin);
}

#[test]
fn bindings_that_overlap() {
    LINT.expect(
        &[(RX, "eth1:21-35")],
        "TCPX-112",
        "eth1: cores 21-21 are in both bindings",
        &[
            "# give NCCL_GPUDIRECTTCPX_RX_BINDINGS and NCCL_GPUDIRECTTCPX_TX_BINDINGS disjoint cores for each interface",
        ],
    );
    LINT.expect(
        &[(RX, "eth1:22-35,124-139;eth2:22-35,124-139")],
        "TCPX-113",
        "eth1: cores 124-125 are in both bindings",
        &["export NCCL_GPUDIRECTTCPX_RX_BINDINGS='eth1:22-35,126-139;eth2:22-35,126-139;\
           eth3:74-87,178-191;eth4:74-87,178-191'"],
    );
}

#[test]
fn bindings_that_are_partly_wrong() {
    let cure = [
        "# correct NCCL_GPUDIRECTTCPX_TX_BINDINGS: interfaces that exist, lo-hi ranges with a dash, \
                 cores that exist",
    ];
    for (value, reason) in [
        ("eth1:8-9,x", "eth1 has \"x\", which is no range"),
        ("eth9:8-9", "there is no interface eth9"),
        ("8-9", "a part names no interface"),
        ("eth1:200-208", "eth1 names CPU 208, there are 208 CPUs"),
        ("eth1:0-0,1-1,2-2,3-3,4-4,5-5,6-6,7-7,8-8", "eth1 has more than 8 ranges"),
    ] {
        let seen = format!("NCCL_GPUDIRECTTCPX_TX_BINDINGS={value}: {reason}");
        LINT.expect(&[(TX, value)], "TCPX-114", &seen, &cure);
    }
}

#[test]
fn interfaces() {
    LINT.expect(
        &[("NCCL_GPUDIRECTTCPX_CTRL_DEV", "ens5")],
        "TCPX-116",
        "NCCL_GPUDIRECTTCPX_CTRL_DEV=ens5, interfaces are lo eth0 eth1 eth2 eth3 eth4",
        &["ip -br -4 addr", "export NCCL_GPUDIRECTTCPX_CTRL_DEV=eth0"],
    );
    LINT.expect(
        &[("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "ens")],
        "TCPX-117",
        "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=ens, interfaces are lo eth0 eth1 eth2 eth3 eth4",
        &["ip -br -4 addr", "export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=eth0,eth1,eth2,eth3,eth4"],
    );
    LINT.expect(
        &[("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "eth1,eth5")],
        "TCPX-132",
        "eth5 matches nothing: NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=eth1,eth5, interfaces are lo eth0 eth1 eth2 eth3 eth4",
        &["ip -br -4 addr", "# correct NCCL_GPUDIRECTTCPX_SOCKET_IFNAME"],
    );
    let many: Vec<String> = (10..40).map(|number| format!("eth{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let env = Env::from([
        ("NCCL_DYNAMIC_CHUNK_SIZE".to_owned(), "524288".to_owned()),
        ("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME".to_owned(), "eth".to_owned()),
    ]);
    let findings = lint(&env, &many, 0);
    let finding = one(&findings, "TCPX-131");
    assert_eq!(finding.cure, ["export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=eth1,eth2,eth3,eth4"]);
}

#[test]
fn switches_that_break_the_plugin() {
    for (name, value, code, severity, cure) in [
        (
            "NCCL_INLINE_THRESHOLD",
            "1024",
            "TCPX-115",
            Severity::FatalForPlugin,
            "unset NCCL_INLINE_THRESHOLD",
        ),
        (
            "NCCL_GPUDIRECTTCPX_FLOW_STEERING_STRATEGY",
            "2",
            "TCPX-118",
            Severity::FatalForPlugin,
            "unset NCCL_GPUDIRECTTCPX_FLOW_STEERING_STRATEGY",
        ),
        (
            "NCCL_GPUDIRECTTCPX_SOCKET_ENABLE",
            "0",
            "TCPX-119",
            Severity::FatalForPlugin,
            "unset NCCL_GPUDIRECTTCPX_SOCKET_ENABLE",
        ),
        (
            "NCCL_GPUDIRECTTCPX_CONNECTION_RETRY",
            "0",
            "TCPX-120",
            Severity::FatalForPlugin,
            "unset NCCL_GPUDIRECTTCPX_CONNECTION_RETRY",
        ),
        ("NCCL_USE_DMA_BUF", "0", "TCPX-121", Severity::Error, "unset NCCL_USE_DMA_BUF"),
        (
            "NCCL_GPUDIRECTTCPX_SPINWAIT_CONNECT",
            "0",
            "TCPX-124",
            Severity::Warning,
            "unset NCCL_GPUDIRECTTCPX_SPINWAIT_CONNECT",
        ),
        (
            "NCCL_TCPX_RXMEM_IMPORT_SKIP_ODDS",
            "1",
            "TCPX-125",
            Severity::Error,
            "unset NCCL_TCPX_RXMEM_IMPORT_SKIP_ODDS",
        ),
        (
            "NCCL_TCPX_RXMEM_IMPORT_USE_GPU_PCI_CLIENT",
            "0",
            "TCPX-126",
            Severity::FatalForPlugin,
            "export NCCL_TCPX_RXMEM_IMPORT_USE_GPU_PCI_CLIENT=1",
        ),
        (
            "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS",
            "5000000",
            "TCPX-127",
            Severity::Info,
            "export NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS=500000",
        ),
        (
            "NCCL_GPUDIRECTTCPX_SOCKET_FAMILY",
            "AF_INET6",
            "TCPX-128",
            Severity::Error,
            "export NCCL_GPUDIRECTTCPX_SOCKET_FAMILY=AF_INET",
        ),
    ] {
        LINT.expect(&[(name, value)], code, &format!("{name}={value}"), &[cure]);
        assert_eq!(LINT.with(&[(name, value)])[0].severity, severity, "{name}");
    }
}

#[test]
fn rendezvous_needs_both_ends() {
    LINT.expect(
        &[("NCCL_GPUDIRECTTCPX_RECV_SYNC", "1")],
        "TCPX-123",
        "NCCL_GPUDIRECTTCPX_RECV_SYNC=1",
        &["unset NCCL_GPUDIRECTTCPX_RECV_SYNC", "# or set it to 1 on both hosts"],
    );
}

#[test]
fn telemetry_needs_a_path() {
    let export = ("NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORT_STATS_TO_FILE", "1");
    LINT.expect(
        &[export],
        "TCPX-122",
        "NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORT_STATS_TO_FILE=1, \
         NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORTER_PATH is unset",
        &["unset NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORT_STATS_TO_FILE"],
    );
    assert_eq!(
        LINT.with(&[export, ("NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORTER_PATH", "/tmp/stats")]),
        []
    );
}

#[test]
fn an_empty_environment_has_the_findings_of_the_defaults() {
    let findings = lint(&Env::new(), &INTERFACES, CPUS);
    assert_eq!(codes(&findings), ["TCPX-101", "TCPX-127"]);
}
