//! Choice of the interfaces that the plugin takes for data.

/// Variable that lists the interfaces.
pub(crate) const DATA_INTERFACES: &str = "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME";
/// Largest number of interfaces that the plugin keeps.
pub(super) const MAX_INTERFACES: usize = 16;

/// Parses `NCCL_GPUDIRECTTCPX_SOCKET_IFNAME`. Returns whether its names are excluded, whether they
/// are exact, and the names.
pub(super) fn entries(spec: &str) -> (bool, bool, Vec<&str>) {
    let (exclude, spec) = spec.strip_prefix('^').map_or((false, spec), |rest| (true, rest));
    let (exact, spec) = spec.strip_prefix('=').map_or((false, spec), |rest| (true, rest));
    (exclude, exact, spec.split(',').map(str::trim).filter(|name| !name.is_empty()).collect())
}

pub(super) fn matches(entry: &str, exact: bool, name: &str) -> bool {
    if exact { entry == name } else { name.starts_with(entry) }
}

/// Returns the interfaces among `names` that the plugin takes for data, sorted. `names` are the
/// interfaces with an address, `spec` is the value of `NCCL_GPUDIRECTTCPX_SOCKET_IFNAME`.
///
/// Without a spec of at least two characters the plugin takes the first of these that is not empty:
/// interfaces named `ib*`, those that are neither `docker*` nor `lo`, `docker*`, `lo`. (Between the
/// first two it also looks for the subnet of NCCL's bootstrap address, which is not known here.)
#[must_use]
pub fn select_interfaces<'a>(spec: Option<&str>, names: &[&'a str]) -> Vec<&'a str> {
    let mut chosen: Vec<&str> = match spec.filter(|spec| spec.len() >= 2) {
        Some(spec) => {
            let (exclude, exact, entries) = entries(spec);
            let listed = |name: &str| entries.iter().any(|entry| matches(entry, exact, name));
            names.iter().copied().filter(|name| listed(name) != exclude).collect()
        }
        None => choose_automatically(names),
    };
    chosen.sort_unstable();
    chosen.dedup();
    chosen.truncate(MAX_INTERFACES);
    chosen
}

fn choose_automatically<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let named = |prefix: &'static str| move |name: &str| name.starts_with(prefix);
    let is_physical = |name: &str| !name.starts_with("docker") && !name.starts_with("lo");
    let rounds: [&dyn Fn(&str) -> bool; 4] =
        [&named("ib"), &is_physical, &named("docker"), &named("lo")];
    rounds
        .iter()
        .map(|accepts| names.iter().copied().filter(|name| accepts(name)).collect::<Vec<_>>())
        .find(|chosen| !chosen.is_empty())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 6] = ["lo", "docker0", "eth0", "eth1", "eth10", "eth2"];

    #[test]
    fn a_list_takes_prefixes_and_marks_change_that() {
        assert_eq!(select_interfaces(Some("eth1,eth2"), &NAMES), ["eth1", "eth10", "eth2"]);
        assert_eq!(select_interfaces(Some("=eth1,eth2"), &NAMES), ["eth1", "eth2"]);
        assert_eq!(select_interfaces(Some("^eth,docker"), &NAMES), ["lo"]);
        assert_eq!(
            select_interfaces(Some("^=eth1,lo"), &NAMES),
            ["docker0", "eth0", "eth10", "eth2"]
        );
        assert_eq!(select_interfaces(Some("ens"), &NAMES), [""; 0]);
    }

    #[test]
    fn without_a_list_physical_interfaces_come_first() {
        assert_eq!(select_interfaces(None, &NAMES), ["eth0", "eth1", "eth10", "eth2"]);
        assert_eq!(select_interfaces(Some("e"), &NAMES), ["eth0", "eth1", "eth10", "eth2"]);
        assert_eq!(select_interfaces(None, &["lo", "docker0"]), ["docker0"]);
        assert_eq!(select_interfaces(None, &["lo"]), ["lo"]);
        assert_eq!(select_interfaces(None, &["ib0", "eth0"]), ["ib0"]);
        assert_eq!(select_interfaces(None, &[]), [""; 0]);
    }

    #[test]
    fn sixteen_are_kept() {
        let names: Vec<String> = (10..40).map(|number| format!("eth{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(select_interfaces(None, &names).len(), MAX_INTERFACES);
    }
}
