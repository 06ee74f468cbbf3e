//! Options of the command line.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Any error of the example.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// End of the connections that this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Receive,
    Send,
}

/// All options.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) side: End,
    pub(crate) nic: String,
    pub(crate) address: SocketAddr,
    /// Bytes of each connection.
    pub(crate) total: u64,
    pub(crate) connections: usize,
    pub(crate) region: usize,
    pub(crate) step: usize,
    pub(crate) from: Option<IpAddr>,
    pub(crate) is_device: bool,
    pub(crate) deadline: Duration,
    /// Chunks of a connection that are unpacked and not given back yet.
    pub(crate) hold: usize,
    /// Receive queue to bind, whether or not it is a good choice.
    pub(crate) queue: Option<u32>,
    /// Whether io_uring receives the bytes.
    pub(crate) is_ring: bool,
}

/// Longest time of a request to the kernel, or of a queue's reset.
pub(crate) const KERNEL_DEADLINE: Duration = Duration::from_secs(10);

impl Options {
    pub(crate) fn read(arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let all: Vec<String> = arguments.collect();
        let [side, nic, address, total, rest @ ..] = all.as_slice() else {
            return Err(
                "usage: stream receive|send NIC ADDRESS:PORT TOTAL [option=value ...]".into()
            );
        };
        let side = match side.as_str() {
            "receive" => End::Receive,
            "send" => End::Send,
            _ => return Err(format!("{side} is not receive or send").into()),
        };
        let mut options = Self {
            side,
            nic: nic.clone(),
            address: address.parse()?,
            total: total.parse()?,
            connections: 1,
            region: 8 << 20,
            step: 256 << 10,
            from: None,
            is_device: true,
            deadline: Duration::from_secs(60),
            hold: 2,
            queue: None,
            is_ring: false,
        };
        for option in rest {
            options.set(option)?;
        }
        Ok(options)
    }

    fn set(&mut self, option: &str) -> Result<(), Failure> {
        let (name, value) = option.split_once('=').ok_or(format!("{option} is no option"))?;
        match name {
            "connections" => self.connections = value.parse()?,
            "region" => self.region = value.parse()?,
            "step" => self.step = value.parse()?,
            "from" => self.from = Some(value.parse()?),
            "memory" => self.is_device = value == "device",
            "deadline" => self.deadline = Duration::from_secs(value.parse()?),
            "hold" => self.hold = value.parse()?,
            "way" => self.is_ring = value == "ring",
            "queue" => self.queue = Some(value.parse()?),
            _ => return Err(format!("there is no option {name}").into()),
        }
        Ok(())
    }
}
