//! Findings about RxDM, against a daemon that behaves in every way.

use std::path::Path;
use std::time::Instant;

use tcpx_diagnosis::{Finding, Severity, check_rxdm, preflight};
use tcpx_testkit::rxdm::{RxdmServer, SocketBehaviour, framed_metadata};

use crate::fixture::codes;
use crate::fixture::host_tree::{HostTree, PLUGIN, soon};

const METADATA: &str = "get_gpu_metadata_0000:04:00.0";

/// A healthy host one of whose sockets has another behaviour.
fn with_behaviour(socket: &str, behaviour: SocketBehaviour) -> Vec<Finding> {
    let mut tree = HostTree::healthy();
    tree.rxdm.as_mut().expect("a daemon").change(socket, behaviour);
    let findings = tree.preflight();
    assert!(findings.iter().all(|finding| finding.severity == Severity::FatalForPlugin));
    findings
}

#[test]
fn no_daemon_at_all() {
    let tree = HostTree::without_rxdm();
    let findings = tree.preflight();
    assert_eq!(codes(&findings), ["TCPX-501"]);
    assert_eq!(findings[0].seen, "no RxDM socket in /run/tcpx");
    assert_eq!(
        findings[0].cure,
        [
            "ls -l /run/tcpx",
            "# start RxDM (tcpgpudmarxd --gpu_nic_preset a3vm --gpu_shmem_type fd --uds_path /run/tcpx) \
             and mount its directory"
        ]
    );
}

#[test]
fn the_default_prefix_against_the_daemons() {
    let mut tree = HostTree::healthy();
    tree.env.remove("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX");
    let findings = tree.preflight();
    assert_eq!(codes(&findings), ["TCPX-502"]);
    assert_eq!(findings[0].seen, "the plugin will look in /tmp, RxDM's sockets are in /run/tcpx");
    assert_eq!(findings[0].cure, ["export NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX=/run/tcpx"]);
}

#[test]
fn the_daemons_directory_mounted_at_tmp() {
    let mut tree = HostTree::without_rxdm();
    tree.rxdm = Some(RxdmServer::start(&tree.path("/tmp"), &["0000:04:00.0"]));
    let findings = tree.preflight();
    assert_eq!(findings[0].cure, ["export NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX=/tmp"]);
    tree.env.remove("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX");
    // Now only the sockets of the other GPUs are missing.
    let findings = tree.preflight();
    assert_eq!(findings.len(), 14, "{findings:#?}");
    assert_eq!(findings[0].seen, "/tmp/get_gpu_fd_0000:05:00.0 does not exist");
}

#[test]
fn an_empty_directory() {
    let tree = HostTree::without_rxdm();
    std::fs::create_dir_all(tree.path("/run/tcpx")).expect("a directory");
    let findings = tree.preflight();
    assert_eq!(codes(&findings), ["TCPX-503"]);
    assert_eq!(findings[0].seen, "/run/tcpx/rx_rule_manager does not exist");
    assert_eq!(findings[0].cure[0], "ls -l /run/tcpx");
}

#[test]
fn a_gpu_that_the_daemon_does_not_serve() {
    let mut tree = HostTree::healthy();
    tree.rxdm.as_mut().expect("a daemon").end("get_gpu_fd_0000:8b:00.0");
    let findings = tree.preflight();
    assert_eq!(codes(&findings), ["TCPX-503"]);
    assert_eq!(findings[0].seen, "/run/tcpx/get_gpu_fd_0000:8b:00.0 does not exist");
    assert_eq!(
        findings[0].cure[1],
        "# restart RxDM and look at its log; in a job script, wait for it before the job starts"
    );
}

#[test]
fn only_the_gpu_in_use_needs_the_daemon() {
    let mut tree = HostTree::healthy();
    tree.rxdm.as_mut().expect("a daemon").end("get_gpu_fd_0000:8b:00.0");
    let verdict = |gpu| preflight(Path::new(PLUGIN), Some(gpu), &tree.host());
    assert_eq!(verdict("0000:04:00.0"), Ok(()));
    let report = verdict("0000:8B:00.0").expect_err("its socket is missing");
    assert_eq!(codes(report.findings()), ["TCPX-503"]);
}

#[test]
fn the_registry_is_needed_only_on_request() {
    let mut tree = HostTree::healthy();
    tree.set("NCCL_GPUDIRECTTCPX_REPORT_LIFECYCLE", "1");
    let findings = tree.preflight();
    assert_eq!(codes(&findings), ["TCPX-503"]);
    assert_eq!(findings[0].seen, "/run/tcpx/rxdm_application_registry does not exist");
    assert_eq!(findings[0].cure[0], "ls -l /run/tcpx");
}

#[test]
fn a_daemon_that_has_ended() {
    for socket in ["rx_rule_manager", METADATA] {
        let findings = with_behaviour(socket, SocketBehaviour::Refuse);
        assert_eq!(codes(&findings), ["TCPX-504"], "{socket}");
        assert_eq!(findings[0].seen, format!("/run/tcpx/{socket}: connection refused"));
        assert_eq!(
            findings[0].cure,
            [
                "# restart RxDM and look at its log: driver and CUDA upgrades are a common reason for its end"
            ]
        );
    }
}

