//! What is wrong with a set of variables, one by one.

use super::variable::{Effect, Kind, Variable, find, variables};
use super::{Env, conflicts, number, value};
use crate::diagnosis::environment as table;
use crate::finding::Finding;
use crate::severity::Severity;

/// Chunks above this exceed what the plugin's unpack queue was made for, in bytes.
const MAX_CHUNK_BYTES: i64 = 4 << 20;

/// Prefixes that only the plugin uses: an unknown name below them is a mistake.
const PLUGIN_PREFIXES: [&str; 2] = ["NCCL_GPUDIRECTTCPX_", "NCCL_TCPX_"];

/// What is wrong with `env` for the hardware plugin.
///
/// `interfaces` are the names of all interfaces that have an address; with none given, nothing is said about names.
/// `cpus` is how many CPUs the machine has, 0 when unknown.
#[must_use]
pub fn lint(env: &Env, interfaces: &[&str], cpus: u32) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, value) in env.iter().filter(|(_, value)| !value.is_empty()) {
        match find(name) {
            Some(variable) => findings.extend(lint_value(variable, value)),
            None => findings.extend(lint_unknown(name)),
        }
    }
    findings.extend(lint_chunk_size(env));
    findings.extend(lint_fixed_values(env));
    findings.extend(conflicts::find(env, interfaces, cpus));
    findings
}

fn lint_value(variable: &Variable, value: &str) -> Option<Finding> {
    let name = variable.name;
    let seen = format!("{name}={value}");
    match (variable.effect, variable.kind) {
        (Effect::None, _) => Some(
            Finding::new(&table::VARIABLE_WITHOUT_EFFECT, format!("{seen}: {}", variable.note))
                .with("<VARIABLE>", name),
        ),
        (Effect::Missing, _) => Some(
            Finding::new(&table::VARIABLE_UNKNOWN, format!("{seen}: {}", variable.note))
                .with("<VARIABLE>", name),
        ),
        (Effect::Nccl, _) => None,
        // Judged by rules of their own, which say more.
        (Effect::Acts, _) if HAS_OWN_RULE.contains(&name) => None,
        (Effect::Acts, Kind::Integer { min, max }) => {
            let number = number::parse(value);
            let diagnosis = if !(min..=max).contains(&number.value) {
                &table::VALUE_OUT_OF_RANGE
            } else if number.has_junk {
                &table::VALUE_NOT_A_NUMBER
            } else {
                return None;
            };
            let seen =
                format!("{seen}, read as {}; legal is {}", number.value, variable.kind.range());
            let range = variable.kind.range();
            Some(Finding::new(diagnosis, seen).with("<VARIABLE>", name).with("<RANGE>", &range))
        }
        (Effect::Acts, Kind::Choice { words }) if !words.contains(&value) => {
            let range = variable.kind.range();
            let seen = format!("{seen}; legal is {range}");
            Some(
                Finding::new(&table::VALUE_OUT_OF_RANGE, seen)
                    .with("<VARIABLE>", name)
                    .with("<RANGE>", &range),
            )
        }
        (Effect::Acts, _) => None,
    }
}

/// Variables with a rule in [`lint_chunk_size`] or [`lint_fixed_values`].
const HAS_OWN_RULE: [&str; 2] =
    ["NCCL_DYNAMIC_CHUNK_SIZE", "NCCL_GPUDIRECTTCPX_FLOW_STEERING_STRATEGY"];

/// A name that the table lacks: a mistake if only the plugin could mean it, or if it is almost a known name.
fn lint_unknown(name: &str) -> Option<Finding> {
    let is_plugins = PLUGIN_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let nearest = nearest_name(name);
    let allowed_distance = if is_plugins { 4 } else { 2 };
    let nearest = nearest.filter(|&(distance, _)| distance <= allowed_distance);
    let finding = match nearest {
        Some((_, nearest)) => {
            let mut finding = Finding::new(
                &table::VARIABLE_UNKNOWN,
                format!("{name} is set; did you mean {nearest}?"),
            );
            finding.cure.insert(0, format!("export {nearest}=\"${name}\""));
            finding
        }
        None if is_plugins => Finding::new(&table::VARIABLE_UNKNOWN, format!("{name} is set")),
        None => return None,
    };
    Some(finding.with("<VARIABLE>", name))
}

