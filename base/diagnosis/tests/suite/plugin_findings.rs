//! Findings about the plugin's file and the CUDA driver.

use std::path::Path;

use tcpx_diagnosis::{Finding, Severity};

use crate::fixture::host_tree::{HostTree, PLUGIN};
use crate::fixture::{codes, one, plugin_library};

const READELF: &str = "readelf -W --dyn-syms /usr/local/tcpx/lib64/libnccl-net-tcpx.so";

/// A healthy host whose plugin is `library`.
fn with_plugin(library: &Path) -> Vec<Finding> {
    let tree = HostTree::healthy();
    tree.install(PLUGIN, library);
    tree.findings()
}

#[test]
fn a_healthy_host_has_nothing_to_find() {
    assert_eq!(HostTree::healthy().findings(), []);
}

#[test]
fn a_missing_plugin() {
    let tree = HostTree::healthy();
    tree.remove(PLUGIN);
    let findings = tree.findings();
    let finding = one(&findings, "TCPX-201");
    assert_eq!(finding.severity, Severity::FatalForPlugin);
    assert!(finding.seen.starts_with(PLUGIN), "{}", finding.seen);
    assert_eq!(
        finding.cure,
        [
            "ls -l /usr/local/tcpx/lib64/libnccl-net-tcpx.so",
            "# install the GPUDirect-TCPX plugin there, name another path, or use plugin = soft"
        ]
    );
}

#[test]
fn a_file_that_is_no_library() {
    let cure = [
        "file -L /usr/local/tcpx/lib64/libnccl-net-tcpx.so",
        "# copy the plugin again from its container image",
    ];
    let whole = std::fs::read(plugin_library::hardware()).expect("the library");
    for content in
        [&b""[..], b"INPUT(libnccl-net.so.0)\n", &whole[..whole.len() / 2], &whole[..100]]
    {
        let tree = HostTree::healthy();
        tree.write(PLUGIN, content);
        assert_eq!(one(&tree.findings(), "TCPX-202").cure, cure, "{} bytes", content.len());
    }
    let tree = HostTree::healthy();
    tree.remove(PLUGIN);
    tree.write(&format!("{PLUGIN}/file"), "");
    assert_eq!(one(&tree.findings(), "TCPX-202").cure, cure, "a directory");
}

#[test]
fn damaged_libraries_never_crash_the_reader() {
    let whole = std::fs::read(plugin_library::hardware()).expect("the library");
    let tree = HostTree::without_rxdm();
    // Every byte of the header and a sample of the others, damaged in two ways.
    for at in (0..whole.len()).step_by(61).chain(0..64) {
        for damage in [0x00, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = damage;
            tree.write(PLUGIN, &bytes);
            let _ = tree.preflight();
        }
    }
}

#[test]
fn a_library_for_another_processor() {
    const MACHINE_AT: usize = 18;
    const MACHINE_S390: u16 = 22;
    let mut bytes = std::fs::read(plugin_library::hardware()).expect("the library");
    bytes[MACHINE_AT..MACHINE_AT + 2].copy_from_slice(&MACHINE_S390.to_le_bytes());
    let tree = HostTree::healthy();
    tree.write(PLUGIN, bytes);
    let findings = tree.findings();
    let finding = one(&findings, "TCPX-203");
    assert!(finding.seen.contains("is for ELF machine 22"), "{}", finding.seen);
    assert_eq!(finding.cure, ["file -L /usr/local/tcpx/lib64/libnccl-net-tcpx.so", "uname -m"]);
}

#[test]
fn a_mount_without_exec() {
    let tree = HostTree::healthy();
    tree.write(
        "/proc/self/mountinfo",
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 8:2 / /usr/local/tcpx rw,noexec - ext4 /dev/sda2 rw\n",
    );
    let findings = tree.findings();
    let finding = one(&findings, "TCPX-204");
    assert_eq!(finding.seen, format!("{PLUGIN} lies on /usr/local/tcpx, mounted noexec"));
    assert_eq!(finding.cure[0], "mount -o remount,exec /usr/local/tcpx");
}

#[test]
fn a_link_to_a_mount_without_exec() {
    let tree = HostTree::healthy();
    tree.install("/var/lib/tcpx/lib64/plugin.so", plugin_library::hardware());
    tree.remove(PLUGIN);
    tree.link(PLUGIN, "../../../../var/lib/tcpx/lib64/plugin.so");
    tree.write("/proc/self/mountinfo", "30 22 8:2 / /var/lib rw,noexec - ext4 /dev/sda2 rw\n");
    assert_eq!(one(&tree.findings(), "TCPX-204").cure[0], "mount -o remount,exec /var/lib");
}

