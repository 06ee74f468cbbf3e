//! The verdict before a plugin is loaded.

use std::path::Path;

use tcpx_diagnosis::{Dialects, Report, Severity, preflight};

use crate::fixture::host_tree::{HostTree, PLUGIN};
use crate::fixture::{codes, plugin_library};

#[test]
fn a_healthy_host_passes() {
    let tree = HostTree::healthy();
    assert_eq!(preflight(Path::new(PLUGIN), None, &tree.host()), Ok(()));
}

#[test]
fn only_what_would_kill_the_plugin_is_reported() {
    let mut tree = HostTree::healthy();
    tree.write("/sys/class/net/eth1/operstate", "down\n");
    tree.write("/proc/sys/net/core/optmem_max", "20480\n");
    tree.set("NCCL_USE_DMA_BUF", "0");
    tree.set("NCCL_NSOCKS_PERTHREAD", "9");
    assert_eq!(tree.preflight(), []);
    tree.set("NCCL_SOCKET_NTHREADS", "16");
    assert_eq!(codes(&tree.preflight()), ["TCPX-105"]);
    // Read as C does, and its range is the plugin's: 2049 is replaced by 0.
    for (threshold, expected) in [("0x400", &["TCPX-105", "TCPX-115"][..]), ("2049", &["TCPX-105"])]
    {
        tree.set("NCCL_INLINE_THRESHOLD", threshold);
        assert_eq!(codes(&tree.preflight()), expected, "{threshold}");
    }
}

#[test]
fn everything_fatal_is_reported_at_once() {
    let mut tree = HostTree::without_rxdm();
    tree.remove("/sys/bus/pci/devices");
    tree.remove("/proc/driver/nvidia");
    tree.remove("/sys/devices/system/node/node1");
    tree.facts.cuda = Err("none".into());
    tree.facts.dialects = Some(Dialects::default());
    tree.set("NCCL_DYNAMIC_CHUNK_SIZE", "0");
    tree.set("NCCL_GPUDIRECTTCPX_RX_BINDINGS", "eth1:22");
    tree.set("NCCL_GPUDIRECTTCPX_CTRL_DEV", "ens5");
    assert_eq!(
        codes(&tree.preflight()),
        [
            "TCPX-101", "TCPX-111", "TCPX-116", "TCPX-221", "TCPX-222", "TCPX-224", "TCPX-309",
            "TCPX-309", "TCPX-401", "TCPX-501"
        ]
    );
}

#[test]
fn the_software_plugin_needs_none_of_the_hardware() {
    let mut tree = HostTree::without_rxdm();
    tree.install(PLUGIN, plugin_library::software());
    tree.remove("/sys");
    tree.remove("/proc/driver");
    tree.env.clear();
    tree.facts.cuda = Err("none".into());
    tree.facts.dialects = None;
    assert_eq!(tree.preflight(), []);
}

#[test]
fn a_report_is_read_back_from_json() {
    let tree = HostTree::without_rxdm();
    let report = preflight(Path::new(PLUGIN), None, &tree.host()).expect_err("there is no daemon");
    assert_eq!((report.worst(), report.exit_status()), (Some(Severity::FatalForPlugin), 3));
    let json = serde_json::to_string(&report).expect("JSON");
    assert!(json.contains(r#""id":"TCPX-501","severity":"fatal-for-plugin""#), "{json}");
    assert_eq!(serde_json::from_str::<Report>(&json).expect("a report"), report);
}

#[test]
fn a_report_is_shown_for_people() {
    let mut tree = HostTree::healthy();
    tree.set("NCCL_SOCKET_NTHREADS", "9");
    let report = preflight(Path::new(PLUGIN), None, &tree.host()).expect_err("too many threads");
    assert_eq!(
        report.to_string(),
        "TCPX-105 fatal-for-plugin: NCCL_SOCKET_NTHREADS=9\n  \
         why:  the product with NCCL_NSOCKS_PERTHREAD is capped at 8 by reducing the latter, which then becomes 0: \
         no data socket at all\n  \
         cure: export NCCL_SOCKET_NTHREADS=1 NCCL_NSOCKS_PERTHREAD=4"
    );
    assert_eq!(Report::default().to_string(), "nothing wrong was found");
    assert_eq!(Report::default().exit_status(), 0);
}