/// The known variable with the fewest edits from `name`. Names outside NCCL's prefix are other programs' business.
pub(super) fn nearest_name(name: &str) -> Option<(usize, &'static str)> {
    if !name.starts_with("NCCL_") {
        return None;
    }
    variables()
        .iter()
        .filter(|variable| variable.effect != Effect::Missing)
        .map(|variable| (strsim::damerau_levenshtein(name, variable.name), variable.name))
        .min()
}

fn lint_chunk_size(env: &Env) -> Option<Finding> {
    const NAME: &str = "NCCL_DYNAMIC_CHUNK_SIZE";
    let Some(text) = value(env, NAME) else {
        return Some(Finding::new(&table::CHUNK_SIZE_UNSET, format!("{NAME} is unset")));
    };
    let number = number::parse(text);
    let seen = format!("{NAME}={text}, read as {} bytes", number.value);
    match number.value {
        0 => Some(Finding::new(&table::CHUNK_SIZE_UNSET, seen)),
        _ if number.has_junk => Some(Finding::new(&table::CHUNK_SIZE_SUFFIX, seen)),
        ..0 | 2_147_483_647.. => Some(Finding::new(&table::CHUNK_SIZE_OUT_OF_RANGE, seen)),
        bytes if bytes > MAX_CHUNK_BYTES => Some(Finding::new(&table::CHUNK_SIZE_TOO_LARGE, seen)),
        _ => None,
    }
}

/// Variables of which one value is trouble by itself.
fn lint_fixed_values(env: &Env) -> Vec<Finding> {
    let number_of = |name: &str| value(env, name).map(|text| number::parse(text).value);
    type Trouble = fn(i64) -> bool;
    let rules: [(&str, Trouble, &crate::Diagnosis); 11] = [
        ("NCCL_GPUDIRECTTCPX_FLOW_STEERING_STRATEGY", |n| n != 3, &table::STRATEGY_UNSUPPORTED),
        ("NCCL_GPUDIRECTTCPX_SOCKET_ENABLE", |n| n == 0, &table::SOCKET_DISABLED),
        ("NCCL_GPUDIRECTTCPX_CONNECTION_RETRY", |n| n == 0, &table::RETRY_ZERO),
        ("NCCL_USE_DMA_BUF", |n| n == 0, &table::DMA_BUF_DISABLED),
        ("NCCL_GPUDIRECTTCPX_RECV_SYNC", |n| n == 1, &table::RECV_SYNC_SET),
        ("NCCL_GPUDIRECTTCPX_SPINWAIT_CONNECT", |n| n == 0, &table::SPINWAIT_OFF),
        ("NCCL_TCPX_RXMEM_IMPORT_SKIP_ODDS", |n| n == 1, &table::ODD_GPUS_SKIPPED),
        ("NCCL_TCPX_RXMEM_IMPORT_USE_GPU_PCI_CLIENT", |n| n == 0, &table::LEGACY_IMPORT),
        ("NCCL_INLINE_THRESHOLD", |n| (1..=2048).contains(&n), &table::INLINE_WITH_CUDA),
        ("NCCL_SOCKET_NTHREADS", |n| (9..=16).contains(&n), &table::THREADS_ABOVE_EIGHT),
        (
            "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS",
            |n| n > 1_000_000,
            &table::STEERING_WAIT_LONG,
        ),
    ];
    let mut findings: Vec<Finding> = rules
        .iter()
        .filter_map(|&(name, is_trouble, diagnosis)| {
            let number = number_of(name).filter(|&number| is_trouble(number))?;
            Some(Finding::new(diagnosis, format!("{name}={number}")))
        })
        .collect();
    if number_of("NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS").is_none() {
        findings.push(Finding::new(
            &table::STEERING_WAIT_LONG,
            "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS is unset: 5 s for each accept",
        ));
    }
    if value(env, "NCCL_GPUDIRECTTCPX_SOCKET_FAMILY") == Some("AF_INET6") {
        let seen = "NCCL_GPUDIRECTTCPX_SOCKET_FAMILY=AF_INET6";
        findings.push(Finding::new(&table::FAMILY_IPV6, seen).at(Severity::Error));
    }
    findings
}
