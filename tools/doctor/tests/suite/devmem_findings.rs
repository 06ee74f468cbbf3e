//! Findings about device memory TCP in the kernel and the NICs' drivers.

use tcpx_devmem::{FlowRule, InstalledRule, NicFacts};
use tcpx_diagnosis::{Dialects, Finding, Severity};
use tcpx_doctor::{
    DevmemSupport, HeaderSplit, LogLine, NicCounters, Rings, Statistics, ZeroCopySupport,
    check_devmem_packets, data_nic_names,
};

use crate::fixture::{codes, one};
use crate::machine::{Machine, queues};

/// Examines an A3 host whose kernel has other replies, and returns the findings about one NIC.
fn examine_with(change: impl FnOnce(&mut Machine)) -> Vec<Finding> {
    let mut tree = Machine::healthy();
    change(&mut tree);
    let mut findings = tree.examine();
    // All four data NICs have the same findings.
    findings.retain(|finding| {
        !["eth2", "eth3", "eth4"].iter().any(|nic| finding.seen.starts_with(nic))
    });
    findings
}

const MAINLINE: Option<Dialects> = Some(Dialects { google: false, mainline: true });

#[test]
fn no_dialect() {
    let findings = examine_with(|machine| machine.facts.dialects = Some(Dialects::default()));
    assert_eq!(codes(&findings), ["TCPX-401"]);
    assert_eq!(findings[0].severity, Severity::FatalForPlugin);
    assert_eq!(
        findings[0].cure,
        ["uname -r", "# run on an A3 image with GPUDirect-TCPX support, or use plugin = soft"]
    );
}

#[test]
fn the_mainline_dialect_only() {
    let findings = examine_with(|machine| machine.facts.dialects = MAINLINE);
    assert_eq!(codes(&findings), ["TCPX-402", "TCPX-415", "TCPX-416", "TCPX-440"]);
    assert_eq!(findings[0].seen, "option 80 is known, option 97 is not");
    assert_eq!(findings[0].cure[0], "uname -r");
    assert_eq!(findings[1].seen, "eth1: bind-rx: capable");
    assert_eq!(findings[2].cure, ["# nothing to do"]);
}

#[test]
fn an_unknown_dialect() {
    let findings = examine_with(|machine| machine.facts.dialects = None);
    assert_eq!(codes(&findings), ["TCPX-414"]);
    assert_eq!(findings[0].cure, ["uname -r"]);
}

#[test]
fn drivers_without_device_memory() {
    let findings = examine_with(|machine| {
        machine.facts.dialects = MAINLINE;
        machine.kernel.receive = DevmemSupport::Unsupported("no queue management".into());
        machine.kernel.transmit =
            DevmemSupport::Unsupported("Driver does not support netmem TX".into());
    });
    let receive = one(&findings, "TCPX-403");
    assert_eq!(receive.seen, "eth1: bind-rx: no queue management");
    assert_eq!(
        receive.cure,
        ["ethtool -i eth1", "# drivers with support in 6.18: gve (DQO), bnxt, mlx5e, fbnic"]
    );
    let transmit = one(&findings, "TCPX-404");
    assert_eq!(transmit.seen, "eth1: bind-tx: Driver does not support netmem TX");
    assert_eq!(transmit.cure[0], "ethtool -i eth1");
}

#[test]
fn device_memory_that_is_blocked_or_denied() {
    let findings = examine_with(|machine| {
        machine.facts.dialects = MAINLINE;
        machine.kernel.receive = DevmemSupport::Blocked("queue already bound".into());
        machine.kernel.transmit = DevmemSupport::Denied;
    });
    assert_eq!(one(&findings, "TCPX-412").cure[0], "ip -d link show dev eth1");
    assert_eq!(one(&findings, "TCPX-408").cure, ["sudo tcpx doctor"]);
}

#[test]
fn zero_copy_receive() {
    let with = |answer| {
        examine_with(|machine| {
            machine.facts.dialects = MAINLINE;
            machine.kernel.zero_copy = answer;
        })
    };
    let how = "# nothing to do; TCPX_SOFT_TRANSPORT=io_uring uses it, see docs/devmem.md";
    for (answer, code, said, cure) in [
        (ZeroCopySupport::Supported, "TCPX-440", "capable", how),
        (
            ZeroCopySupport::NoDriverSupport,
            "TCPX-441",
            "not by this driver or device",
            "ethtool -i eth1",
        ),
        (ZeroCopySupport::NoKernelSupport, "TCPX-442", "not by this kernel", "uname -r"),
        (ZeroCopySupport::Denied, "TCPX-443", "not permitted", "sudo tcpx doctor"),
    ] {
        let findings = with(Some(answer));
        let finding = one(&findings, code);
        assert_eq!(finding.seen, format!("eth1: io_uring zero-copy receive: {said}"));
        assert_eq!((finding.severity, finding.cure[0].as_str()), (Severity::Info, cure));
    }
    let unknown = with(None);
    let seen = "eth1: io_uring zero-copy receive: not answered";
    assert_eq!(one(&unknown, "TCPX-411").seen, seen);
}

