//! A range of memory that is to be registered together with others.

use tcpx_protocol::types::{Access, MemoryType};

use super::memory_address::MemoryAddress;

/// One range of a list for [`Session::register_memory_list`](crate::Session::register_memory_list).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRegistration {
    /// Its first byte.
    pub address: MemoryAddress,
    /// Size in bytes.
    pub bytes: u64,
    /// How it is received into.
    pub memory: MemoryType,
    /// Whether it is received into at all.
    pub access: Access,
}