#[test]
fn a_daemon_that_hangs() {
    let mut tree = HostTree::healthy();
    tree.rxdm.as_mut().expect("a daemon").change(METADATA, SocketBehaviour::Hang);
    tree.deadline = soon();
    let start = Instant::now();
    // No other GPU: on a busy machine its answer may be late, too.
    let report = preflight(Path::new(PLUGIN), Some("0000:04:00.0"), &tree.host());
    let report = report.expect_err("there is no answer");
    let findings = report.findings();
    assert_eq!(codes(findings), ["TCPX-505"]);
    assert_eq!(findings[0].severity, Severity::FatalForPlugin);
    assert_eq!(findings[0].seen, format!("/run/tcpx/{METADATA}: no answer within the deadline"));
    assert_eq!(findings[0].cure, ["# restart RxDM and look at its log"]);
    assert!(start.elapsed() >= soon());
}

#[test]
fn a_daemon_that_closes_without_an_answer() {
    let findings = with_behaviour(METADATA, SocketBehaviour::Close);
    assert_eq!(codes(&findings), ["TCPX-506"]);
    assert_eq!(
        findings[0].cure,
        ["# restart RxDM; check that its version belongs to the plugin's"]
    );
}

/// Preflight only looks at the sockets that take rules. Once something is wrong they are asked, and
/// tell on a machine without a GPU, too.
#[test]
fn sockets_for_rules_are_asked_again_and_change_nothing() {
    for (socket, behaviour, expected) in [
        ("rx_rule_manager", SocketBehaviour::Hang, "TCPX-505"),
        ("rx_rule_uninstall", SocketBehaviour::Hang, "TCPX-505"),
        ("rx_rule_manager", SocketBehaviour::Close, "TCPX-506"),
        ("rx_rule_manager", SocketBehaviour::Refuse, "TCPX-504"),
    ] {
        let mut tree = HostTree::healthy();
        assert_eq!(check_rxdm(&tree.host(), None), None, "what is no rule is answered as well");
        tree.rxdm.as_mut().expect("a daemon").change(socket, behaviour.clone());
        tree.deadline = soon();
        let nobodys = Some("0000:ff:00.0");
        let found = check_rxdm(&tree.host(), nobodys).expect("something is wrong");
        assert_eq!(found.id.to_string(), expected, "{socket}: {behaviour:?}");
        let is_seen_before = preflight(Path::new(PLUGIN), nobodys, &tree.host()).is_err();
        assert_eq!(
            is_seen_before,
            matches!(behaviour, SocketBehaviour::Refuse),
            "{socket}: {behaviour:?}"
        );
    }
}

#[test]
fn answers_that_the_plugin_would_misread() {
    let cure =
        ["# install the RxDM version that belongs to the plugin's (plugin 3.1.9: RxDM 2.0.12)"];
    for (answer, reason) in [
        (
            framed_metadata(5 << 30, 0),
            "receive memory of 5368709120 bytes; 1 to 4294967296 are possible",
        ),
        (vec![0, 3, 0x0a, 1, b'x'], "metadata of 1 bytes, 24 are expected"),
        (vec![0, 2, 0x12, 0], "a message of 2 bytes without raw_bytes"),
        (vec![0, 2, 0x0a, 9], "a message of 2 bytes without raw_bytes"),
        (vec![0, 0], "a message of 0 bytes without raw_bytes"),
    ] {
        let findings = with_behaviour(METADATA, SocketBehaviour::Answer(answer));
        assert_eq!(codes(&findings), ["TCPX-507"], "{reason}");
        assert_eq!(findings[0].seen, format!("/run/tcpx/{METADATA}: {reason}"));
        assert_eq!(findings[0].cure, cure);
    }
}

#[test]
fn an_answer_that_breaks_off() {
    let findings = with_behaviour(METADATA, SocketBehaviour::Answer(vec![0xff, 0xff, 0x0a]));
    assert_eq!(codes(&findings), ["TCPX-506"]);
}

#[test]
fn a_file_where_a_socket_should_be() {
    let mut tree = HostTree::healthy();
    tree.rxdm.as_mut().expect("a daemon").end("rx_rule_uninstall");
    std::fs::create_dir(tree.path("/run/tcpx/rx_rule_uninstall")).expect("a directory");
    let findings = tree.preflight();
    assert_eq!(findings.len(), 1, "{findings:#?}");
    // Linux refuses to connect to what is no socket.
    assert_eq!(codes(&findings), ["TCPX-504"]);
}

#[test]
fn a_path_that_is_too_long_for_a_socket() {
    let mut tree = HostTree::without_rxdm();
    let prefix = format!("/run/{}", "x".repeat(100));
    tree.write(&format!("{prefix}/rx_rule_manager"), "");
    tree.set("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX", &prefix);
    let findings = tree.preflight();
    let finding =
        findings.iter().find(|finding| finding.id.to_string() == "TCPX-509").expect("a finding");
    assert_eq!(
        finding.cure,
        [
            format!("ls -l {prefix}/rx_rule_manager"),
            "export NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX=/run/tcpx".to_owned()
        ]
    );
}
