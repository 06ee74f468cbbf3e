//! Whether any NIC could serve `plugin = devmem`.

use std::time::Duration;

use tcpx_devmem::{DevmemError, Nic, NicFacts, choose_queues};
use tcpx_diagnosis::Finding;
use tcpx_diagnosis::table::kernel::DEVMEM_NO_NIC;

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
            Err(error) => lacks.push(match error.diagnosis() {
                Some(diagnosis) => format!("{error} ({})", diagnosis.code),
                None => error.to_string(),
            }),
        }
    }
    let seen = if lacks.is_empty() { "there is no NIC".to_owned() } else { lacks.join("; ") };
    Some(Finding::new(&DEVMEM_NO_NIC, seen))
}

fn check(name: &str) -> Result<(), DevmemError> {
    let nic = Nic::named(name)?;
    choose_queues(&NicFacts::ask(&nic, DEADLINE)?, 1).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_nic_lacks_is_told() {
        let names = ["lo".to_owned(), "no-such-nic".to_owned()];
        let found = check_device_memory(&names).expect("neither can");
        assert_eq!(found.id.number(), 434);
        assert!(found.seen.contains("TCPX-428") && found.seen.contains("; "), "{found}");
        assert!(check_device_memory(&[]).is_some_and(|found| found.seen == "there is no NIC"));
    }
}