#[test]
fn a_library_without_the_symbol() {
    assert_eq!(one(&with_plugin(&plugin_library::no_table()), "TCPX-205").cure, [READELF]);
}

#[test]
fn plugins_of_other_vendors() {
    let cure = [
        "readelf -d /usr/local/tcpx/lib64/libnccl-net-tcpx.so",
        "# name the TCPX plugin by its full path",
    ];
    let findings = with_plugin(&plugin_library::other_vendor());
    let finding = one(&findings, "TCPX-206");
    assert!(finding.seen.contains("ncclNetPlugin_v8"), "{}", finding.seen);
    assert_eq!(finding.cure, cure);
    assert_eq!(one(&with_plugin(&plugin_library::unnamed_plugin()), "TCPX-206").cure, cure);
}

#[test]
fn libraries_that_are_not_found() {
    let tree = HostTree::healthy();
    tree.remove("/usr/local/nvidia/lib64/libcudart.so.12");
    let findings = tree.findings();
    let finding = one(&findings, "TCPX-207");
    assert_eq!(finding.seen, format!("{PLUGIN} needs libcudart.so.12"));
    assert!(finding.why.starts_with("libcudart.so.12 is in none"), "{}", finding.why);
    assert_eq!(
        finding.cure,
        [
            "ldd /usr/local/tcpx/lib64/libnccl-net-tcpx.so",
            "export LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/usr/local/cuda/lib64:$LD_LIBRARY_PATH"
        ]
    );
}

#[test]
fn a_symbol_of_another_shape() {
    for library in [plugin_library::function_table(), plugin_library::short_table()] {
        let findings = with_plugin(&library);
        let finding = one(&findings, "TCPX-210");
        assert_eq!(finding.severity, Severity::FatalForPlugin);
        assert_eq!(finding.cure[0], READELF);
    }
}

#[test]
fn libcuda_is_missing() {
    let mut tree = HostTree::healthy();
    tree.facts.cuda = Err("cannot open shared object file".into());
    let findings = tree.findings();
    let finding = one(&findings, "TCPX-221");
    assert_eq!(finding.seen, "cannot open shared object file");
    assert_eq!(finding.cure[0], "export LD_LIBRARY_PATH=/usr/local/nvidia/lib64:$LD_LIBRARY_PATH");
}

#[test]
fn the_driver_is_not_loaded() {
    let tree = HostTree::healthy();
    tree.remove("/proc/driver/nvidia/version");
    assert_eq!(one(&tree.findings(), "TCPX-222").cure, ["modprobe nvidia", "nvidia-smi"]);
}

#[test]
fn the_driver_is_old() {
    let tree = HostTree::healthy();
    tree.write(
        "/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  525.105.17  Tue Mar 28 18:02:59 UTC 2023\n",
    );
    let findings = tree.findings();
    assert_eq!(codes(&findings), ["TCPX-223"]);
    assert_eq!(findings[0].seen, "the driver has version 525");
    assert_eq!(findings[0].cure[0], "nvidia-smi --query-gpu=driver_version --format=csv");
}

#[test]
fn no_gpu() {
    let tree = HostTree::healthy();
    tree.remove("/sys/bus/pci/devices");
    tree.remove("/proc/driver/nvidia/gpus");
    assert_eq!(
        one(&tree.findings(), "TCPX-224").cure,
        ["lspci -d 10de:", "# use plugin = soft on a machine without a GPU"]
    );
}

#[test]
fn a_container_without_device_nodes() {
    let tree = HostTree::healthy();
    tree.remove("/dev/nvidiactl");
    let findings = tree.findings();
    let finding = one(&findings, "TCPX-226");
    assert_eq!(finding.seen, "8 GPUs on PCI, but no /dev/nvidiactl");
    assert_eq!(finding.cure[0], "ls -l /dev/nvidiactl /dev/nvidia0");
}

#[test]
fn the_library_path() {
    let mut tree = HostTree::healthy();
    tree.set("LD_LIBRARY_PATH", "/usr/local/tcpx/lib64:/nowhere");
    let findings = tree.findings();
    assert_eq!(codes(&findings), ["TCPX-207", "TCPX-207", "TCPX-225", "TCPX-227"]);
    assert_eq!(
        findings[2].cure,
        ["export LD_LIBRARY_PATH=/usr/local/nvidia/lib64:$LD_LIBRARY_PATH"]
    );
    assert_eq!(findings[3].cure, ["ls -d /nowhere"]);
    // The linker's configuration serves as well as the variable.
    tree.write("/etc/ld.so.conf", "/usr/local/nvidia/lib64\n");
    assert_eq!(codes(&tree.findings()), ["TCPX-227"]);
}
