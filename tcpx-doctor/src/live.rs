//! The running kernel's answers.

mod cuda_library;
mod ethtool;
mod ethtool_statistics;
mod kernel_log;

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::netlink::GENERIC;
use rustix::process::{Resource, getrlimit};
use socket2::{Domain, Protocol, Socket, Type};

use crate::kernel::{DevmemAnswer, Dialects, Direction, Kernel, Rings, Statistics};
use crate::kernel_log::LogLine;
use crate::netlink::{Netlink, Refusal, Request, attributes, family, nested};
use crate::socket_option::set_socket_option;

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
    fn addresses(&self) -> io::Result<Vec<(String, Ipv4Addr)>> {
        const GET_ADDRESS: u16 = 22;
        const LOCAL: u16 = 2;
        const LABEL: u16 = 3;
        const HEADER_BYTES: usize = 8;
        let netlink = Netlink::open(None, self.deadline)?;
        let mut header = [0; HEADER_BYTES];
        header[0] = libc::AF_INET as u8;
        let answer = netlink.ask(&Request::dump(GET_ADDRESS, &header))?;
        Ok(answer
            .iter()
            .filter_map(|payload| {
                let body = payload.get(HEADER_BYTES..)?;
                let find = |kind| attributes(body).find(|attribute| attribute.kind == kind);
                let address: [u8; 4] = find(LOCAL)?.value.try_into().ok()?;
                // A label may carry an alias, `eth0:1`.
                let label = find(LABEL)?.text();
                let name = label.split(':').next().unwrap_or_default().to_owned();
                Some((name, Ipv4Addr::from(address)))
            })
            .collect())
    }

    fn dialects(&self) -> io::Result<Dialects> {
        const GOOGLE_DONTNEED: i32 = 97;
        const UPSTREAM_DONTNEED: i32 = 80;
        Ok(Dialects {
            google: has_dontneed(GOOGLE_DONTNEED)?,
            upstream: has_dontneed(UPSTREAM_DONTNEED)?,
        })
    }

    fn devmem(&self, ifindex: u32, direction: Direction) -> io::Result<DevmemAnswer> {
        const BIND_RX: u8 = 13;
        const BIND_TX: u8 = 15;
        const IFINDEX: u16 = 1;
        const QUEUES: u16 = 2;
        const FD: u16 = 3;
        const QUEUE_ID: u16 = 1;
        const QUEUE_TYPE: u16 = 3;
        let netlink = Netlink::open(Some(GENERIC), self.deadline)?;
        let family = family(&netlink, "netdev")?;
        let command = if direction == Direction::Receive { BIND_RX } else { BIND_TX };
        let mut request = Request::generic(family, command, 1);
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

    fn rings(&self, nic: &str) -> io::Result<Rings> {
        ethtool::rings(self.deadline, nic)
    }

    fn flow_steering(&self, nic: &str) -> io::Result<bool> {
        ethtool::has_active_feature(self.deadline, nic, "rx-ntuple-filter")
    }

    fn log(&self) -> io::Result<Vec<LogLine>> {
        kernel_log::read(self.deadline)
    }

    fn statistics(&self, nic: &str) -> io::Result<Statistics> {
        ethtool_statistics::read(nic)
    }

    fn locked_memory_limit(&self) -> Option<u64> {
        getrlimit(Resource::Memlock).current
    }

    fn open_files_limit(&self) -> Option<u64> {
        getrlimit(Resource::Nofile).current
    }

    fn find_cuda(&self) -> Result<(), String> {
        cuda_library::find()
    }
}

/// Offers one token that was never given out: a kernel with the option skips it, one without does not know the option.
fn has_dontneed(option: i32) -> io::Result<bool> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    let (start, count) = (0u32.to_ne_bytes(), 1u32.to_ne_bytes());
    match set_socket_option(socket.as_fd(), libc::SOL_SOCKET, option, &[start, count].concat()) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(false),
        // A sandbox forbids; everything else is the option's own objection to the token.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Err(error),
        Err(_) => Ok(true),
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
        kernel.dialects().expect("a TCP socket can be made");
        let refusal = kernel.rings("no-such-nic").expect_err("there is no such NIC").to_string();
        assert!(refusal.contains("os error 19"), "{refusal}");
        let addresses = kernel.addresses().expect("addresses can be read");
        assert!(addresses.iter().all(|(name, _)| !name.is_empty()), "{addresses:?}");
    }
}
