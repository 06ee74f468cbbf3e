//! Facts of the machine that runs the tests, whatever it is.

use std::path::Path;

use tcpx_diagnosis::pci::{gpus, nics};
use tcpx_diagnosis::{Facts, LiveFacts};

#[test]
fn loopback_is_an_interface_without_pci() {
    let addresses = LiveFacts.addresses().expect("addresses can be read");
    let nics = nics(Path::new("/"), &addresses);
    if let Some(loopback) = nics.iter().find(|nic| nic.name == "lo") {
        assert_eq!(loopback.pci_path, None);
        assert!(loopback.ifindex > 0);
    }
    // Must not fail either way.
    let _ = gpus(Path::new("/"));
}

#[test]
fn addresses_come_with_the_names_of_interfaces() {
    let addresses = LiveFacts.addresses().expect("addresses can be read");
    let nics = nics(Path::new("/"), &addresses);
    for (name, address) in &addresses {
        assert!(!name.is_empty() && !name.contains(':'), "{name} has {address}");
        // Some sandboxes show the interfaces of another network namespace in /sys.
        if let Some(nic) = nics.iter().find(|nic| nic.name == *name) {
            assert!(nic.ipv4.contains(address), "{nic:?}");
        }
    }
}

#[test]
fn the_kernels_dialects_can_be_asked() {
    // Whatever the answer is: a TCP socket can be made here.
    LiveFacts.dialects().expect("an answer");
}
