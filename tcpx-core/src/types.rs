//! Small types that every room uses: keys, kinds and limits. The lowest room; it imports nothing of
//! this crate.
//!
//! - `device`: the host, or a GPU.
//! - `kept_budget`: memory that peers may take, all together.
//! - `memory_id`: what a program knows a registration by.
//! - `peer_name`: what a peer is called in logs and errors.
//! - `remote_access`: what is done with memory of the other end, and what an export allows.
//! - `session_number`: which session of the process something belongs to.

pub(crate) mod device;
pub(crate) mod kept_budget;
pub(crate) mod memory_id;
pub(crate) mod peer_name;
pub(crate) mod remote_access;
pub(crate) mod session_number;

use std::fmt;

use slotmap::{Key, KeyData, new_key_type};

/// Most channels between two peers.
pub const MAX_CHANNELS: u16 = 64;
/// Chunk size when nothing else is set, and the value given to the plugin as
/// NCCL_DYNAMIC_CHUNK_SIZE.
pub const DEFAULT_CHUNK_BYTES: u32 = 524_288;
/// A request past this could reach the plugin's limit of 2047 fragments, where the plugin ends the
/// process.
pub const MAX_CHUNK_BYTES: u32 = 4 << 20;
/// Smallest chunk both ends must be able to handle.
pub(crate) const MIN_CHUNK_BYTES: u32 = 4096;
/// Longest name of a session or peer.
pub(crate) const MAX_NAME_BYTES: usize = 64;
/// Most bytes of a message that travels on the control link: a frame with as many fits into what a
/// link reads at once.
pub(crate) const MAX_EAGER_BYTES: u32 = 64 << 10;
/// Most bytes of one part of a read or write that travels on the control link in several.
pub(crate) const MAX_PART_BYTES: u32 = 960 << 10;
/// Longest notification, in bytes.
pub const MAX_NOTIFICATION_BYTES: u32 = 64 << 10;
/// Least room for notifications: where all were taken, and the sender does not know of a quarter of
/// that, the longest still fits.
pub(crate) const LEAST_NOTIFICATION_BYTES: u32 = 2 * MAX_NOTIFICATION_BYTES;
/// Most threads of a session that copy.
pub(crate) const MAX_COPY_THREADS: u16 = 64;

new_key_type! {
    /// A peer of a session.
    pub(crate) struct PeerKey;
    /// A posted send or receive. Its number travels on the control link as the receiver's name for
    /// a receive.
    pub(crate) struct OpKey;
    /// A transfer.
    pub(crate) struct TransferKey;
    /// A list that an operation was prepared with.
    pub(crate) struct PreparedKey;
    /// A registration, for lookups that must be quick.
    pub(crate) struct RegistrationKey;
}

impl OpKey {
    pub(crate) fn to_wire(self) -> u64 {
        self.data().as_ffi()
    }

    /// Any number gives a key; one that is not ours finds nothing.
    pub(crate) fn from_wire(number: u64) -> Self {
        let key = Self::from(KeyData::from_ffi(number));
        // The slot map takes several numbers for one key; the wire has one.
        if key.to_wire() == number { key } else { Self::null() }
    }
}

/// Which way an operation moves bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Send,
    Receive,
}

impl Direction {
    /// What an operation needs its memory for.
    pub(crate) fn access(self) -> Access {
        match self {
            Self::Send => Access::ReadOnly,
            Self::Receive => Access::ReadWrite,
        }
    }
}

/// A comm's place in the table of handles. Reused after the comm has closed, so the table stays
/// short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CommId(pub(crate) u32);

/// Kind of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryType {
    /// Host memory: received straight into place. NCCL_PTR_HOST.
    Host,
    /// GPU memory, or ordinary memory that stands in for it in a session without a GPU: received
    /// through the bounce buffer. NCCL_PTR_CUDA.
    Device,
}

impl MemoryType {
    /// Returns its number in calls of the plugin, and in what peers send each other.
    pub(crate) const fn ptr_type(self) -> i32 {
        match self {
            Self::Host => 1,
            Self::Device => 2,
        }
    }

    /// Returns the kind with this number.
    pub(crate) fn from_ptr_type(ptr_type: i32) -> Option<Self> {
        [Self::Host, Self::Device].into_iter().find(|memory| memory.ptr_type() == ptr_type)
    }
}

impl fmt::Display for MemoryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Device => "device",
        })
    }
}

/// What a registration may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Sent from, and never written by the session.
    ReadOnly,
    /// Sent from and received into.
    ReadWrite,
}

/// A span of a registration that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) registration: RegistrationKey,
    pub(crate) address: u64,
    pub(crate) memory: MemoryType,
}
