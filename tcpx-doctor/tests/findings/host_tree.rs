//! The files of an A3 High host, below a temporary root.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tcpx_doctor::environment::profile_a3_high;
use tcpx_doctor::{Env, Finding, Host, examine, preflight};
use tempfile::TempDir;

use crate::answers::Answers;
use crate::plugin_library;
use crate::rxdm_server::RxdmServer;

/// Where the plugin lies below the root.
pub(crate) const PLUGIN: &str = "/usr/local/tcpx/lib64/libnccl-net-tcpx.so";

/// Long enough for a busy machine to answer, short enough to wait for in a test of silence.
pub(crate) const DEADLINE: Duration = Duration::from_millis(1500);

/// One PCIe switch: host bridge, root port, the switch's upstream port and the bus of its downstream ports; then what
/// hangs below, two GPUs and a NIC.
struct Switch {
    host_bridge: &'static str,
    root_port: &'static str,
    upstream: &'static str,
    downstream_bus: &'static str,
    gpus: [&'static str; 2],
    nic: (&'static str, &'static str),
    numa: u32,
}

const SWITCHES: [Switch; 4] = [
    Switch {
        host_bridge: "pci0000:00",
        root_port: "0000:00:05.0",
        upstream: "0000:02:00.0",
        downstream_bus: "0000:03",
        gpus: ["0000:04:00.0", "0000:05:00.0"],
        nic: ("eth1", "0000:06:00.0"),
        numa: 0,
    },
    Switch {
        host_bridge: "pci0000:00",
        root_port: "0000:00:06.0",
        upstream: "0000:08:00.0",
        downstream_bus: "0000:09",
        gpus: ["0000:0a:00.0", "0000:0b:00.0"],
        nic: ("eth2", "0000:0c:00.0"),
        numa: 0,
    },
    Switch {
        host_bridge: "pci0000:80",
        root_port: "0000:80:05.0",
        upstream: "0000:82:00.0",
        downstream_bus: "0000:83",
        gpus: ["0000:84:00.0", "0000:85:00.0"],
        nic: ("eth3", "0000:86:00.0"),
        numa: 1,
    },
    Switch {
        host_bridge: "pci0000:80",
        root_port: "0000:80:06.0",
        upstream: "0000:88:00.0",
        downstream_bus: "0000:89",
        gpus: ["0000:8a:00.0", "0000:8b:00.0"],
        nic: ("eth4", "0000:8c:00.0"),
        numa: 1,
    },
];

/// A host whose files, environment, kernel and daemon are all as they should be until a test changes them.
pub(crate) struct HostTree {
    /// Ends before its directory does.
    pub(crate) rxdm: Option<RxdmServer>,
    root: TempDir,
    pub(crate) env: Env,
    pub(crate) answers: Answers,
}

impl HostTree {
    /// A healthy A3 High host without its daemon.
    pub(crate) fn without_rxdm() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let mut env: Env = profile_a3_high()
            .iter()
            .map(|setting| (setting.name.to_owned(), setting.value.to_owned()))
            .collect();
        env.insert("LD_LIBRARY_PATH".into(), "/usr/local/nvidia/lib64".into());
        let tree = Self { root, env, answers: Answers::a3_high(), rxdm: None };
        tree.write_pci();
        tree.write_driver();
        tree.write_settings();
        tree.install(PLUGIN, plugin_library::hardware());
        tree
    }

