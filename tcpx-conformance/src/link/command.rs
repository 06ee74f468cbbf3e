//! What a check asks of an agent. Pointers travel as numbers: they mean something in the agent alone, and a check may
//! pass any number it likes.

use serde::{Deserialize, Serialize};

use crate::message::pattern::Mismatch;
use crate::message::unpack_row::Entry;
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

/// The three kinds of comm, by how they are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CommKind {
    Send,
    Recv,
    Listen,
}

/// Half of a stream of equal messages, driven by the agent itself with a full window.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Stream {
    pub comm: u64,
    pub mhandle: u64,
    /// Send: where the pattern is prepared, a message per request. Receive: where `irecv` is told to put it.
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

/// One call, or one access to the agent's memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    Load,
    Init {
        logger: bool,
    },
    Devices,
    Properties {
        dev: i32,
    },
    Listen {
        dev: i32,
        handle: u64,
    },
    Connect {
        dev: i32,
        handle: u64,
        device: DeviceArgument,
    },
    Accept {
        listen_comm: u64,
        device: DeviceArgument,
    },
    RegMr {
        comm: u64,
        data: u64,
        bytes: i32,
        kind: i32,
    },
    DeregMr {
        comm: u64,
        mhandle: u64,
    },
    Isend {
        comm: u64,
        data: u64,
        bytes: i32,
        tag: i32,
        mhandle: u64,
    },
    Irecv {
        comm: u64,
        n: i32,
        data: u64,
        bytes: i32,
        tag: Option<i32>,
        mhandle: u64,
    },
    Iflush {
        comm: u64,
        n: i32,
        request: u64,
    },
    Test {
        request: u64,
    },
    Consumed {
        comm: u64,
        n: i32,
        request: u64,
    },
    Close {
        kind: CommKind,
        comm: u64,
    },
    DeviceMr {
        comm: u64,
        mhandle: u64,
    },
    /// Page-aligned ordinary memory, zeroed; never freed.
    Allocate {
        bytes: u64,
    },
    /// The same of the agent's GPU, if it has one.
    AllocateDevice {
        bytes: u64,
    },
    Read {
        at: u64,
        bytes: u32,
    },
    ReadWord {
        at: u64,
    },
    Write {
        at: u64,
        bytes: Vec<u8>,
    },
    Fill {
        at: u64,
        bytes: u64,
        seed: u64,
    },
    Verify {
        at: u64,
        bytes: u64,
        seed: u64,
    },
    /// Copies entries from the bounce buffer to their places behind `to`.
    Gather {
        bounce: u64,
        entries: Vec<Entry>,
        to: u64,
    },
    /// Bytes from `at` to the end of its memory mapping.
    MappedBytes {
        at: u64,
    },
    /// Open file descriptors and threads of the process.
    Census,
    /// Gives SIGPIPE its default action back, as in a C program.
    DefaultSigpipe,
    SendStream(Stream),
    RecvStream(Stream, Option<StreamQueue>),
}

impl Command {
    /// C name of the call, for reports.
    pub(crate) const fn call(&self) -> &'static str {
        match self {
            Self::Load => "dlopen",
            Self::Init { .. } => "init",
            Self::Devices => "devices",
            Self::Properties { .. } => "getProperties",
            Self::Listen { .. } => "listen",
            Self::Connect { .. } => "connect",
            Self::Accept { .. } => "accept",
            Self::RegMr { .. } => "regMr",
            Self::DeregMr { .. } => "deregMr",
            Self::Isend { .. } => "isend",
            Self::Irecv { .. } => "irecv",
            Self::Iflush { .. } => "iflush",
            Self::Test { .. } => "test",
            Self::Consumed { .. } => "irecvConsumed",
            Self::Close { kind: CommKind::Send, .. } => "closeSend",
            Self::Close { kind: CommKind::Recv, .. } => "closeRecv",
            Self::Close { kind: CommKind::Listen, .. } => "closeListen",
            Self::DeviceMr { .. } => "getDeviceMr",
            Self::SendStream(_) => "a stream of isend and test",
            Self::RecvStream(..) => "a stream of irecv, test and irecvConsumed",
            Self::Read { .. } | Self::ReadWord { .. } | Self::Gather { .. } => {
                "a read of what the plugin published"
            }
            _ => "an access to the agent's own memory",
        }
    }
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

/// An agent's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reply {
    Rc(i32),
    Made(Made),
    Tested(Tested),
    Counted(Counted),
    Loaded(Result<Loaded, LoadFailure>),
    Properties(Properties),
    Address(u64),
    Bytes(Vec<u8>),
    Verified(Option<Mismatch>),
    MappedBytes(Option<u64>),
    Census(Census),
    Streamed(Result<(), String>),
    Done,
    /// The command could not be carried out at all, for a reason that lies outside the plugin.
    Impossible(String),
}