#[test]
fn free_queues() {
    let findings = examine_with(|machine| {
        machine.facts.dialects = MAINLINE;
        // One finding has all that is missing.
        machine.kernel.queues = Some(NicFacts { has_flow_steering: false, ..queues(16, 16) });
    });
    let none = one(&findings, "TCPX-422");
    assert_eq!(
        none.seen,
        "eth1 has 0 of 1 receive queues free: of 16, 16 have ordinary packets, 0 have another user"
    );
    assert_eq!(none.cure[..2], ["ethtool -x eth1", "ethtool -X eth1 equal 15"]);
    let findings = examine_with(|machine| {
        machine.facts.dialects = MAINLINE;
        machine.kernel.queues = None;
    });
    assert_eq!(one(&findings, "TCPX-411").seen, "eth1: receive queues: not answered");
    // A NIC that cannot receive into device memory needs no queue.
    let findings = examine_with(|machine| {
        machine.facts.dialects = MAINLINE;
        machine.kernel.receive = DevmemSupport::Unsupported(String::new());
        machine.kernel.queues = Some(queues(16, 16));
    });
    assert!(!codes(&findings).contains(&"TCPX-422".to_owned()), "{:?}", codes(&findings));
}

#[test]
fn stale_flow_rules() {
    let stale = |location| {
        let [from, to] = ["10.0.0.1:5", "10.0.0.2:6"].map(|it| it.parse().expect("an address"));
        InstalledRule { rule: FlowRule { from, to, queue: 15 }, location }
    };
    let findings = examine_with(|machine| {
        machine.facts.dialects = MAINLINE;
        machine.kernel.stale_rules = vec![stale(3), stale(9)];
    });
    let finding = one(&findings, "TCPX-427");
    assert_eq!(
        finding.seen,
        "eth1: flow rules 3, 9 lead to queues without device memory, the first from 10.0.0.1:5 to \
         10.0.0.2:6"
    );
    assert_eq!(finding.cure, ["ethtool -n eth1", "ethtool -N eth1 delete 3"]);
}

#[test]
fn header_split() {
    let findings = examine_with(|machine| {
        machine.kernel.rings =
            Some(Rings { header_split: HeaderSplit::Off, header_split_threshold_bytes: Some(256) });
    });
    assert_eq!(codes(&findings), ["TCPX-405", "TCPX-406"]);
    assert_eq!(findings[0].cure, ["ethtool -G eth1 tcp-data-split on"]);
    assert_eq!(findings[1].seen, "eth1: hds-thresh is 256 bytes");
    assert_eq!(findings[1].cure, ["ethtool -G eth1 hds-thresh 0"]);
}

#[test]
fn flow_steering() {
    let findings = examine_with(|machine| machine.kernel.flow_steering = Some(false));
    assert_eq!(codes(&findings), ["TCPX-407"]);
    assert_eq!(findings[0].cure, ["ethtool -K eth1 ntuple on"]);
}

#[test]
fn settings_that_cannot_be_read() {
    let findings = examine_with(|machine| {
        machine.kernel.rings = None;
        machine.kernel.flow_steering = None;
    });
    assert_eq!(codes(&findings), ["TCPX-411", "TCPX-411"]);
    assert_eq!(findings[0].seen, "eth1: ring settings: not answered");
    assert_eq!(findings[0].cure, ["ethtool -g eth1", "ethtool -k eth1"]);
    let findings = examine_with(|machine| {
        machine.kernel.rings =
            Some(Rings { header_split: HeaderSplit::Unknown, header_split_threshold_bytes: None });
    });
    assert_eq!(findings[0].seen, "eth1: the driver does not report tcp-data-split");
}

