//! Commands of a test to a scripted peer: one a line on its standard input, one reply a line on its
//! output.

use serde::{Deserialize, Serialize};
use tcpx_testkit::PATIENCE;

/// How long a test waits for something that must come, in a script's unit.
pub const PATIENCE_MS: u64 = PATIENCE.as_millis() as u64;

/// Kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Memory {
    /// Received straight into place.
    Host,
    /// Received through the bounce buffer.
    Device,
}

/// One send or receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostSpec {
    /// Registration id.
    pub memory: u64,
    /// Byte offset.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// Tag.
    pub tag: i64,
}

/// Settings that tests vary; what is `None` keeps the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Plugin file, loaded without the checks before; the built-in software plugin otherwise.
    pub plugin: Option<String>,
    /// GPU of the session, by its CUDA ordinal.
    pub gpu: Option<u32>,
    /// NICs of the channels, by name; empty: the library's choice.
    #[serde(default)]
    pub nics: Vec<String>,
    /// Unpack backend, by name.
    pub unpack: Option<String>,
    /// Session name.
    pub name: Option<String>,
    /// Channels.
    pub channels: Option<u16>,
    /// Chunk size.
    pub chunk_bytes: Option<u32>,
    /// Receives in flight.
    pub recv_window: Option<usize>,
    /// Sends in flight.
    pub send_window: Option<usize>,
    /// Whether scattered small sends are gathered.
    pub gather: Option<bool>,
    /// Longest message on the control link.
    pub eager_bytes: Option<u32>,
    /// Longest read or write on the control link.
    pub link_bytes: Option<u64>,
    /// Whether peers may only send what the bounce buffer has room for, with any plugin.
    pub bounce_credit: bool,
    /// Deadline of accept and connect, a minute unless given.
    pub connect_timeout_ms: Option<u64>,
    /// Deadline of the goodbye, a minute unless given.
    pub close_timeout_ms: Option<u64>,
    /// How long nothing may move before it is noticed.
    pub stall_after_ms: Option<u64>,
    /// How long a peer may be silent, in milliseconds, a minute unless given; 0 for ever.
    pub peer_timeout_ms: Option<u64>,
    /// Whether the session has a progress thread.
    pub progress_thread: bool,
    /// Encryption, by name.
    pub encryption: Option<String>,
    /// Whether channels are made with the connection, and not when something needs them.
    pub connect_channels: bool,
}

/// One command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Creates the session.
    New(Options),
    /// Replies with the connection info.
    Listen,
    /// Loads connection info.
    Load {
        /// Peer name.
        peer: String,
        /// The bytes.
        conn_info: Vec<u8>,
    },
    /// Connects.
    Connect {
        /// Peer name.
        peer: String,
    },
    /// Accepts.
    Accept {
        /// Peer name.
        peer: String,
    },
    /// Disconnects.
    Disconnect {
        /// Peer name.
        peer: String,
    },
    /// Allocates memory; replies with its id.
    Allocate {
        /// Bytes.
        bytes: u64,
        /// Kind.
        memory: Memory,
    },
    /// Takes a registration back.
    Deregister {
        /// Its id.
        memory: u64,
    },
    /// Fills memory with a pattern.
    Fill {
        /// Registration id.
        memory: u64,
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// Seed.
        seed: u64,
    },
    /// Replies with the first byte that differs from a pattern, or null.
    Verify {
        /// Registration id.
        memory: u64,
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// Seed.
        seed: u64,
    },
    /// Creates a transfer; replies with its number.
    Transfer {
        /// Peer name.
        peer: String,
    },
    /// Posts sends.
    Send {
        /// Number of the transfer.
        transfer: usize,
        /// What to send.
        posts: Vec<PostSpec>,
    },
    /// Posts receives.
    Receive {
        /// Number of the transfer.
        transfer: usize,
        /// What to receive.
        posts: Vec<PostSpec>,
    },
    /// Waits for a transfer; replies with the microseconds it took.
    Wait {
        /// Number of the transfer.
        transfer: usize,
        /// Deadline.
        timeout_ms: u64,
    },
    /// Asks whether a transfer is complete.
    IsComplete {
        /// Number of the transfer.
        transfer: usize,
    },
    /// Cancels a transfer.
    Cancel {
        /// Number of the transfer.
        transfer: usize,
    },
    /// Drops a transfer.
    Release {
        /// Number of the transfer.
        transfer: usize,
    },
    /// Replies with a transfer's numbers.
    Counts {
        /// Number of the transfer.
        transfer: usize,
    },
    /// Exports a registration, for reading and writing; replies with the key.
    Export {
        /// Its id.
        memory: u64,
    },
    /// Takes a key back.
    Unexport {
        /// Its bytes.
        key: Vec<u8>,
    },
    /// Prepares an operation on the first bytes of a registration and of what a key opens; replies
    /// with its number.
    Prepare {
        /// Peer name.
        peer: String,
        /// Whether it writes.
        is_write: bool,
        /// Registration id.
        memory: u64,
        /// Bytes.
        bytes: u64,
        /// The key's bytes.
        key: Vec<u8>,
    },
    /// Posts an operation.
    PostOperation {
        /// Its number.
        operation: usize,
    },
    /// Waits for an operation.
    WaitOperation {
        /// Its number.
        operation: usize,
        /// Deadline.
        timeout_ms: u64,
    },
    /// Makes progress for a while.
    Progress {
        /// How long.
        time_ms: u64,
    },
    /// Replies with the session's statistics.
    Stats,
    /// Replies with the process's open files, threads and resident memory.
    Footprint,
    /// Drops the session and everything of it; replies with the milliseconds it took.
    Close,
}

/// What a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// Open file descriptors.
    pub files: usize,
    /// Threads.
    pub threads: usize,
    /// Resident memory in KiB.
    pub resident_kib: u64,
}

/// A command that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Name of the error's variant.
    pub kind: String,
    /// Its text.
    pub text: String,
    /// How long the command took, in milliseconds.
    pub after_ms: u64,
}
