//! Queries to the running kernel, over netlink, ioctl and io_uring.

use std::io;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tcpx_devmem::netlink::{Netlink, Refusal, nested};
use tcpx_devmem::nic::{self, Rings};
use tcpx_devmem::{InstalledRule, Nic, NicFacts, stale_rules};

use super::log::{self, LogLine};
use super::queries::{DevmemSupport, Direction, Kernel, Statistics, ZeroCopySupport};
use super::{clock, counters, zero_copy};

/// Queries to the running kernel. They change nothing on the machine.
#[derive(Clone, Copy, Debug)]
pub struct LiveKernel {
    deadline: Duration,
}

impl LiveKernel {
    /// Returns a kernel whose queries take at most `deadline` each.
    #[must_use]
    pub const fn new(deadline: Duration) -> Self {
        Self { deadline }
    }
}

impl Default for LiveKernel {
    /// Returns a kernel whose queries take at most two seconds each.
    fn default() -> Self {
        Self::new(Duration::from_secs(2))
    }
}

impl Kernel for LiveKernel {
    fn devmem(&self, ifindex: u32, direction: Direction) -> io::Result<DevmemSupport> {
        const BIND_RX: u8 = 13;
        const BIND_TX: u8 = 15;
        const IFINDEX: u16 = 1;
        const QUEUES: u16 = 2;
        const FD: u16 = 3;
        const QUEUE_ID: u16 = 1;
        const QUEUE_TYPE: u16 = 3;
        let netlink = Netlink::open("netdev", self.deadline)?;
        let command = if direction == Direction::Receive { BIND_RX } else { BIND_TX };
        let mut request = netlink.request(command);
        request.push_u32(IFINDEX, ifindex);
        if direction == Direction::Receive {
            let zero = 0u32.to_ne_bytes();
            request.push_nest(QUEUES, &nested(&[(QUEUE_ID, &zero), (QUEUE_TYPE, &zero)]));
        }
        // −1 is never a file, so the kernel stops at the dma-buf after its checks of the device.
        request.push_u32(FD, u32::MAX);
        match netlink.ask(&request) {
            Ok(_) => Ok(DevmemSupport::Supported),
            Err(refusal) => classify(refusal),
        }
    }

    fn zero_copy_receive(&self, ifindex: u32) -> io::Result<ZeroCopySupport> {
        zero_copy::query(ifindex)
    }

    fn rings(&self, nic: &str) -> io::Result<Rings> {
        nic::rings(self.deadline, nic)
    }

    fn flow_steering(&self, nic: &str) -> io::Result<bool> {
        nic::has_flow_steering(self.deadline, nic)
    }

    fn queues(&self, nic: &str) -> io::Result<NicFacts> {
        let nic = Nic::named(nic).map_err(io::Error::other)?;
        NicFacts::ask(&nic, self.deadline).map_err(io::Error::other)
    }

    fn stale_rules(&self, nic: &str) -> io::Result<Vec<InstalledRule>> {
        let queues = self.queues(nic)?.queues;
        let nic = Nic::named(nic).map_err(io::Error::other)?;
        stale_rules(&nic, &queues)
    }

    fn log(&self) -> io::Result<Vec<LogLine>> {
        log::read(self.deadline)
    }

    fn statistics(&self, nic: &str) -> io::Result<Statistics> {
        counters::read(nic)
    }

    fn locked_memory_limit(&self) -> Option<u64> {
        getrlimit(Resource::Memlock).current
    }

    fn open_files_limit(&self) -> Option<u64> {
        getrlimit(Resource::Nofile).current
    }

    fn is_clock_synchronised(&self) -> io::Result<bool> {
        clock::is_synchronised()
    }
}

/// Returns the support of a device by the error with which a bind was refused.
fn classify(refusal: Refusal) -> io::Result<DevmemSupport> {
    let text = || {
        if refusal.message.is_empty() { refusal.error.to_string() } else { refusal.message.clone() }
    };
    match refusal.error.raw_os_error() {
        Some(libc::EBADF) => Ok(DevmemSupport::Supported),
        Some(libc::EOPNOTSUPP) => Ok(DevmemSupport::Unsupported(text())),
        Some(libc::EPERM | libc::EACCES) => Ok(DevmemSupport::Denied),
        Some(libc::ERANGE | libc::EEXIST | libc::EBUSY) => Ok(DevmemSupport::Blocked(text())),
        // "not a dma-buf" has no message; a message is about the NIC's settings.
        Some(libc::EINVAL) if refusal.message.is_empty() => Ok(DevmemSupport::Supported),
        Some(libc::EINVAL) => Ok(DevmemSupport::Blocked(text())),
        _ => Err(refusal.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(errno: i32, message: &str) -> Refusal {
        Refusal { error: io::Error::from_raw_os_error(errno), message: message.to_owned() }
    }

    #[test]
    fn refusals_to_bind_are_classified() {
        for (errno, message, expected) in [
            (libc::EBADF, "", DevmemSupport::Supported),
            (libc::EINVAL, "", DevmemSupport::Supported),
            (libc::EOPNOTSUPP, "no netmem TX", DevmemSupport::Unsupported("no netmem TX".into())),
            (libc::EPERM, "", DevmemSupport::Denied),
            (
                libc::EINVAL,
                "tcp-data-split is disabled",
                DevmemSupport::Blocked("tcp-data-split is disabled".into()),
            ),
        ] {
            assert_eq!(classify(refusal(errno, message)).expect("an answer"), expected);
        }
        assert!(
            classify(refusal(libc::ERANGE, ""))
                .is_ok_and(|a| matches!(a, DevmemSupport::Blocked(_)))
        );
        assert!(classify(refusal(libc::ENODEV, "")).is_err());
    }

    #[test]
    fn the_running_kernel_answers() {
        let kernel = LiveKernel::default();
        let refusal = kernel.rings("no-such-nic").expect_err("there is no such NIC").to_string();
        assert!(refusal.contains("os error 19"), "{refusal}");
    }
}
