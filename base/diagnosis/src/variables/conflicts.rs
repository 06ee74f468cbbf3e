//! Rules about variables that contradict one another or the machine.

use super::bindings::{self, Binding};
use super::env::{Env, value};
use super::interfaces::{self, DATA_INTERFACES, MAX_INTERFACES, select_interfaces};
use super::number;
use super::profile::profile_a3_high;
use super::remark::Remark;
use super::values::MAX_CHUNK_BYTES;
use super::variable::{Kind, find_variable};
use crate::report::Finding;
use crate::table::environment as table;

const RX_BINDINGS: &str = "NCCL_GPUDIRECTTCPX_RX_BINDINGS";
const TX_BINDINGS: &str = "NCCL_GPUDIRECTTCPX_TX_BINDINGS";
const CTRL_DEV: &str = "NCCL_GPUDIRECTTCPX_CTRL_DEV";

const CHUNK: &str = "NCCL_DYNAMIC_CHUNK_SIZE";
const NCCL_CHUNK: &str = "NCCL_P2P_NET_CHUNKSIZE";
const SOCKETS: &str = "NCCL_NSOCKS_PERTHREAD";
const THREADS: &str = "NCCL_SOCKET_NTHREADS";
const EXPORT: &str = "NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORT_STATS_TO_FILE";
const EXPORT_PATH: &str = "NCCL_GPUDIRECTTCPX_TELEMETRY_EXPORTER_PATH";

/// Returns the remarks. See [`lint`](super::lint::lint) for the arguments.
pub(super) fn find(env: &Env, interfaces: &[&str], cpus: u32) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let mut add = |variables: &[&str], finding: Option<Finding>| {
        remarks.extend(finding.map(|finding| Remark::new(variables, finding)));
    };
    add(&[SOCKETS, THREADS], socket_count(env));
    add(&[EXPORT, EXPORT_PATH], telemetry(env));
    add(&[CHUNK, NCCL_CHUNK], chunks(env));
    add(&[DATA_INTERFACES], data_interfaces(env, interfaces));
    add(&[CTRL_DEV], control_device(env, interfaces));
    for name in [TX_BINDINGS, RX_BINDINGS] {
        add(&[name], value(env, name).and_then(|text| one_binding(name, text, interfaces, cpus)));
    }
    add(&[RX_BINDINGS, TX_BINDINGS], both_bindings(env));
    remarks
}

/// Returns the value. A value out of range counts as the default of 1, as in the plugin.
fn in_range(env: &Env, name: &str) -> i64 {
    let number = value(env, name).map_or(1, |text| number::parse(text).value);
    match find_variable(name).map(|variable| variable.kind) {
        Some(Kind::Integer { min, max }) if !(min..=max).contains(&number) => 1,
        _ => number,
    }
}

fn socket_count(env: &Env) -> Option<Finding> {
    let per_thread = in_range(env, SOCKETS);
    let threads = in_range(env, THREADS);
    // Above eight threads, another finding is more specific.
    (threads <= 8 && per_thread * threads > 8).then(|| {
        let left = (8 / threads) * threads;
        let seen = format!("{per_thread} sockets for each of {threads} threads: {left} are left");
        Finding::new(&table::SOCKETS_CAPPED, seen)
    })
}

fn chunks(env: &Env) -> Option<Finding> {
    let number = number::parse(value(env, CHUNK)?);
    let (plugins, nccls) = (number.value, number::parse(value(env, NCCL_CHUNK)?).value);
    // For a chunk size that the plugin does not take unchanged, another finding is more specific.
    let is_taken = !number.has_junk && (1..=MAX_CHUNK_BYTES).contains(&plugins);
    (is_taken && plugins != nccls).then(|| {
        let seen = format!("{NCCL_CHUNK}={nccls}, {CHUNK}={plugins}");
        Finding::new(&table::NCCL_CHUNK_DIFFERS, seen).with("<BYTES>", &plugins.to_string())
    })
}

fn telemetry(env: &Env) -> Option<Finding> {
    let exports = number::parse(value(env, EXPORT)?).value == 1;
    (exports && value(env, EXPORT_PATH).is_none()).then(|| {
        Finding::new(&table::TELEMETRY_WITHOUT_PATH, format!("{EXPORT}=1, {EXPORT_PATH} is unset"))
    })
}

