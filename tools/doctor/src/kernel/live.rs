//! Answers of the running kernel.

use std::io;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tcpx_devmem::netlink::{Netlink, Refusal, nested};
use tcpx_devmem::nic::{self, Rings};
use tcpx_devmem::{InstalledRule, Nic, NicFacts, stale_rules};

use super::log::{self, LogLine};
use super::questions::{DevmemAnswer, Direction, Kernel, Statistics, ZeroCopyAnswer};
use super::{counters, zero_copy};

/// Asks the running kernel. Changes nothing on the machine.
#[derive(Clone, Copy, Debug)]
pub struct LiveKernel {
    deadline: Duration,
}

impl LiveKernel {
    /// Each question takes at most `deadline`.
    #[must_use]
    pub const fn new(deadline: Duration) -> Self {
        Self { deadline }
    }
}

impl Default for LiveKernel {
    /// Two seconds a question.
    fn default() -> Self {
        Self::new(Duration::from_secs(2))
    }
}

impl Kernel for LiveKernel {
    fn devmem(&self, ifindex: u32, direction: Direction) -> io::Result<DevmemAnswer> {
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
        // −1 is never a file, so the kernel stops at the dma-buf after it has looked at the device.
        request.push_u32(FD, u32::MAX);
        match netlink.ask(&request) {
            Ok(_) => Ok(DevmemAnswer::Supported),
            Err(refusal) => classify(refusal),
        }
    }

    fn zero_copy_receive(&self, ifindex: u32) -> io::Result<ZeroCopyAnswer> {
        zero_copy::ask(ifindex)
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
}

/// What a refusal to bind says about the device.
fn classify(refusal: Refusal) -> io::Result<DevmemAnswer> {
    let words = || {
        if refusal.message.is_empty() { refusal.error.to_string() } else { refusal.message.clone() }
    };
    match refusal.error.raw_os_error() {
        Some(libc::EBADF) => Ok(DevmemAnswer::Supported),
        Some(libc::EOPNOTSUPP) => Ok(DevmemAnswer::Unsupported(words())),
        Some(libc::EPERM | libc::EACCES) => Ok(DevmemAnswer::Denied),
        Some(libc::ERANGE | libc::EEXIST | libc::EBUSY) => Ok(DevmemAnswer::Blocked(words())),
        // "not a dma-buf" comes without words; with words it is about the NIC's settings.
        Some(libc::EINVAL) if refusal.message.is_empty() => Ok(DevmemAnswer::Supported),
        Some(libc::EINVAL) => Ok(DevmemAnswer::Blocked(words())),
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
    fn refusals_to_bind_are_told_apart() {
        for (errno, message, expected) in [
            (libc::EBADF, "", DevmemAnswer::Supported),
            (libc::EINVAL, "", DevmemAnswer::Supported),
            (libc::EOPNOTSUPP, "no netmem TX", DevmemAnswer::Unsupported("no netmem TX".into())),
            (libc::EPERM, "", DevmemAnswer::Denied),
            (
                libc::EINVAL,
                "tcp-data-split is disabled",
                DevmemAnswer::Blocked("tcp-data-split is disabled".into()),
            ),
        ] {
            assert_eq!(classify(refusal(errno, message)).expect("an answer"), expected);
        }
        assert!(
            classify(refusal(libc::ERANGE, ""))
                .is_ok_and(|a| matches!(a, DevmemAnswer::Blocked(_)))
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