    /// A healthy A3 High host with its daemon.
    pub(crate) fn healthy() -> Self {
        let mut tree = Self::without_rxdm();
        let gpus: Vec<&str> = SWITCHES.iter().flat_map(|switch| switch.gpus).collect();
        tree.rxdm = Some(RxdmServer::start(&tree.path("/run/tcpx"), &gpus));
        tree
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, content).expect("a file");
    }

    pub(crate) fn remove(&self, path: &str) {
        let path = self.path(path);
        let result = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        result.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    pub(crate) fn install(&self, path: &str, library: &Path) {
        let content = fs::read(library).expect("the library was built");
        self.write(path, content);
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    pub(crate) fn host(&self) -> Host<'_> {
        Host { root: self.root.path(), env: &self.env, kernel: &self.answers, deadline: DEADLINE }
    }

    /// All findings of a whole examination.
    pub(crate) fn examine(&self) -> Vec<Finding> {
        examine(Some(Path::new(PLUGIN)), None, &self.host()).findings().to_vec()
    }

    /// What keeps the hardware plugin from being loaded.
    pub(crate) fn preflight(&self) -> Vec<Finding> {
        match preflight(Path::new(PLUGIN), None, &self.host()) {
            Ok(()) => Vec::new(),
            Err(report) => report.findings().to_vec(),
        }
    }

    fn write_pci(&self) {
        self.write("/sys/devices/virtual/net/lo/mtu", "65536\n");
        self.write("/sys/devices/virtual/net/lo/operstate", "unknown\n");
        self.link("/sys/class/net/lo", "../../devices/virtual/net/lo");
        self.add_nic("eth0", "pci0000:00/0000:00:0c.0", 0);
        for switch in &SWITCHES {
            let bridge = format!("{}/{}/{}", switch.host_bridge, switch.root_port, switch.upstream);
            for (port, gpu) in switch.gpus.iter().enumerate() {
                self.add_gpu(
                    gpu,
                    &format!("{bridge}/{}:0{port}.0/{gpu}", switch.downstream_bus),
                    switch.numa,
                );
            }
            let (name, address) = switch.nic;
            self.add_nic(
                name,
                &format!("{bridge}/{}:02.0/{address}", switch.downstream_bus),
                switch.numa,
            );
        }
        for node in [0, 1] {
            self.write(&format!("/sys/devices/system/node/node{node}/cpulist"), "0-51,104-155\n");
        }
        self.write("/sys/devices/system/cpu/present", "0-207\n");
    }

    /// A gVNIC at `pci`, the path below /sys/devices.
    pub(crate) fn add_nic(&self, name: &str, pci: &str, numa: u32) {
        let device = format!("/sys/devices/{pci}");
        self.write(&format!("{device}/numa_node"), format!("{numa}\n"));
        self.write("/sys/bus/pci/drivers/gve/module", "");
        let depth = pci.split('/').count();
        self.link(
            &format!("{device}/driver"),
            &format!("{}bus/pci/drivers/gve", "../".repeat(depth + 1)),
        );
        let net = format!("{device}/net/{name}");
        let index = name
            .trim_start_matches(|c: char| !c.is_ascii_digit())
            .parse::<u32>()
            .map_or(90, |n| n + 2);
        for (file, content) in [
            ("ifindex", index.to_string()),
            ("speed", "200000".to_owned()),
            ("mtu", "8244".to_owned()),
            ("operstate", "up".to_owned()),
        ] {
            self.write(&format!("{net}/{file}"), content + "\n");
        }
        self.link(&format!("{net}/device"), "../..");
        self.link(&format!("/sys/class/net/{name}"), &format!("../../devices/{pci}/net/{name}"));
    }

    fn add_gpu(&self, address: &str, pci: &str, numa: u32) {
        let device = format!("/sys/devices/{pci}");
        self.write(&format!("{device}/vendor"), "0x10de\n");
        self.write(&format!("{device}/class"), "0x030200\n");
        self.write(&format!("{device}/numa_node"), format!("{numa}\n"));
        self.link(&format!("/sys/bus/pci/devices/{address}"), &format!("../../../devices/{pci}"));
        self.write(
            &format!("/proc/driver/nvidia/gpus/{address}/information"),
            "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 42\n",
        );
    }

    fn write_driver(&self) {
        self.write(
            "/proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n",
        );
        self.write("/dev/nvidiactl", "");
        for library in ["libcuda.so.1", "libcudart.so.12", "libc.so.6"] {
            self.write(&format!("/usr/local/nvidia/lib64/{library}"), "");
        }
    }

    fn write_settings(&self) {
        for (file, content) in [
            ("core/optmem_max", "131072"),
            ("ipv4/tcp_rmem", "4096\t1048576\t15728640"),
            ("ipv4/tcp_wmem", "4096\t1048576\t67108864"),
            ("ipv4/ip_local_port_range", "32768\t60999"),
            ("ipv4/tcp_slow_start_after_idle", "0"),
        ] {
            self.write(&format!("/proc/sys/net/{file}"), format!("{content}\n"));
        }
        self.write(
            "/proc/self/mountinfo",
            "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n",
        );
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        symlink(target, path).expect("a link");
    }
}
