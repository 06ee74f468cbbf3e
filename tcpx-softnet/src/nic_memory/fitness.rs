//! Which NICs can receive into device memory, as they are set up.

use tcpx_devmem::{DevmemError, Nic, NicFacts, choose_queues};

use super::kernel_deadline::KERNEL_DEADLINE;

/// Whether the NIC has a queue for it. Takes no privilege, and binds nothing.
///
/// # Errors
/// What is missing.
pub(crate) fn check_receiving(interface: &str) -> Result<(), DevmemError> {
    let nic = Nic::named(interface)?;
    choose_queues(&NicFacts::ask(&nic, KERNEL_DEADLINE)?, 1).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_cannot() {
        let error = check_receiving("lo").expect_err("it has no queues");
        let id = error.diagnosis().map(|diagnosis| diagnosis.code.number());
        assert!(matches!(id, Some(407 | 420)), "{error}");
    }
}
