//! Findings about the system's limits.

use crate::fixture::codes;
use crate::machine::Machine;

#[test]
fn settings_of_the_kernel() {
    for (file, content, code, seen, cure) in [
        (
            "core/optmem_max",
            "20480",
            "TCPX-601",
            "net.core.optmem_max allows 20480 bytes, 131072 are advised",
            "sysctl -w net.core.optmem_max=131072",
        ),
        (
            "ipv4/tcp_rmem",
            "4096 131072 6291456",
            "TCPX-603",
            "net.ipv4.tcp_rmem allows 6291456 bytes, 15728640 are advised",
            "sysctl -w net.ipv4.tcp_rmem='4096 1048576 15728640'",
        ),
        (
            "ipv4/tcp_wmem",
            "4096 16384 4194304",
            "TCPX-604",
            "net.ipv4.tcp_wmem allows 4194304 bytes, 67108864 are advised",
            "sysctl -w net.ipv4.tcp_wmem='4096 1048576 67108864'",
        ),
        (
            "ipv4/ip_local_port_range",
            "50000 50999",
            "TCPX-605",
            "local ports 50000 to 50999: 1000",
            "sysctl -w net.ipv4.ip_local_port_range='32768 60999'",
        ),
        (
            "ipv4/tcp_slow_start_after_idle",
            "1",
            "TCPX-609",
            "net.ipv4.tcp_slow_start_after_idle is 1",
            "sysctl -w net.ipv4.tcp_slow_start_after_idle=0",
        ),
    ] {
        let tree = Machine::healthy();
        tree.write(&format!("/proc/sys/net/{file}"), content);
        let findings = tree.examine();
        assert_eq!(codes(&findings), [code]);
        assert_eq!(findings[0].seen, seen);
        assert_eq!(findings[0].cure, [cure]);
    }
}

#[test]
fn a_setting_that_cannot_be_read() {
    let tree = Machine::healthy();
    tree.remove("/proc/sys/net/core/optmem_max");
    let findings = tree.examine();
    assert_eq!(codes(&findings), ["TCPX-611"]);
    assert_eq!(findings[0].cure, ["ls -l /proc/sys/net/core/optmem_max"]);
}

#[test]
fn limits_of_the_process() {
    let mut tree = Machine::healthy();
    tree.kernel.locked_memory = Some(65_536);
    tree.kernel.open_files = Some(1024);
    let findings = tree.examine();
    assert_eq!(codes(&findings), ["TCPX-602", "TCPX-608"]);
    assert_eq!(findings[0].seen, "65536 bytes may be locked");
    assert_eq!(
        findings[0].cure,
        ["ulimit -l unlimited", "# in a container: add the capability IPC_LOCK"]
    );
    assert_eq!(findings[1].cure, ["ulimit -n 65536"]);
}

#[test]
fn a_processor_without_instructions_for_aes() {
    let tree = Machine::healthy();
    for (cpuinfo, code) in [
        ("model name\t: x\nflags\t\t: fpu aes avx2\n", None),
        ("Features\t: fp asimd aes pmull\n", None),
        ("flags\t\t: fpu vaes_of_another_name avx2\n", Some("TCPX-612")),
        ("Features\t: fp asimd\n", Some("TCPX-612")),
        ("uarch\t: another form\n", None),
    ] {
        tree.write("/proc/cpuinfo", cpuinfo);
        assert_eq!(codes(&tree.examine()), Vec::from_iter(code), "{cpuinfo:?}");
    }
}
