//! Memory: what device memory is in a session, and how one end tells another of memory.

pub(crate) mod device_memory;
pub(crate) mod host_buffer;
pub(crate) mod memory_descriptor;
