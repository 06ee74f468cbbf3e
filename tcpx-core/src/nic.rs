//! Which NICs a peer's channels run over.

use std::net::IpAddr;

use crate::error::{Error, Result};
use crate::plugin::{Nic, Plugin};
use crate::settings::SessionOptions;

/// The NICs for a peer that is reached from `local`, at least one.
///
/// An explicit choice wins. Without one, the software plugin uses the NIC that the control link itself goes through, so
/// that both ends meet on a network that is known to work; a hardware plugin has NICs of its own for data, all of them.
pub(crate) fn choose(
    plugin: &Plugin,
    options: &SessionOptions,
    local: Option<IpAddr>,
) -> Result<Vec<Nic>> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let carries = |nic: &Nic| {
        interfaces
            .iter()
            .any(|interface| interface.name == nic.name && Some(interface.ip()) == local)
    };
    choose_from(plugin.nics(), &options.nics, plugin.is_hardware(), carries)
}

fn choose_from(
    nics: &[Nic],
    wanted: &[String],
    is_hardware: bool,
    carries_control_link: impl Fn(&Nic) -> bool,
) -> Result<Vec<Nic>> {
    let available = || nics.iter().map(|nic| nic.name.as_str()).collect::<Vec<_>>().join(", ");
    if !wanted.is_empty() {
        let find = |name: &String| {
            nics.iter()
                .find(|nic| nic.name == *name)
                .cloned()
                .ok_or_else(|| Error::NoNic { wanted: name.clone(), available: available() })
        };
        return wanted.iter().map(find).collect();
    }
    if is_hardware {
        return Ok(nics.to_vec());
    }
    let chosen = nics.iter().find(|nic| carries_control_link(nic)).or(nics.first()).cloned();
    chosen
        .map(|nic| vec![nic])
        .ok_or_else(|| Error::NoNic { wanted: "of any name".into(), available: available() })
}

/// The IPv4 addresses of this host's interfaces that are up, loopback last.
pub(crate) fn local_addresses() -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = if_addrs::get_if_addrs()
        .unwrap_or_default()
        .iter()
        .map(if_addrs::Interface::ip)
        .filter(IpAddr::is_ipv4)
        .collect();
    addresses.sort_by_key(IpAddr::is_loopback);
    addresses.dedup();
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nics() -> Vec<Nic> {
        ["eth1", "eth2", "lo"]
            .iter()
            .zip(0..)
            .map(|(name, index)| Nic {
                index,
                name: (*name).to_owned(),
                pci_path: None,
                speed_mbps: 10_000,
            })
            .collect()
    }

    fn names(chosen: &Result<Vec<Nic>>) -> Vec<&str> {
        chosen.as_ref().unwrap().iter().map(|nic| nic.name.as_str()).collect()
    }

    #[test]
    fn an_explicit_choice_wins_and_is_checked() {
        let wanted = ["eth2".to_owned(), "eth1".to_owned()];
        assert_eq!(names(&choose_from(&nics(), &wanted, false, |_| true)), ["eth2", "eth1"]);
        let error =
            choose_from(&nics(), &["eth9".to_owned()], true, |_| true).unwrap_err().to_string();
        assert!(error.contains("eth9") && error.contains("eth1, eth2, lo"), "{error}");
    }

    #[test]
    fn software_follows_the_control_link_and_hardware_uses_all() {
        assert_eq!(names(&choose_from(&nics(), &[], false, |nic| nic.name == "lo")), ["lo"]);
        assert_eq!(names(&choose_from(&nics(), &[], false, |_| false)), ["eth1"]);
        assert_eq!(names(&choose_from(&nics(), &[], true, |_| true)), ["eth1", "eth2", "lo"]);
        assert!(choose_from(&[], &[], false, |_| true).is_err());
    }
}
