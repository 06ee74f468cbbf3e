//! Processors on which helper threads run.
//!
//! A NIC brings packets into the memory of its own NUMA node, and a helper thread copies them from
//! there. So it runs on that node where a host has several. Memory follows: the system places a
//! page on the node of the processor that first writes to it, and the first to write to a page of
//! the bounce region is the thread that reads a socket. Memory is not bound beside that: comms of
//! NICs of all nodes share the region. A region that is pinned lies on the node of its GPU.

use std::path::Path;
use std::str::FromStr;

use tcpx_sys::CpuSet;

use crate::parse_error::ParseError;

/// On which processors helper threads run. Of the program's own threads the plugin moves none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HelperCpus {
    /// On those of the program.
    Any,
    /// On those of the program that are near the comm's NIC, where the system says which they are
    /// and there are any. With a single NUMA node they are all.
    #[default]
    NearNic,
    /// On these.
    On(CpuSet),
}

impl HelperCpus {
    /// Returns the processors for comms of this interface; `None`: those of the program. `root` has
    /// the files of the system. A virtual interface has none that lists processors.
    pub(super) fn of(&self, root: &Path, interface: &str) -> Option<CpuSet> {
        match self {
            Self::Any => None,
            Self::NearNic => {
                let device = root.join("sys/class/net").join(interface).join("device");
                CpuSet::of_thread_near(&device.join("local_cpulist"))
            }
            Self::On(cpus) => Some(cpus.clone()),
        }
    }
}

impl FromStr for HelperCpus {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "off" => Ok(Self::Any),
            "auto" => Ok(Self::NearNic),
            list => {
                let refused = |_| ParseError::new("auto, off, or processors such as 0-3,8");
                list.parse().map(Self::On).map_err(refused)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn set(text: &str) -> CpuSet {
        text.parse().expect("a list")
    }

    #[test]
    fn a_list_holds_for_every_interface_and_a_virtual_one_is_near_nothing() {
        let of_lo =
            |text: &str| text.parse::<HelperCpus>().map(|cpus| cpus.of(Path::new("/"), "lo"));
        assert_eq!(of_lo("off"), Ok(None));
        assert_eq!(of_lo("auto"), Ok(None));
        assert_eq!(of_lo("1,5"), Ok(Some(set("1,5"))));
        assert!(of_lo("all").is_err());
    }

    /// Machines with two nodes and with one, and a system that says nothing of use.
    #[test]
    fn helper_threads_run_on_the_node_of_their_nic_where_there_are_several() {
        let own = CpuSet::of_thread().expect("it runs somewhere");
        let all = own.to_string();
        let first = all.split(',').next().expect("a processor");
        let root = tempfile::tempdir().expect("a folder");
        let files = [
            ("eth1", format!("{first}\n")),
            ("eth2", "1023\n".to_owned()),
            ("eth3", format!("{all}\n")),
            ("eth4", "0-1023\n".to_owned()),
            ("eth5", String::new()),
            ("eth6", "-1\n".to_owned()),
        ];
        for (interface, list) in files {
            let device = root.path().join("sys/class/net").join(interface).join("device");
            fs::create_dir_all(&device).expect("a folder");
            fs::write(device.join("local_cpulist"), list).expect("a file");
        }
        let of = |interface| HelperCpus::default().of(root.path(), interface);
        assert_eq!(of("eth1"), Some(set(first)).filter(|first| *first != own));
        for interface in ["eth2", "eth3", "eth4", "eth5", "eth6", "eth7"] {
            assert_eq!(of(interface), None, "{interface}");
            assert_eq!(HelperCpus::Any.of(root.path(), interface), None);
        }
    }
}
