//! Arguments and answers of commands that are more than a number. Pointers travel as numbers: they
//! mean something in the agent alone, and a check may pass any number it likes.

use serde::{Deserialize, Serialize};

use crate::options::Target;

/// Value of every output before a call, so that an untouched one can be told.
pub(crate) const UNTOUCHED: u64 = 0x7e57_0000_7e57_0000;
/// The same for `int` outputs.
pub(crate) const UNTOUCHED_INT: i32 = 0x7e57_7e57;

/// First frame to an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// The plugin to open.
    pub target: Target,
    /// The GPU to hold, with its context current; without one, device memory is ordinary memory.
    pub gpu: Option<u32>,
}

/// The last argument of `connect` and `accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DeviceArgument {
    /// NULL.
    Null,
    /// The address of a NULL pointer.
    PointsToNull,
    /// The address of a pointer to a struct at this address.
    At(u64),
}

/// Half of a stream of equal messages, driven by the agent itself with a full window.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Stream {
    pub comm: u64,
    pub mhandle: u64,
    /// Send: where the pattern is prepared, a message per request. Receive: the address that
    /// `irecv` gets.
    pub buffer: u64,
    pub message_bytes: u32,
    pub messages: u64,
    /// Pattern seed of the first message; the next has the next number.
    pub first_seed: u64,
    /// Ends the stream when nothing completes for this long.
    pub stall_ms: u64,
}

/// Where a receiving stream finds its bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct StreamQueue {
    pub meta: u64,
    pub bounce: u64,
    /// Receives of the comm so far.
    pub received: u64,
}

/// A return code and an output pointer ([`UNTOUCHED`] or NULL before the call).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Made {
    pub rc: i32,
    pub pointer: u64,
}

/// What `test` said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tested {
    pub rc: i32,
    pub done: i32,
    pub sizes: i32,
}

/// A return code and an `int` output ([`UNTOUCHED_INT`] before the call).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counted {
    pub rc: i32,
    pub count: i32,
}

/// The table as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Loaded {
    pub name: String,
    /// Whether `regMrDmaBuf` is set.
    pub dma_buf: bool,
}

/// Why there is no table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoadFailure {
    /// Whether there is one, but with a NULL member.
    pub member: bool,
    /// The loader's words.
    pub text: String,
}

/// What `getProperties` wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Properties {
    pub rc: i32,
    pub name: Option<String>,
    pub pci_path: Option<String>,
    pub guid: u64,
    pub ptr_support: i32,
    pub speed: i32,
    pub port: i32,
    pub latency: f32,
    pub max_comms: i32,
    pub max_recvs: i32,
    pub net_device_type: i32,
    pub net_device_version: i32,
}

/// What a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Census {
    pub descriptors: u64,
    pub threads: u64,
}