#[test]
fn the_counter_of_device_memory_packets() {
    let snapshot = |first: u64, second: u64| {
        Statistics::from([
            ("rx_devmem_pkts".to_owned(), first),
            ("rx_devmem_pkts[3]".to_owned(), second),
            ("rx_packets".to_owned(), 1_000_000),
        ])
    };
    let moved = check_devmem_packets("eth1", &snapshot(5, 0), &snapshot(5, 7));
    assert_eq!((moved.id.to_string().as_str(), moved.severity), ("TCPX-413", Severity::Info));
    assert_eq!(moved.seen, "eth1: 7 packets reached device memory");
    assert_eq!(moved.cure, ["# nothing to do"]);

    let stood = check_devmem_packets("eth1", &snapshot(5, 1), &snapshot(5, 1));
    assert_eq!((stood.id.to_string().as_str(), stood.severity), ("TCPX-409", Severity::Error));
    assert_eq!(stood.seen, "eth1: rx_devmem_pkts was 6 before and is 6 after");
    assert_eq!(
        stood.cure,
        ["ethtool -S eth1 | grep rx_devmem_pkts", "ethtool -n eth1", "tcpx devices"]
    );

    let absent = check_devmem_packets("eth1", &Statistics::new(), &snapshot(0, 1));
    assert_eq!(absent.id.to_string(), "TCPX-410");
    assert_eq!(absent.cure, ["ethtool -S eth1"]);
}

#[test]
fn counters_before_and_after_a_transfer() {
    let mut tree = Machine::healthy();
    let nics = data_nic_names(&tree.host());
    assert_eq!(nics, ["eth1", "eth2", "eth3", "eth4"]);
    let mut read = |counters: &[(&str, u64)]| {
        let counters = counters.iter().map(|(name, value)| ((*name).to_owned(), *value));
        tree.kernel.statistics = Some(counters.collect());
        NicCounters::read(&tree.kernel, ["eth1"])
    };
    let before = read(&[("rx_devmem_pkts", 10), ("rx_drops[0]", 3), ("tx_timeouts", 1)]);
    let after =
        read(&[("rx_devmem_pkts", 25), ("rx_drops[0]", 7), ("tx_timeouts", 1), ("new_err", 9)]);
    let growth = &after.since(&before)[0];
    assert_eq!((growth.nic.as_str(), growth.devmem_packets), ("eth1", Some(15)));
    assert_eq!(growth.errors, [("rx_drops[0]".to_owned(), 4)].into());

    let findings = after.check_since(&before);
    assert_eq!(codes(&findings), ["TCPX-413", "TCPX-417"]);
    assert_eq!(findings[0].seen, "eth1: 15 packets reached device memory");
    assert_eq!(
        (findings[1].seen.as_str(), findings[1].severity),
        ("eth1: rx_drops[0] +4", Severity::Warning)
    );
    assert_eq!(
        findings[1].cure,
        ["ethtool -S eth1", "ip -s link show dev eth1", "dmesg | grep eth1"]
    );
    assert_eq!(codes(&after.check_since(&after)), ["TCPX-409"], "nothing moved");
    assert_eq!(before.since(&after)[0].devmem_packets, Some(0), "the driver was loaded anew");
}

#[test]
fn a_nic_without_counters() {
    let tree = Machine::healthy();
    let counters = NicCounters::read(&tree.kernel, ["eth1"]);
    assert_eq!(counters.since(&counters)[0].devmem_packets, None);
    assert_eq!(codes(&counters.check_since(&counters)), ["TCPX-410"]);
}

#[test]
fn the_last_warning_of_a_driver_and_its_age() {
    let line = |level, seconds, text: &str| LogLine {
        level,
        age: std::time::Duration::from_secs(seconds),
        text: text.to_owned(),
    };
    let log = vec![
        line(3, 9000, "NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus."),
        line(4, 720, "gve 0000:06:00.0 eth1: Device reset"),
        line(6, 60, "gve 0000:06:00.0 eth1: Device link is up."),
        line(3, 30, "EXT4-fs error (device sda1)"),
        line(4, 20, "netlink: weth12 is none of them"),
    ];
    let findings = examine_with(|machine| machine.kernel.log = Ok(log));
    assert_eq!(codes(&findings), ["TCPX-418"]);
    assert_eq!(findings[0].severity, Severity::Warning);
    assert_eq!(findings[0].seen, "12 min ago, the last of 2: gve 0000:06:00.0 eth1: Device reset");
    assert_eq!(findings[0].cure, ["dmesg -T --level=emerg,alert,crit,err,warn", "nvidia-smi"]);
}

#[test]
fn a_log_that_may_not_be_read() {
    let denied = std::io::ErrorKind::PermissionDenied;
    let findings = examine_with(|machine| machine.kernel.log = Err(denied));
    assert_eq!(codes(&findings), ["TCPX-419"]);
    assert_eq!(findings[0].cure, ["sudo dmesg -T --level=emerg,alert,crit,err,warn"]);
    let absent = examine_with(|machine| machine.kernel.log = Err(std::io::ErrorKind::NotFound));
    assert!(absent.is_empty(), "{absent:?}");
}
