#![allow(unsafe_code)]
//! The NICs that the plugin offers: which interfaces they are, and what it says about them.

use std::ffi::{CStr, CString};
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStringExt;
use std::ptr::NonNull;
use std::{fs, io};

use tcpx_sys::{
    MAX_DEVICES_OF_VIRTUAL, NET_DEVICE_HOST, NET_DEVICE_UNPACK, NetProperties, NetPropertiesV8,
    NetPropertiesV9, PTR_CUDA, PTR_HOST, UNPACK_VERSION, VirtualDevice,
};

use super::mode::Mode;

/// Most NICs that are offered.
const MAX_NICS: usize = 16;
/// What is said when the kernel does not know an interface's speed.
const DEFAULT_SPEED_MBPS: i32 = 10_000;

/// An interface of this machine with an IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) loopback: bool,
}

/// An interface on offer, and the strings that its properties point to. It is never dropped,
/// because callers keep the pointers.
#[derive(Debug)]
pub(crate) struct Nic {
    pub(crate) interface: Interface,
    name: CString,
    pci_path: Option<CString>,
    speed_mbps: i32,
}

impl Nic {
    fn new(interface: Interface) -> Self {
        // An interface name comes from the kernel and holds no NUL.
        let name = CString::new(interface.name.as_str()).unwrap_or_default();
        let pci_path = fs::canonicalize(format!("/sys/class/net/{}/device", interface.name))
            .ok()
            .and_then(|path| CString::new(path.into_os_string().into_vec()).ok());
        let speed_mbps = fs::read_to_string(format!("/sys/class/net/{}/speed", interface.name))
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .filter(|&speed| speed > 0)
            .unwrap_or(DEFAULT_SPEED_MBPS);
        Self { interface, name, pci_path, speed_mbps }
    }

    /// The properties of NIC `dev`; `pci_path` is NULL for virtual interfaces.
    pub(crate) fn properties(&self, dev: usize, mode: Mode) -> NetProperties {
        let (ptr_support, net_device_type, net_device_version) = match mode.unpacks() {
            true => (PTR_HOST | PTR_CUDA, NET_DEVICE_UNPACK, UNPACK_VERSION),
            false => (PTR_HOST, NET_DEVICE_HOST, 0),
        };
        NetProperties {
            name: self.name.as_ptr(),
            pci_path: self.pci_path.as_ref().map_or(core::ptr::null(), |path| path.as_ptr()),
            guid: dev as u64,
            ptr_support,
            speed: self.speed_mbps,
            port: 0,
            latency: 0.0,
            max_comms: 65_536,
            max_recvs: 1,
            net_device_type,
            net_device_version,
        }
    }
}

/// Longest message that is offered to NCCL: what it takes for granted of a v7 plugin.
const MAX_MESSAGE_BYTES: usize = 1 << 30;

/// The same in v8's words.
pub(crate) fn properties_v8(same: &NetProperties) -> NetPropertiesV8 {
    NetPropertiesV8 {
        name: same.name,
        pci_path: same.pci_path,
        guid: same.guid,
        ptr_support: same.ptr_support,
        reg_is_global: 0,
        speed: same.speed,
        port: same.port,
        latency: same.latency,
        max_comms: same.max_comms,
        max_recvs: same.max_recvs,
        net_device_type: same.net_device_type,
        net_device_version: same.net_device_version,
    }
}

/// The same in v9's words: NIC `dev` is made of itself.
pub(crate) fn properties_v9(dev: i32, same: &NetProperties) -> NetPropertiesV9 {
    let mut devices = [0; MAX_DEVICES_OF_VIRTUAL];
    devices[0] = dev;
    NetPropertiesV9 {
        name: same.name,
        pci_path: same.pci_path,
        guid: same.guid,
        ptr_support: same.ptr_support,
        reg_is_global: 0,
        force_flush: 0,
        speed: same.speed,
        port: same.port,
        latency: same.latency,
        max_comms: same.max_comms,
        max_recvs: same.max_recvs,
        net_device_type: same.net_device_type,
        net_device_version: same.net_device_version,
        virtual_device: VirtualDevice { count: 1, devices },
        max_p2p_bytes: MAX_MESSAGE_BYTES,
        max_coll_bytes: MAX_MESSAGE_BYTES,
    }
}

/// The interfaces to offer, sorted by name.
pub(crate) fn discover(filter: Option<&str>) -> io::Result<Vec<Nic>> {
    Ok(select(interfaces()?, filter).into_iter().map(Nic::new).collect())
}

/// Applies the filter: a comma-separated list of prefixes, `=` for exact names, `^` for exclusion.
/// Without one the classes of the original are tried in turn: InfiniBand, anything but docker and
/// loopback, docker, loopback.
pub(crate) fn select(mut interfaces: Vec<Interface>, filter: Option<&str>) -> Vec<Interface> {
    interfaces.sort_by(|a, b| a.name.cmp(&b.name));
    interfaces.dedup_by(|a, b| a.name == b.name);
    if let Some(filter) = filter {
        interfaces.retain(|interface| matches(&interface.name, filter));
    } else {
        let docker = |interface: &Interface| interface.name.starts_with("docker");
        let classes: [&dyn Fn(&Interface) -> bool; 4] = [
            &|interface| interface.name.starts_with("ib"),
            &|interface| !docker(interface) && !interface.loopback,
            &docker,
            &|interface| interface.loopback,
        ];
        let class = classes.into_iter().find(|class| interfaces.iter().any(class));
        interfaces.retain(|interface| class.is_some_and(|class| class(interface)));
    }
    interfaces.truncate(MAX_NICS);
    interfaces
}

