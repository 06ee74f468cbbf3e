//! A kernel that answers as it is told.

use std::io;
use std::net::Ipv4Addr;

use tcpx_doctor::{
    DevmemAnswer, Dialects, Direction, HeaderSplit, Kernel, LogLine, Rings, Statistics,
};

/// What the kernel answers; every NIC gets the same answers.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    pub(crate) addresses: Option<Vec<(String, Ipv4Addr)>>,
    pub(crate) dialects: Option<Dialects>,
    pub(crate) receive: DevmemAnswer,
    pub(crate) transmit: DevmemAnswer,
    pub(crate) rings: Option<Rings>,
    pub(crate) flow_steering: Option<bool>,
    pub(crate) locked_memory: Option<u64>,
    pub(crate) open_files: Option<u64>,
    pub(crate) cuda: Result<(), String>,
    pub(crate) statistics: Option<Statistics>,
    /// What is in the log, or why it cannot be read.
    pub(crate) log: Result<Vec<LogLine>, io::ErrorKind>,
}

impl Answers {
    /// A healthy A3 High host.
    pub(crate) fn a3_high() -> Self {
        let addresses =
            (0..5).map(|nic| (format!("eth{nic}"), Ipv4Addr::new(10, 64, nic, 7))).collect();
        Self {
            addresses: Some(addresses),
            dialects: Some(Dialects { google: true, upstream: false }),
            receive: DevmemAnswer::Supported,
            transmit: DevmemAnswer::Supported,
            rings: Some(Rings {
                header_split: HeaderSplit::On,
                header_split_threshold_bytes: Some(0),
            }),
            flow_steering: Some(true),
            locked_memory: None,
            open_files: Some(1 << 20),
            cuda: Ok(()),
            statistics: None,
            log: Ok(Vec::new()),
        }
    }
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "not answered")
}

impl Kernel for Answers {
    fn addresses(&self) -> io::Result<Vec<(String, Ipv4Addr)>> {
        self.addresses.clone().ok_or_else(refused)
    }

    fn dialects(&self) -> io::Result<Dialects> {
        self.dialects.ok_or_else(refused)
    }

    fn devmem(&self, ifindex: u32, direction: Direction) -> io::Result<DevmemAnswer> {
        // The kernel knows no interface 0.
        assert_ne!(ifindex, 0);
        Ok(if direction == Direction::Receive {
            self.receive.clone()
        } else {
            self.transmit.clone()
        })
    }

    fn rings(&self, _nic: &str) -> io::Result<Rings> {
        self.rings.ok_or_else(refused)
    }

    fn flow_steering(&self, _nic: &str) -> io::Result<bool> {
        self.flow_steering.ok_or_else(refused)
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

    fn find_cuda(&self) -> Result<(), String> {
        self.cuda.clone()
    }
}
