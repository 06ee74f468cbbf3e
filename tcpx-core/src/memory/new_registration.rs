//! A range of memory that is to be registered together with others.

use super::memory_address::MemoryAddress;
use crate::types::{Access, MemoryType};

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
