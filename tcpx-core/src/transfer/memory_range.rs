//! A range of registered memory, as a program names it.

use tcpx_protocol::types::memory_id::MemoryId;

/// A range of a registration of this session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// The registration.
    pub memory: MemoryId,
    /// Byte offset in it.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}
