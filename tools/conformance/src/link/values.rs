//! Arguments and replies of commands that are more than a number. Pointers travel as numbers: they
//! are valid in the agent alone, and a check may pass any number.

use serde::{Deserialize, Serialize};

use crate::options::PluginSource;

/// Value of every output before a call, by which an untouched output is recognised.
pub(crate) const UNTOUCHED: u64 = 0x7e57_0000_7e57_0000;
/// Value of every `int` output before a call.
pub(crate) const UNTOUCHED_INT: i32 = 0x7e57_7e57;

/// Setup of an agent: the first frame to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AgentSetup {
    /// The plugin to open.
    pub target: PluginSource,
    /// The GPU to hold, with its context current; without one, device memory is ordinary memory.
    pub gpu: Option<u32>,
}

/// Last argument of `connect` and `accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DeviceArgument {
    /// NULL.
    Null,
    /// The address of a NULL pointer.
    PointsToNull,
    /// The address of a pointer to a struct at this address.
    At(u64),
}

/// One end of a stream of equal messages, driven by the agent itself with a full window.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Stream {
    pub comm: u64,
    pub mhandle: u64,
    /// Address of the messages. A sender fills one buffer for each request in flight; a receiver
    /// passes it to `irecv`.
    pub buffer: u64,
    pub message_bytes: u32,
    pub messages: u64,
    /// Pattern seed of the first message; the next has the next number.
    pub first_seed: u64,
    /// Milliseconds without a completion after which the stream ends.
    pub stall_ms: u64,
}

/// Unpack queue and bounce buffer of a receiving stream.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct StreamQueue {
    pub meta: u64,
    pub bounce: u64,
    /// Receives of the comm so far.
    pub received: u64,
}

/// A return code and an output pointer ([`UNTOUCHED`] or NULL before the call).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PointerReply {
    pub rc: i32,
    pub pointer: u64,
}

/// Code and outputs of `test`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TestReply {
    pub rc: i32,
    pub done: i32,
    pub sizes: i32,
}

/// A return code and an `int` output ([`UNTOUCHED_INT`] before the call).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CountReply {
    pub rc: i32,
    pub count: i32,
}

/// Facts about a loaded table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoadedTable {
    pub name: String,
    /// Whether `regMrDmaBuf` is set.
    pub dma_buf: bool,
}

/// Reason why a plugin has no usable table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoadFailure {
    /// Whether the file has a table with a NULL member.
    pub has_null_member: bool,
    /// Text of the loader.
    pub text: String,
}

/// Code and outputs of `getProperties`.
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

/// Open descriptors and threads of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessResources {
    pub descriptors: u64,
    pub threads: u64,
}
