//! Memory: what device memory is in a session, and how one end tells another of memory.
//!
//! - [`device_memory`]: memory of a GPU, or ordinary memory that stands in for it.
//! - [`host_buffer`]: ordinary memory, and how far a mapping reaches.
//! - [`memory_descriptor`]: address, size and kind of memory, as bytes to send to another host.

pub(crate) mod device_memory;
pub(crate) mod host_buffer;
pub(crate) mod memory_descriptor;
