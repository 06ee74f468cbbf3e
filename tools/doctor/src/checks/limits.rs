//! Limits of the system that bound transfers.

use tcpx_diagnosis::table::limits as table;
use tcpx_diagnosis::{Diagnosis, Finding, Tree};

use crate::kernel::Kernel;

/// Option memory of a socket that A3 deployments set, in bytes.
const OPTMEM_BYTES: i64 = 131_072;
/// Largest TCP windows of RxDM's tuning script, in bytes.
const RMEM_BYTES: i64 = 15_728_640;
const WMEM_BYTES: i64 = 67_108_864;
/// Fewest local ports, which a few dozen sessions do not use up.
const MIN_PORTS: i64 = 8192;
/// Least memory that a process may lock, for bounce buffers and zerocopy pages of host memory.
const MIN_LOCKED_BYTES: u64 = 64 << 20;
const MIN_OPEN_FILES: u64 = 4096;

/// Returns the findings about settings of the system and limits of this process.
pub(crate) fn check(tree: &Tree<'_>, kernel: &dyn Kernel) -> Vec<Finding> {
    let mut findings = Vec::new();
    let last_number = [
        (
            "/proc/sys/net/core/optmem_max",
            "net.core.optmem_max",
            OPTMEM_BYTES,
            &table::OPTMEM_SMALL,
        ),
        ("/proc/sys/net/ipv4/tcp_rmem", "net.ipv4.tcp_rmem", RMEM_BYTES, &table::TCP_RMEM_SMALL),
        ("/proc/sys/net/ipv4/tcp_wmem", "net.ipv4.tcp_wmem", WMEM_BYTES, &table::TCP_WMEM_SMALL),
    ];
    for (path, name, wanted, diagnosis) in last_number {
        findings.extend(check_sysctl(tree, path, diagnosis, |numbers| {
            let largest = *numbers.last()?;
            (largest < wanted)
                .then(|| format!("{name} allows {largest} bytes, {wanted} are advised"))
        }));
    }
    let ports = "/proc/sys/net/ipv4/ip_local_port_range";
    findings.extend(check_sysctl(tree, ports, &table::PORT_RANGE_NARROW, |numbers| {
        let [low, high] = *numbers else { return None };
        let count = high.saturating_sub(low).saturating_add(1);
        (count < MIN_PORTS).then(|| format!("local ports {low} to {high}: {count}"))
    }));
    let slow_start = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";
    findings.extend(check_sysctl(tree, slow_start, &table::SLOW_START_AFTER_IDLE, |numbers| {
        (*numbers == [1]).then(|| "net.ipv4.tcp_slow_start_after_idle is 1".to_owned())
    }));
    findings.extend(check_aes(tree));
    findings.extend(check_process(kernel));
    findings
}

/// Returns the finding about a processor that would encrypt slowly. Files of another form than is
/// known say nothing.
fn check_aes(tree: &Tree<'_>) -> Option<Finding> {
    let text = tree.text("/proc/cpuinfo").ok()?;
    let flags = |line: &&str| line.starts_with("flags") || line.starts_with("Features");
    let (_, flags) = text.lines().find(flags)?.split_once(':')?;
    let lacks = !flags.split_whitespace().any(|flag| flag == "aes");
    lacks.then(|| Finding::new(&table::CPU_WITHOUT_AES, "/proc/cpuinfo does not list aes"))
}

/// Reads the numbers of a setting, and returns the finding of `judge` about them.
fn check_sysctl(
    tree: &Tree<'_>,
    path: &str,
    diagnosis: &Diagnosis,
    judge: impl FnOnce(&[i64]) -> Option<String>,
) -> Option<Finding> {
    let numbers = tree.numbers(path);
    if numbers.is_empty() {
        let seen = format!("{path} holds no number");
        return Some(Finding::new(&table::SYSCTL_NOT_READABLE, seen).with("<PATH>", path));
    }
    judge(&numbers).map(|seen| Finding::new(diagnosis, seen))
}

/// Returns the findings about limits of this process.
fn check_process(kernel: &dyn Kernel) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(bytes) = kernel.locked_memory_limit().filter(|&bytes| bytes < MIN_LOCKED_BYTES) {
        findings.push(Finding::new(&table::MEMLOCK_SMALL, format!("{bytes} bytes may be locked")));
    }
    if let Some(files) = kernel.open_files_limit().filter(|&files| files < MIN_OPEN_FILES) {
        findings.push(Finding::new(&table::OPEN_FILES_LIMIT, format!("{files} files may be open")));
    }
    findings
}
