//! Keys, kinds and limits that both ends of a link agree on. The lowest room.
//!
//! - [`peer_budget`]: memory that peers may take, all together.
//! - [`memory`]: owners of memory, the numbers by which a program knows registrations, and
//!   operations on memory of the other end.
//! - [`encryption`]: setting of a session for it, and what two ends make of theirs.
//! - [`nic`]: NICs of a session, as its hello names them.

pub mod encryption;
pub mod memory;
pub mod nic;
pub mod peer_budget;

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
pub const MIN_CHUNK_BYTES: u32 = 4096;
/// Most bytes of a message that travels on the control link: a frame with as many fits into what a
/// link reads at once.
pub const MAX_EAGER_BYTES: u32 = 64 << 10;
/// Most bytes of one part of a read or write that travels on the control link in several.
pub const MAX_LINK_CHUNK_BYTES: u32 = 960 << 10;
/// Longest notification, in bytes.
pub const MAX_NOTIFICATION_BYTES: u32 = 64 << 10;
/// Least room for notifications: where all were taken, and the sender does not know of a quarter of
/// that, the longest still fits.
pub const LEAST_NOTIFICATION_BYTES: u32 = 2 * MAX_NOTIFICATION_BYTES;

new_key_type! {
    /// A posted send or receive. Its number travels on the control link as the receiver's name for
    /// a receive.
    pub struct OpKey;
    /// A transfer.
    pub struct TransferKey;
    /// A list that an operation was prepared with.
    pub struct PreparedKey;
    /// A registration, for lookups that must be quick.
    pub struct RegistrationKey;
}

impl OpKey {
    /// Returns its number as it travels.
    pub fn to_wire(self) -> u64 {
        self.data().as_ffi()
    }

    /// Makes a key of any number; a key that is not ours finds nothing.
    pub fn from_wire(number: u64) -> Self {
        let key = Self::from(KeyData::from_ffi(number));
        // The slot map takes several numbers for one key; the wire has one.
        if key.to_wire() == number { key } else { Self::null() }
    }
}

/// Direction in which an operation moves bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From this end to the peer.
    Send,
    /// From the peer to this end.
    Receive,
}

impl Direction {
    /// Returns the access that an operation needs to its memory.
    pub fn access(self) -> Access {
        match self {
            Self::Send => Access::ReadOnly,
            Self::Receive => Access::ReadWrite,
        }
    }
}

/// Kind of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryType {
    /// Host memory: received straight into place. NCCL_PTR_HOST.
    Host,
    /// GPU memory, or ordinary memory that stands in for it in a session without a GPU: received
    /// through the bounce buffer. NCCL_PTR_CUDA.
    Device,
}

impl MemoryType {
    /// Returns its number in calls of the plugin, and in what peers send each other.
    pub const fn ptr_type(self) -> i32 {
        match self {
            Self::Host => 1,
            Self::Device => 2,
        }
    }

    /// Returns the kind with this number.
    pub fn from_ptr_type(ptr_type: i32) -> Option<Self> {
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

/// Use that a registration allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Access {
    /// Sent from, and never written by the session.
    ReadOnly,
    /// Sent from and received into.
    ReadWrite,
}

/// A span of a registration that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The registration that it lies in.
    pub registration: RegistrationKey,
    /// Address of its first byte.
    pub address: u64,
    /// The kind of memory.
    pub memory: MemoryType,
}

/// Cost of keeping a notification beside its bytes. It bounds the number of empty ones.
pub const NOTE_COST: u64 = 64;

/// Returns the cost that a notification of this many bytes has in the memory that its sender has
/// here.
pub fn note_cost(bytes: usize) -> u64 {
    NOTE_COST.saturating_add(bytes as u64)
}

/// Cost of notifications taken out after which a peer's protocol is notified.
pub const TELL_AFTER: u64 = (8 << 10) - NOTE_COST;
