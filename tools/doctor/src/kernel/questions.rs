//! Questions to the running kernel, which no file answers.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use tcpx_devmem::nic::Rings;
use tcpx_devmem::{InstalledRule, NicFacts};

use super::log::LogLine;

/// Whether data goes into device memory or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// bind-rx.
    Receive,
    /// bind-tx.
    Transmit,
}

/// What a NIC answers when a dma-buf that does not exist is bound to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DevmemAnswer {
    /// The bind reached the check of the dma-buf: driver and device are capable.
    Supported,
    /// The driver or the device is not capable; in the kernel's words, if it gave any.
    Unsupported(String),
    /// Capable, but not as it is set up: queue absent, taken, or used by XDP.
    Blocked(String),
    /// This user may not ask.
    Denied,
}

/// Whether a NIC can receive into the memory of a process, by io_uring's zero-copy receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ZeroCopyAnswer {
    /// Kernel, driver and device are capable.
    Supported,
    /// The driver or the device is not capable.
    NotByDriver,
    /// The kernel is too old, or was built without it.
    NotByKernel,
    /// This user may not ask.
    Denied,
}

/// A NIC's counters by name.
pub type Statistics = BTreeMap<String, u64>;

/// Questions to the running kernel. [`LiveKernel`](crate::LiveKernel) asks them; tests answer them
/// as they like.
pub trait Kernel {
    /// What the NIC with this index answers to a bind with a bad dma-buf. Changes nothing.
    ///
    /// # Errors
    /// When the question cannot be asked, as on a kernel without the `netdev` family.
    fn devmem(&self, ifindex: u32, direction: Direction) -> io::Result<DevmemAnswer>;

    /// Whether the NIC with this index can receive into the memory of a process. Changes nothing.
    ///
    /// # Errors
    /// When the question cannot be asked, or the kernel's answer tells nothing.
    fn zero_copy_receive(&self, ifindex: u32) -> io::Result<ZeroCopyAnswer>;

    /// A NIC's ring settings.
    ///
    /// # Errors
    /// When the kernel or the driver does not answer.
    fn rings(&self, nic: &str) -> io::Result<Rings>;

    /// Whether a NIC's ntuple filters, flow steering, are on.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn flow_steering(&self, nic: &str) -> io::Result<bool>;

    /// Returns a NIC's receive queues, and their permitted users.
    ///
    /// # Errors
    /// When the kernel does not answer.
    fn queues(&self, nic: &str) -> io::Result<NicFacts>;

    /// Flow rules to queues without device memory, of connections that are gone.
    ///
    /// # Errors
    /// When the driver does not list its rules.
    fn stale_rules(&self, nic: &str) -> io::Result<Vec<InstalledRule>>;

    /// A NIC's counters, as `ethtool -S` shows them.
    ///
    /// # Errors
    /// When the driver has none.
    fn statistics(&self, nic: &str) -> io::Result<Statistics>;

    /// Returns the lines of the kernel's log that are still kept.
    ///
    /// # Errors
    /// When this user may not read it, or there is none, as in some containers.
    fn log(&self) -> io::Result<Vec<LogLine>>;

    /// Bytes of memory that may be locked; `None` without limit.
    fn locked_memory_limit(&self) -> Option<u64>;

    /// Returns the limit of open files; `None` without limit.
    fn open_files_limit(&self) -> Option<u64>;
}
