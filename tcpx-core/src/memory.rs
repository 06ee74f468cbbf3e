//! Memory: what a session moves, and how it is named.
//!
//! - [`descriptor_text`]: a memory descriptor as text.
//! - [`device_memory`]: memory of a GPU, or ordinary memory that stands in for it.
//! - [`host_buffer`]: ordinary memory that the session allocates, and how far a mapping reaches.
//! - [`lent_buffer`]: ordinary memory that a program lends to the session.
//! - [`memory_address`]: where memory begins that a program registers.
//! - [`memory_descriptor`]: address, size and kind of memory, as bytes to send to another host.
//! - [`new_registration`]: memory that is to be registered, one range of a list.

mod descriptor_text;
pub(crate) mod device_memory;
pub(crate) mod host_buffer;
pub(crate) mod lent_buffer;
pub(crate) mod memory_address;
pub(crate) mod memory_descriptor;
pub(crate) mod new_registration;
