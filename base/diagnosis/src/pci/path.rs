//! Place of a device in the PCI tree.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Bridges from a host bridge down to one device, the device last.
///
/// Read from a resolved sysfs path such as
/// `/sys/devices/pci0000:00/0000:00:05.0/0000:02:00.0/0000:03:02.0/0000:06:00.0`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciPath {
    host_bridge: String,
    functions: Vec<String>,
}

/// Distance of two PCI devices, nearest first, in the words of `nvidia-smi topo` and NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Distance {
    /// The same device.
    Loc,
    /// At most one PCIe switch or bridge between them.
    Pix,
    /// Several PCIe bridges, but no host bridge.
    Pxb,
    /// Through the host bridge they share.
    Phb,
    /// Between host bridges of one NUMA node.
    Node,
    /// Between NUMA nodes.
    Sys,
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Loc => "LOC",
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
        })
    }
}

impl PciPath {
    /// Parses a resolved sysfs path; parts below the last PCI function (`virtio0`, `net/eth1`) are
    /// ignored. Returns `None` when no PCI function lies on the path, as for virtual devices.
    #[must_use]
    pub fn parse(path: &Path) -> Option<Self> {
        let mut host_bridge = None;
        let mut functions = Vec::new();
        for part in path.iter().filter_map(|part| part.to_str()) {
            if let Some(bus) = part.strip_prefix("pci").filter(|bus| bus.contains(':')) {
                host_bridge = Some(bus.to_ascii_lowercase());
            } else if host_bridge.is_some() && is_bus_id(part) {
                functions.push(part.to_ascii_lowercase());
            }
        }
        let host_bridge = host_bridge?;
        (!functions.is_empty()).then_some(Self { host_bridge, functions })
    }

    /// Returns the device's own address, `0000:06:00.0`.
    #[must_use]
    pub fn bus_id(&self) -> &str {
        self.functions.last().map_or("", String::as_str)
    }

    /// Returns the PCI domain, the part of the address before the first colon.
    #[must_use]
    pub fn domain(&self) -> &str {
        self.bus_id().split(':').next().unwrap_or_default()
    }
}

impl fmt::Display for PciPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pci{}", self.host_bridge)?;
        self.functions.iter().try_for_each(|function| write!(f, "/{function}"))
    }
}

/// Returns the distance of `a` and `b`. `same_numa` decides between [`Distance::Node`] and
/// [`Distance::Sys`] when they share no host bridge.
#[must_use]
pub fn distance(a: &PciPath, b: &PciPath, same_numa: bool) -> Distance {
    if a == b {
        return Distance::Loc;
    }
    if a.host_bridge != b.host_bridge {
        return if same_numa { Distance::Node } else { Distance::Sys };
    }
    let shared = a.functions.iter().zip(&b.functions).take_while(|(a, b)| a == b).count();
    if shared == 0 {
        return Distance::Phb;
    }
    // Below the last shared bridge: the device itself and, behind a switch, the downstream port it
    // hangs on.
    let below = (a.functions.len() - shared).max(b.functions.len() - shared);
    if below <= 2 { Distance::Pix } else { Distance::Pxb }
}

/// Returns whether `text` is a PCI address with its domain, `0000:06:00.0`.
pub(crate) fn is_bus_id(text: &str) -> bool {
    let hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let Some((domain, rest)) = text.split_once(':') else { return false };
    let Some((bus, rest)) = rest.split_once(':') else { return false };
    let Some((device, function)) = rest.split_once('.') else { return false };
    (4..=8).contains(&domain.len())
        && hex(domain, domain.len())
        && hex(bus, 2)
        && hex(device, 2)
        && hex(function, 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> PciPath {
        PciPath::parse(Path::new(text)).unwrap_or_else(|| panic!("{text} is a PCI path"))
    }

    #[test]
    fn reads_the_device_and_ignores_what_hangs_below_it() {
        let nic = path("/sys/devices/pci0000:00/0000:00:03.0/virtio1/net/eth0");
        assert_eq!(nic.bus_id(), "0000:00:03.0");
        assert_eq!(nic.domain(), "0000");
        assert_eq!(nic.to_string(), "pci0000:00/0000:00:03.0");
    }

    #[test]
    fn virtual_devices_have_no_path() {
        for text in ["/sys/devices/virtual/net/lo", "", "/sys/devices/pci0000:00", "/0000:00:03.0"]
        {
            assert_eq!(PciPath::parse(Path::new(text)), None, "{text}");
        }
    }

    #[test]
    fn classes_follow_the_bridges_between() {
        let gpu = "/sys/devices/pci0000:00/0000:00:05.0/0000:02:00.0/0000:03:00.0/0000:04:00.0";
        for (other, same_numa, expected) in [
            (gpu, true, Distance::Loc),
            (
                "/sys/devices/pci0000:00/0000:00:05.0/0000:02:00.0/0000:03:02.0/0000:06:00.0",
                true,
                Distance::Pix,
            ),
            (
                "/sys/devices/pci0000:00/0000:00:05.0/0000:07:00.0/0000:08:00.0/0000:09:00.0",
                true,
                Distance::Pxb,
            ),
            ("/sys/devices/pci0000:00/0000:00:06.0/0000:0a:00.0", true, Distance::Phb),
            ("/sys/devices/pci0000:40/0000:40:06.0/0000:41:00.0", true, Distance::Node),
            ("/sys/devices/pci0000:80/0000:80:06.0/0000:84:00.0", false, Distance::Sys),
        ] {
            assert_eq!(distance(&path(gpu), &path(other), same_numa), expected, "{other}");
            assert_eq!(
                distance(&path(other), &path(gpu), same_numa),
                expected,
                "{other}, reversed"
            );
        }
    }

    #[test]
    fn addresses_are_distinguished_from_other_names() {
        assert!(is_bus_id("0000:8c:00.0"));
        assert!(is_bus_id("10000:e1:00.0"));
        for text in ["", "8c:00.0", "0000:8c:00", "0000:8c:0.0", "virtio1", "0000:8g:00.0"] {
            assert!(!is_bus_id(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn distance_is_symmetric_and_zero_only_to_itself(
            a in "pci0000:[04]0(/0000:0[0-3]:0[01]\\.0){1,4}",
            b in "pci0000:[04]0(/0000:0[0-3]:0[01]\\.0){1,4}",
            same_numa: bool,
        ) {
            let (a, b) = (path(&a), path(&b));
            prop_assert_eq!(distance(&a, &b, same_numa), distance(&b, &a, same_numa));
            prop_assert_eq!(distance(&a, &b, same_numa) == Distance::Loc, a == b);
        }

        #[test]
        fn any_path_is_read(text: String) {
            let _ = PciPath::parse(Path::new(&text));
            let _ = is_bus_id(&text);
        }
    }
}