fn matches(name: &str, filter: &str) -> bool {
    let (exclude, list) = filter.strip_prefix('^').map_or((false, filter), |list| (true, list));
    let (exact, list) = list.strip_prefix('=').map_or((false, list), |list| (true, list));
    let listed = list
        .split(',')
        .filter(|word| !word.is_empty())
        .any(|word| if exact { name == word } else { name.starts_with(word) });
    listed != exclude
}

/// Interfaces that are up and have an IPv4 address; the first address of each.
fn interfaces() -> io::Result<Vec<Interface>> {
    let mut list: *mut libc::ifaddrs = core::ptr::null_mut();
    // SAFETY: `list` is a valid place for the result.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut interfaces = Vec::new();
    let mut next = NonNull::new(list);
    while let Some(entry) = next {
        // SAFETY: entries of the list are valid until `freeifaddrs`; the copy is plain data.
        let entry = unsafe { entry.read() };
        next = NonNull::new(entry.ifa_next);
        // SAFETY: the entry's pointers are valid until `freeifaddrs`.
        interfaces.extend(unsafe { ipv4_interface(&entry) });
    }
    // SAFETY: the list came from `getifaddrs` and is not used after this.
    unsafe { libc::freeifaddrs(list) };
    Ok(interfaces)
}

/// # Safety
/// The entry's name is NUL-terminated, and its address NULL or as long as its family says.
unsafe fn ipv4_interface(entry: &libc::ifaddrs) -> Option<Interface> {
    let flags = entry.ifa_flags;
    if entry.ifa_addr.is_null() || entry.ifa_name.is_null() || flags & libc::IFF_UP as u32 == 0 {
        return None;
    }
    // SAFETY: not NULL; every socket address starts with its family.
    let family = unsafe { (*entry.ifa_addr).sa_family };
    if i32::from(family) != libc::AF_INET {
        return None;
    }
    // SAFETY: an address of family AF_INET is a `sockaddr_in`; alignment is not assumed.
    let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) };
    Some(Interface {
        name: name.to_str().ok()?.to_owned(),
        address: Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes()),
        loopback: flags & libc::IFF_LOOPBACK as u32 != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<Interface> {
        let interface = |name: &&str| Interface {
            name: (*name).to_owned(),
            address: Ipv4Addr::new(192, 0, 2, 1),
            loopback: name.starts_with("lo"),
        };
        names.iter().map(interface).collect()
    }

    fn chosen(names: &[&str], filter: Option<&str>) -> Vec<String> {
        select(named(names), filter).into_iter().map(|interface| interface.name).collect()
    }

    #[test]
    fn default_prefers_real_interfaces_and_falls_back_to_loopback() {
        assert_eq!(chosen(&["lo", "eth1", "docker0", "eth0"], None), ["eth0", "eth1"]);
        assert_eq!(chosen(&["lo", "eth1", "ib0"], None), ["ib0"]);
        assert_eq!(chosen(&["lo", "docker0"], None), ["docker0"]);
        assert_eq!(chosen(&["lo"], None), ["lo"]);
        assert_eq!(chosen(&[], None), [""; 0]);
    }

    #[test]
    fn filter_is_prefix_exact_or_exclusion() {
        let names = ["eth0", "eth1", "eth10", "lo"];
        assert_eq!(chosen(&names, Some("eth1")), ["eth1", "eth10"]);
        assert_eq!(chosen(&names, Some("=eth1,lo")), ["eth1", "lo"]);
        assert_eq!(chosen(&names, Some("^eth1")), ["eth0", "lo"]);
        assert_eq!(chosen(&names, Some("^=eth1")), ["eth0", "eth10", "lo"]);
        assert_eq!(chosen(&names, Some("lo")), ["lo"]);
        assert_eq!(chosen(&names, Some("wlan")), [""; 0]);
    }

    #[test]
    fn this_machine_has_loopback() {
        let found = interfaces().expect("getifaddrs");
        let loopback = found.iter().find(|interface| interface.name == "lo").expect("lo is up");
        assert_eq!(loopback.address, Ipv4Addr::LOCALHOST);
        let device = Nic::new(loopback.clone());
        let properties = device.properties(3, Mode::Program);
        assert!(properties.pci_path.is_null(), "lo has no PCI path");
        assert_eq!((properties.guid, properties.speed), (3, DEFAULT_SPEED_MBPS));
    }

    #[test]
    fn nccls_kernels_unpack_only_where_they_are_asked_to() {
        let found = interfaces().expect("getifaddrs");
        let loopback = found.iter().find(|interface| interface.name == "lo").expect("lo is up");
        let device = Nic::new(loopback.clone());
        let said = |mode| {
            let properties = device.properties(0, mode);
            let (later, last) = (properties_v8(&properties), properties_v9(2, &properties));
            assert_eq!((last.virtual_device.count, last.virtual_device.devices[0]), (1, 2));
            assert_eq!((later.max_recvs, last.max_recvs), (1, 1));
            let all = [
                (properties.ptr_support, properties.net_device_type, properties.net_device_version),
                (later.ptr_support, later.net_device_type, later.net_device_version),
                (last.ptr_support, last.net_device_type, last.net_device_version),
            ];
            assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
            all[0]
        };
        let unpacked = (PTR_HOST | PTR_CUDA, NET_DEVICE_UNPACK, UNPACK_VERSION);
        assert_eq!([Mode::Program, Mode::NcclUnpack].map(said), [unpacked; 2]);
        assert_eq!(said(Mode::NcclHost), (PTR_HOST, NET_DEVICE_HOST, 0));
    }

    #[test]
    fn aliases_of_one_interface_count_once() {
        assert_eq!(chosen(&["eth0", "eth0"], None), ["eth0"]);
    }
}
