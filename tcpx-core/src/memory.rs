//! Memory: what a session moves, and how it is named.
//!
//! - `device_memory`: what device memory is in a session; memory that the session owns.
//! - `host_buffer`: ordinary memory that the session allocates.
//! - `lent_buffer`: ordinary memory that a program lends to the session.
//! - `memory_address`: where memory that a program registers begins.
//! - `memory_descriptor`: how one end tells another of memory.

pub(crate) mod device_memory;
pub(crate) mod host_buffer;
pub(crate) mod lent_buffer;
pub(crate) mod memory_address;
pub(crate) mod memory_descriptor;
