//! Findings about encryption by this machine and around it.

use tcpx_diagnosis::Severity;

use crate::fixture::codes;
use crate::machine::Machine;

const ULPS: &str = "/proc/sys/net/ipv4/tcp_available_ulp";

#[test]
fn tls_of_the_kernel_is_there_loadable_or_absent() {
    let tree = Machine::healthy();
    assert_eq!(codes(&tree.examine()), [""; 0], "a kernel that does not list it");
    let seen = |listed: &str| {
        tree.write(ULPS, listed);
        let findings = tree.examine();
        assert_eq!(codes(&findings), ["TCPX-614"]);
        assert_eq!(findings[0].severity, Severity::Info);
        findings[0].seen.clone()
    };
    assert_eq!(seen("espintcp mptcp tls\n"), "the kernel has TLS");
    assert_eq!(seen("mptcp\n"), "the kernel has no TLS");
    assert_eq!(seen("tls_of_another_name\n"), "the kernel has no TLS");
    tree.write("/proc/sys/kernel/osrelease", "6.18.5\n");
    tree.write("/lib/modules/6.18.6/kernel/net/tls/tls.ko", "");
    assert_eq!(seen("mptcp\n"), "the kernel has no TLS", "a module of another kernel");
    tree.write("/lib/modules/6.18.5/kernel/net/tls/tls.ko.zst", "");
    assert_eq!(seen("mptcp\n"), "the kernel has TLS in a module, which is not loaded");
    assert_eq!(seen("tls\n"), "the kernel has TLS");
}

#[test]
fn a_clock_that_nothing_sets_matters_to_certificates_alone() {
    let mut tree = Machine::healthy();
    let mut found = |clock, certificate: Option<&str>| {
        tree.kernel.clock_synchronised = clock;
        tree.env.remove("TCPX_TLS_CERT");
        tree.env.extend(certificate.map(|path| ("TCPX_TLS_CERT".to_owned(), path.to_owned())));
        let findings = tree.examine();
        assert!(findings.iter().all(|it| it.severity == Severity::Warning), "{findings:?}");
        codes(&findings).iter().any(|code| code == "TCPX-615")
    };
    assert!(found(Some(false), Some("/etc/tcpx/cert.pem")));
    assert!(!found(Some(true), Some("/etc/tcpx/cert.pem")));
    assert!(!found(None, Some("/etc/tcpx/cert.pem")), "a sandbox forbids the query");
    assert!(!found(Some(false), Some("")));
    assert!(!found(Some(false), None));
}

#[test]
fn the_network_of_a_known_cloud() {
    for (file, content, cloud) in [
        ("product_name", "Google Compute Engine\n", Some("Google Cloud: ")),
        ("sys_vendor", "Amazon EC2\n", Some("Amazon EC2: ")),
        ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77\n", Some("Azure: ")),
        // Hyper-V on a machine of one's own says the same maker.
        ("sys_vendor", "Microsoft Corporation\n", None),
        ("sys_vendor", "QEMU\n", None),
    ] {
        let tree = Machine::healthy();
        tree.write(&format!("/sys/class/dmi/id/{file}"), content);
        let findings = tree.examine();
        assert_eq!(codes(&findings), Vec::from_iter(cloud.map(|_| "TCPX-616")), "{content}");
        if let (Some(finding), Some(cloud)) = (findings.first(), cloud) {
            assert_eq!(finding.severity, Severity::Info);
            assert!(finding.seen.starts_with(cloud), "{}", finding.seen);
        }
    }
}
