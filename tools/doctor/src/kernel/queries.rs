//! Queries to the kernel that no file answers, as a trait, and the types of their results.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use tcpx_devmem::nic::Rings;
use tcpx_devmem::{InstalledRule, NicFacts};

use super::log::LogLine;

/// Direction of device-memory TCP: into device memory or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Into device memory (`bind-rx`).
    Receive,
    /// Out of device memory (`bind-tx`).
    Transmit,
}

/// Support of a NIC for device-memory TCP, by its reply to a bind of a dma-buf that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DevmemSupport {
    /// The bind reached the check of the dma-buf: driver and device are capable.
    Supported,
    /// The driver or the device is not capable, with the kernel's message if it sent one.
    Unsupported(String),
    /// Capable, but not as it is set up: the queue is absent, taken, or used by XDP.
    Blocked(String),
    /// This user may not query it.
    Denied,
}

/// Support of a NIC for io_uring's zero-copy receive into the memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ZeroCopySupport {
    /// Kernel, driver and device are capable.
    Supported,
    /// The driver or the device is not capable.
    NoDriverSupport,
    /// The kernel is too old, or was built without it.
    NoKernelSupport,
    /// This user may not query it.
    Denied,
}

/// A NIC's counters by name.
pub type Statistics = BTreeMap<String, u64>;

/// Queries to the kernel. [`LiveKernel`](crate::LiveKernel) sends them to the running one; tests
/// have implementations of their own.
pub trait Kernel {
    /// Returns the support of the NIC with this index for device-memory TCP. Changes nothing.
    ///
    /// # Errors
    /// When the query cannot be sent, as on a kernel without the `netdev` family.
    fn devmem(&self, ifindex: u32, direction: Direction) -> io::Result<DevmemSupport>;

    /// Returns the support of the NIC with this index for zero-copy receive. Changes nothing.
    ///
    /// # Errors
    /// When the query cannot be sent, or the kernel's reply is inconclusive.
    fn zero_copy_receive(&self, ifindex: u32) -> io::Result<ZeroCopySupport>;

    /// Returns a NIC's ring settings.
    ///
    /// # Errors
    /// When the kernel or the driver does not answer.
    fn rings(&self, nic: &str) -> io::Result<Rings>;

    /// Returns whether a NIC's ntuple filters, which steer flows, are on.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn flow_steering(&self, nic: &str) -> io::Result<bool>;

    /// Returns a NIC's receive queues, and their permitted users.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn queues(&self, nic: &str) -> io::Result<NicFacts>;

    /// Returns the flow rules to queues without device memory, whose connections are gone.
    ///
    /// # Errors
    /// When the driver does not list its rules.
    fn stale_rules(&self, nic: &str) -> io::Result<Vec<InstalledRule>>;

    /// Returns a NIC's counters, as `ethtool -S` shows them.
    ///
    /// # Errors
    /// When the driver has none.
    fn statistics(&self, nic: &str) -> io::Result<Statistics>;

    /// Returns the lines that are still in the kernel's log.
    ///
    /// # Errors
    /// When this user may not read it, or there is none, as in some containers.
    fn log(&self) -> io::Result<Vec<LogLine>>;

    /// Returns the bytes of memory that may be locked; `None` without limit.
    fn locked_memory_limit(&self) -> Option<u64>;

    /// Returns the limit of open files; `None` without limit.
    fn open_files_limit(&self) -> Option<u64>;

    /// Returns whether another clock has set this machine's lately. Changes nothing.
    ///
    /// # Errors
    /// When a sandbox forbids the query.
    fn is_clock_synchronised(&self) -> io::Result<bool>;
}