fn data_interfaces(env: &Env, interfaces: &[&str]) -> Option<Finding> {
    let spec = value(env, DATA_INTERFACES)?;
    if interfaces.is_empty() {
        return None;
    }
    let (exclude, exact, entries) = interfaces::entries(spec);
    let seen = format!("{DATA_INTERFACES}={spec}, interfaces are {}", interfaces.join(" "));
    if select_interfaces(Some(spec), interfaces).is_empty() {
        let usable = select_interfaces(None, interfaces).join(",");
        return Some(Finding::new(&table::NO_INTERFACE_MATCHES, seen).with("<NIC>", &usable));
    }
    let listed = |name: &&&str| {
        entries.iter().any(|entry| interfaces::matches(entry, exact, name)) != exclude
    };
    if spec.len() >= 2 && interfaces.iter().filter(listed).count() > MAX_INTERFACES {
        return Some(Finding::new(&table::TOO_MANY_INTERFACES, seen));
    }
    let unmatched = entries
        .iter()
        .find(|entry| !interfaces.iter().any(|name| interfaces::matches(entry, exact, name)));
    unmatched.filter(|_| !exclude).map(|entry| {
        Finding::new(
            &table::INTERFACE_LIST_PARTLY_UNMATCHED,
            format!("{entry} matches nothing: {seen}"),
        )
    })
}

fn control_device(env: &Env, interfaces: &[&str]) -> Option<Finding> {
    let device = value(env, CTRL_DEV)?;
    let is_known = interfaces.is_empty() || !select_interfaces(Some(device), interfaces).is_empty();
    (!is_known).then(|| {
        let usable = select_interfaces(None, interfaces);
        let seen = format!("{CTRL_DEV}={device}, interfaces are {}", interfaces.join(" "));
        let instead = usable.first().copied().unwrap_or("eth0");
        Finding::new(&table::CTRL_DEV_UNKNOWN, seen).with("<NIC>", instead)
    })
}

/// Returns the worst problem of one variable's bindings.
fn one_binding(name: &str, text: &str, interfaces: &[&str], cpus: u32) -> Option<Finding> {
    let parts = bindings::parse(text);
    let empty = parts.iter().find(|part| part.ranges.is_empty());
    if parts.is_empty() || empty.is_some() {
        let whose = empty.map_or("", |part| part.interface);
        let profile = profile_a3_high().iter().find(|setting| setting.name == name);
        let finding = Finding::new(
            &table::BINDINGS_WITHOUT_RANGE,
            format!(
                "{name}={text}: no valid range for {}",
                if whose.is_empty() { "any interface" } else { whose }
            ),
        );
        let example = profile.map_or("eth1:8-21", |setting| setting.value);
        return Some(finding.with("<VARIABLE>", name).with("<VALUE>", example));
    }
    let reason = parts.iter().find_map(|part| suspicion(part, interfaces, cpus))?;
    Some(
        Finding::new(&table::BINDINGS_SUSPECT, format!("{name}={text}: {reason}"))
            .with("<VARIABLE>", name),
    )
}

fn suspicion(part: &Binding<'_>, interfaces: &[&str], cpus: u32) -> Option<String> {
    if part.interface.is_empty() {
        return Some("a part names no interface".to_owned());
    }
    if let Some(piece) = part.rejected.first() {
        return Some(format!("{} has \"{piece}\", which is no range", part.interface));
    }
    if part.ranges.len() > bindings::MAX_RANGES {
        return Some(format!("{} has more than {} ranges", part.interface, bindings::MAX_RANGES));
    }
    if !interfaces.is_empty() && !interfaces.contains(&part.interface) {
        return Some(format!("there is no interface {}", part.interface));
    }
    let highest = part.ranges.iter().map(|range| *range.end()).max()?;
    (cpus > 0 && highest >= i64::from(cpus))
        .then(|| format!("{} names CPU {highest}, there are {cpus} CPUs", part.interface))
}

fn both_bindings(env: &Env) -> Option<Finding> {
    let receive = bindings::parse(value(env, RX_BINDINGS)?);
    let transmit = bindings::parse(value(env, TX_BINDINGS)?);
    let shared = receive.iter().find_map(|receive| {
        let transmit = transmit.iter().find(|part| part.interface == receive.interface)?;
        let cores = bindings::overlap(receive, transmit).into_iter().next()?;
        Some((receive.interface, cores))
    });
    let (interface, cores) = shared?;
    let seen = format!("{interface}: cores {}-{} are in both bindings", cores.start(), cores.end());
    let is_misprint = receive.iter().any(|part| part.ranges.contains(&(124..=139)));
    let diagnosis = if is_misprint { &table::BINDINGS_MISPRINT } else { &table::BINDINGS_OVERLAP };
    Some(Finding::new(diagnosis, seen))
}
