//! Check whether NICs can receive into our memory, as they are set up.

use tcpx_cuda::{CudaGpu, check_exports};
use tcpx_devmem::{DevmemError, Nic, NicFacts, RingQueue, check_nic, choose_queues};

use super::gpu_refusal::gpu_refusal;
use super::kernel_deadline::KERNEL_DEADLINE;
use crate::transport::Transport;

/// Checks that the NIC has a queue for such receives. Takes no privilege, and binds nothing.
///
/// # Errors
/// The error says what is missing.
pub(crate) fn check_receiving(interface: &str, transport: Transport) -> Result<(), DevmemError> {
    if transport == Transport::IoUring {
        RingQueue::check_kernel()?;
    }
    let nic = Nic::named(interface)?;
    choose_queues(&NicFacts::ask(&nic, KERNEL_DEADLINE)?, 1).map(drop)
}

/// Checks that this process can have the NIC receive into memory of this GPU, and send from it.
/// Binds nothing.
///
/// # Errors
/// The error says what is missing.
pub(crate) fn check_for_gpu(interface: &str, gpu: &CudaGpu) -> Result<(), DevmemError> {
    check_nic(&Nic::named(interface)?, KERNEL_DEADLINE)?;
    check_exports(gpu).map_err(|error| gpu_refusal(gpu.ordinal(), &error))
}

/// Returns whether the NIC is set down. A missing NIC is not down, nor is a NIC that the system
/// says nothing about.
pub(crate) fn is_down(interface: &str) -> bool {
    let flags = std::fs::read_to_string(format!("/sys/class/net/{interface}/flags"));
    let flags = flags
        .ok()
        .and_then(|text| u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok());
    flags.is_some_and(|flags| flags & libc::IFF_UP as u32 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_up() {
        assert!(!is_down("lo") && !is_down("no-such-nic"));
    }

    #[test]
    fn the_loopback_cannot() {
        for transport in [Transport::Devmem, Transport::IoUring] {
            let error = check_receiving("lo", transport).expect_err("it has no queues");
            let id = error.diagnosis().map(|diagnosis| diagnosis.code.number());
            assert!(matches!(id, Some(407 | 420 | 442 | 444)), "{error}");
        }
    }
}
