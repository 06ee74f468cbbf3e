//! Support for `plugin = devmem` among the NICs.

use std::time::Duration;

use tcpx_devmem::{DevmemError, Nic, NicFacts, check_nic, choose_queues};
use tcpx_diagnosis::Finding;
use tcpx_diagnosis::table::kernel::{DEVMEM_AUTO, DEVMEM_NO_NIC};

/// How long the kernel may take for each answer.
const DEADLINE: Duration = Duration::from_secs(2);

/// What each of these NICs lacks to receive into device memory, if none can. Changes nothing, and
/// takes no privilege.
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

/// Over which of these NICs a session with `plugin = auto` would move memory of a GPU by device
/// memory, and why not over the others. Changes nothing; asked as the process that asks, and not of
/// the GPU.
#[must_use]
pub fn device_memory_by_auto(nics: &[String]) -> Finding {
    let verdict = |name: &String| {
        let checked = Nic::named(name).and_then(|nic| check_nic(&nic, DEADLINE));
        match checked {
            Ok(()) => format!("{name}: device memory for GPUs whose driver hands it out"),
            Err(error) => format!("{name}: no device memory: {}", with_id(&error)),
        }
    };
    let all: Vec<String> = nics.iter().map(verdict).collect();
    let seen = if all.is_empty() { "there is no NIC".to_owned() } else { all.join("; ") };
    Finding::new(&DEVMEM_AUTO, seen)
}

fn with_id(error: &DevmemError) -> String {
    match error.diagnosis() {
        Some(diagnosis) => format!("{error} ({})", diagnosis.code),
        None => error.to_string(),
    }
}

fn check(name: &str) -> Result<(), DevmemError> {
    let nic = Nic::named(name)?;
    choose_queues(&NicFacts::ask(&nic, DEADLINE)?, 1).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_explained_nic_by_nic() {
        let found = device_memory_by_auto(&["lo".to_owned(), "no-such-nic".to_owned()]);
        assert_eq!(found.id.number(), 435);
        let (lo, other) = found.seen.split_once("; ").expect("two verdicts");
        assert!(lo.starts_with("lo: no device memory: ") && lo.contains("TCPX-4"), "{lo}");
        assert!(other.contains("TCPX-428"), "{other}");
    }

    #[test]
    fn what_each_nic_lacks_is_told() {
        let names = ["lo".to_owned(), "no-such-nic".to_owned()];
        let found = check_device_memory(&names).expect("neither can");
        assert_eq!(found.id.number(), 434);
        assert!(found.seen.contains("TCPX-428") && found.seen.contains("; "), "{found}");
        assert!(check_device_memory(&[]).is_some_and(|found| found.seen == "there is no NIC"));
    }
}
