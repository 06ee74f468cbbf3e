//! Host with a kernel whose replies a test sets.

use std::io;
use std::ops::{Deref, DerefMut};
use std::path::Path;

use tcpx_devmem::nic::RxQueue;
use tcpx_devmem::{InstalledRule, NicFacts};
use tcpx_diagnosis::Finding;
use tcpx_doctor::{
    DevmemSupport, Direction, HeaderSplit, Kernel, LogLine, Rings, Statistics, ZeroCopySupport,
    examine,
};

use crate::fixture::host_tree::{HostTree, PLUGIN, refused};

/// A host: its files, facts, daemon and kernel.
pub(crate) struct Machine {
    host: HostTree,
    pub(crate) kernel: KernelAnswers,
}

impl Machine {
    /// Returns a healthy A3 High host.
    pub(crate) fn healthy() -> Self {
        Self { host: HostTree::healthy(), kernel: KernelAnswers::a3_high() }
    }

    /// Returns a healthy A3 High host without its daemon.
    pub(crate) fn without_rxdm() -> Self {
        Self { host: HostTree::without_rxdm(), kernel: KernelAnswers::a3_high() }
    }

    /// Returns all findings of a whole examination.
    pub(crate) fn examine(&self) -> Vec<Finding> {
        let report = examine(Some(Path::new(PLUGIN)), None, &self.host(), &self.kernel);
        report.findings().to_vec()
    }
}

impl Deref for Machine {
    type Target = HostTree;

    fn deref(&self) -> &HostTree {
        &self.host
    }
}

impl DerefMut for Machine {
    fn deref_mut(&mut self) -> &mut HostTree {
        &mut self.host
    }
}

/// Returns a NIC with this many receive queues; the first `shared` of them have ordinary packets.
pub(crate) fn queues(all: u32, shared: u32) -> NicFacts {
    NicFacts {
        nic: String::new(),
        rings: None,
        has_flow_steering: true,
        queues: (0..all).map(|id| RxQueue { id, user: None }).collect(),
        shared: Some((0..shared).collect()),
    }
}

/// Replies of a kernel, the same for every NIC.
#[derive(Clone, Debug)]
pub(crate) struct KernelAnswers {
    pub(crate) receive: DevmemSupport,
    pub(crate) transmit: DevmemSupport,
    /// `None`: the query fails.
    pub(crate) zero_copy: Option<ZeroCopySupport>,
    pub(crate) rings: Option<Rings>,
    pub(crate) flow_steering: Option<bool>,
    pub(crate) queues: Option<NicFacts>,
    pub(crate) stale_rules: Vec<InstalledRule>,
    pub(crate) locked_memory: Option<u64>,
    pub(crate) open_files: Option<u64>,
    /// `None`: the query fails.
    pub(crate) clock_synchronised: Option<bool>,
    pub(crate) statistics: Option<Statistics>,
    /// Lines of the log, or the error of reading it.
    pub(crate) log: Result<Vec<LogLine>, io::ErrorKind>,
}

impl KernelAnswers {
    /// Returns the replies of a healthy A3 High host.
    fn a3_high() -> Self {
        Self {
            receive: DevmemSupport::Supported,
            transmit: DevmemSupport::Supported,
            zero_copy: Some(ZeroCopySupport::Supported),
            rings: Some(Rings {
                header_split: HeaderSplit::On,
                header_split_threshold_bytes: Some(0),
            }),
            flow_steering: Some(true),
            queues: Some(queues(16, 12)),
            stale_rules: Vec::new(),
            locked_memory: None,
            open_files: Some(1 << 20),
            clock_synchronised: Some(true),
            statistics: None,
            log: Ok(Vec::new()),
        }
    }
}

impl Kernel for KernelAnswers {
    fn devmem(&self, ifindex: u32, direction: Direction) -> io::Result<DevmemSupport> {
        // The kernel knows no interface 0.
        assert_ne!(ifindex, 0);
        Ok(if direction == Direction::Receive {
            self.receive.clone()
        } else {
            self.transmit.clone()
        })
    }

    fn zero_copy_receive(&self, ifindex: u32) -> io::Result<ZeroCopySupport> {
        assert_ne!(ifindex, 0);
        self.zero_copy.ok_or_else(refused)
    }

    fn rings(&self, _nic: &str) -> io::Result<Rings> {
        self.rings.ok_or_else(refused)
    }

    fn flow_steering(&self, _nic: &str) -> io::Result<bool> {
        self.flow_steering.ok_or_else(refused)
    }

    fn queues(&self, nic: &str) -> io::Result<NicFacts> {
        let facts = self.queues.clone().ok_or_else(refused)?;
        Ok(NicFacts { nic: nic.to_owned(), ..facts })
    }

    fn stale_rules(&self, _nic: &str) -> io::Result<Vec<InstalledRule>> {
        Ok(self.stale_rules.clone())
    }

    fn statistics(&self, _nic: &str) -> io::Result<Statistics> {
        self.statistics.clone().ok_or_else(refused)
    }

    fn log(&self) -> io::Result<Vec<LogLine>> {
        self.log.clone().map_err(io::Error::from)
    }

    fn locked_memory_limit(&self) -> Option<u64> {
        self.locked_memory
    }

    fn open_files_limit(&self) -> Option<u64> {
        self.open_files
    }

    fn is_clock_synchronised(&self) -> io::Result<bool> {
        self.clock_synchronised.ok_or_else(refused)
    }
}
