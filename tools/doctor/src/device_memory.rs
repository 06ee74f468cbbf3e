//! Support of the NICs for `plugin = devmem`.

use std::time::Duration;

use tcpx_devmem::{DevmemError, Nic, NicFacts, check_nic, choose_queues};
use tcpx_diagnosis::Finding;
use tcpx_diagnosis::table::kernel::{DEVMEM_AUTO, DEVMEM_NO_NIC};

/// Longest time of each query to the kernel.
const DEADLINE: Duration = Duration::from_secs(2);

/// Returns what each of these NICs lacks to receive into device memory; `None` if one of them can.
/// Changes nothing, and needs no privilege.
#[must_use]
pub fn check_device_memory(nics: &[String]) -> Option<Finding> {
    let mut lacks = Vec::new();
    for name in nics {
        match check(name) {
            Ok(()) => return None,
            Err(error) => lacks.push(with_id(&error)),
        }
    }
    let seen = if lacks.is_empty() { "there is no NIC".to_owned() } else { lacks.join("; ") };
    Some(Finding::new(&DEVMEM_NO_NIC, seen))
}

/// Returns over which of these NICs a session with `plugin = auto` would move memory of a GPU by
/// device memory, and why not over the others. Changes nothing. The answer holds for this process,
/// and leaves out the GPU's driver.
#[must_use]
pub fn explain_auto_choice(nics: &[String]) -> Finding {
    let explain = |name: &String| {
        let checked = Nic::named(name).and_then(|nic| check_nic(&nic, DEADLINE));
        match checked {
            Ok(()) => format!("{name}: device memory for GPUs whose driver exports it"),
            Err(error) => format!("{name}: no device memory: {}", with_id(&error)),
        }
    };
    let all: Vec<String> = nics.iter().map(explain).collect();
    let seen = if all.is_empty() { "there is no NIC".to_owned() } else { all.join("; ") };
    Finding::new(&DEVMEM_AUTO, seen)
}

/// Formats an error with the code of its diagnosis.
fn with_id(error: &DevmemError) -> String {
    match error.diagnosis() {
        Some(diagnosis) => format!("{error} ({})", diagnosis.code),
        None => error.to_string(),
    }
}

/// Checks whether this NIC can receive into device memory.
fn check(name: &str) -> Result<(), DevmemError> {
    let nic = Nic::named(name)?;
    choose_queues(&NicFacts::ask(&nic, DEADLINE)?, 1).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_explained_nic_by_nic() {
        let found = explain_auto_choice(&["lo".to_owned(), "no-such-nic".to_owned()]);
        assert_eq!(found.id.number(), 435);
        let (lo, other) = found.seen.split_once("; ").expect("two NICs");
        assert!(lo.starts_with("lo: no device memory: ") && lo.contains("TCPX-4"), "{lo}");
        assert!(other.contains("TCPX-428"), "{other}");
    }

    #[test]
    fn the_finding_says_what_each_nic_lacks() {
        let names = ["lo".to_owned(), "no-such-nic".to_owned()];
        let found = check_device_memory(&names).expect("neither can");
        assert_eq!(found.id.number(), 434);
        assert!(found.seen.contains("TCPX-428") && found.seen.contains("; "), "{found}");
        assert!(check_device_memory(&[]).is_some_and(|found| found.seen == "there is no NIC"));
    }
}
