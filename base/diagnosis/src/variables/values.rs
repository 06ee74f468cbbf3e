//! Rules about one variable by itself.

use super::env::{Env, value};
use super::number;
use super::remark::Remark;
use super::variable::{Effect, Kind, Variable, find_variable};
use crate::diagnosis::Diagnosis;
use crate::report::Finding;
use crate::table::environment as table;

const CHUNK_SIZE: &str = "NCCL_DYNAMIC_CHUNK_SIZE";
const STEERING_WAIT: &str = "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS";
const SOCKET_FAMILY: &str = "NCCL_GPUDIRECTTCPX_SOCKET_FAMILY";

/// Largest chunk size that the plugin's unpack queue was made for, in bytes.
pub(super) const MAX_CHUNK_BYTES: i64 = 4 << 20;

/// Returns the findings about each variable by itself.
pub(super) fn each_variable(env: &Env) -> Vec<Remark> {
    let set = env.iter().filter(|(_, value)| !value.is_empty());
    let mut remarks: Vec<Remark> = set
        .filter_map(|(name, value)| {
            let finding = lint_value(find_variable(name)?, value)?;
            Some(Remark::new(&[name], finding))
        })
        .collect();
    remarks.extend(lint_chunk_size(env).map(|finding| Remark::new(&[CHUNK_SIZE], finding)));
    remarks.extend(lint_fixed_values(env));
    remarks
}

fn lint_value(variable: &Variable, value: &str) -> Option<Finding> {
    let (name, range) = (variable.name, variable.kind.range());
    let (diagnosis, objection) = match (variable.effect, variable.kind) {
        (Effect::None, _) => (&table::VARIABLE_WITHOUT_EFFECT, format!(": {}", variable.note)),
        (Effect::Missing, _) => (&table::VARIABLE_UNKNOWN, format!(": {}", variable.note)),
        (Effect::Nccl, _) => return None,
        // These variables have rules of their own, which are more specific.
        (Effect::Acts, _) if HAS_OWN_RULE.contains(&name) => return None,
        (Effect::Acts, Kind::Integer { min, max }) => {
            let number = number::parse(value);
            let diagnosis = if !(min..=max).contains(&number.value) {
                &table::VALUE_OUT_OF_RANGE
            } else if number.has_junk {
                &table::VALUE_NOT_A_NUMBER
            } else {
                return None;
            };
            (diagnosis, format!(", read as {}; legal is {range}", number.value))
        }
        (Effect::Acts, Kind::Choice { words }) if !words.contains(&value) => {
            (&table::VALUE_OUT_OF_RANGE, format!("; legal is {range}"))
        }
        (Effect::Acts, _) => return None,
    };
    let finding = Finding::new(diagnosis, format!("{name}={value}{objection}"));
    Some(finding.with("<VARIABLE>", name).with("<RANGE>", &range))
}

/// Variables with a rule in [`lint_chunk_size`] or [`lint_fixed_values`].
const HAS_OWN_RULE: [&str; 2] = [CHUNK_SIZE, "NCCL_GPUDIRECTTCPX_FLOW_STEERING_STRATEGY"];

fn lint_chunk_size(env: &Env) -> Option<Finding> {
    let Some(text) = value(env, CHUNK_SIZE) else {
        return Some(Finding::new(&table::CHUNK_SIZE_UNSET, format!("{CHUNK_SIZE} is unset")));
    };
    let number = number::parse(text);
    let seen = format!("{CHUNK_SIZE}={text}, read as {} bytes", number.value);
    match number.value {
        0 => Some(Finding::new(&table::CHUNK_SIZE_UNSET, seen)),
        _ if number.has_junk => Some(Finding::new(&table::CHUNK_SIZE_SUFFIX, seen)),
        ..0 | 2_147_483_647.. => Some(Finding::new(&table::CHUNK_SIZE_OUT_OF_RANGE, seen)),
        bytes if bytes > MAX_CHUNK_BYTES => Some(Finding::new(&table::CHUNK_SIZE_TOO_LARGE, seen)),
        _ => None,
    }
}

/// Test for legal numbers that cause trouble.
type IsTroublesome = fn(i64) -> bool;
static TROUBLES: [(&str, IsTroublesome, &Diagnosis); 11] = [
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
    (STEERING_WAIT, |n| n > 1_000_000, &table::STEERING_WAIT_LONG),
];

fn lint_fixed_values(env: &Env) -> Vec<Remark> {
    let number_of = |name: &str| value(env, name).map(|text| number::parse(text).value);
    let numbers = TROUBLES.iter().filter_map(|&(name, is_trouble, diagnosis)| {
        let number = number_of(name).filter(|&number| is_trouble(number))?;
        Some(Remark::new(&[name], Finding::new(diagnosis, format!("{name}={number}"))))
    });
    let mut remarks: Vec<Remark> = numbers.collect();
    if number_of(STEERING_WAIT).is_none() {
        let seen = format!("{STEERING_WAIT} is unset: 5 s for each accept");
        remarks.push(Remark::new(&[STEERING_WAIT], Finding::new(&table::STEERING_WAIT_LONG, seen)));
    }
    if value(env, SOCKET_FAMILY) == Some("AF_INET6") {
        let seen = format!("{SOCKET_FAMILY}=AF_INET6");
        remarks.push(Remark::new(&[SOCKET_FAMILY], Finding::new(&table::FAMILY_IPV6, seen)));
    }
    remarks
}
