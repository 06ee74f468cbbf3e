//! Memory that a session moves, and its names. This file has the start address of registered
//! memory, and one range of a list of registrations.
//!
//! - [`device_memory`]: memory of a GPU, or ordinary memory that emulates it.
//! - [`host_buffer`]: ordinary memory that the session allocates or a program lends, and the extent
//!   of a mapping.
//! - [`memory_descriptor`]: address, size and kind of memory, as bytes or text to send to another
//!   host.

pub(crate) mod device_memory;
pub(crate) mod host_buffer;
pub(crate) mod memory_descriptor;

use std::fmt;

use tcpx_protocol::types::memory::Device;
use tcpx_protocol::types::{Access, MemoryType};

/// Start address of memory: a pointer of this process, or an address on a GPU.
///
/// The address is a number inside, because memory of a GPU has no pointer here, and because the
/// plugin and the driver take numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemoryAddress(u64);

impl MemoryAddress {
    /// Makes the address of memory that this process can point to. The pointer's provenance is
    /// exposed: the session may read and write by the number whatever the pointer may.
    #[must_use]
    pub fn from_ptr<T>(pointer: *const T) -> Self {
        Self(pointer.expose_provenance() as u64)
    }

    /// Makes the address of memory of a GPU from the number that the CUDA driver gave: a
    /// `CUdeviceptr`, or an address inside its allocation.
    #[must_use]
    pub fn from_device(address: u64) -> Self {
        Self(address)
    }

    /// Returns the address as a number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for MemoryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for MemoryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryAddress({self})")
    }
}

/// Place of memory that is registered or allocated: on a given device, or on the session's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// On this device of the machine.
    Device(Device),
    /// On the host, or on the GPU of a session that has one. Ordinary memory emulates device memory
    /// in a session without a GPU.
    Type(MemoryType),
}

impl From<Device> for Placement {
    fn from(device: Device) -> Self {
        Self::Device(device)
    }
}

impl From<MemoryType> for Placement {
    fn from(memory: MemoryType) -> Self {
        Self::Type(memory)
    }
}

/// One range of a list for [`Session::register_memory_list`](crate::Session::register_memory_list).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRegistration {
    /// Address of the first byte.
    pub address: MemoryAddress,
    /// Size in bytes.
    pub bytes: u64,
    /// Kind of memory, which decides how the session receives into it.
    pub memory: MemoryType,
    /// Allowed uses: whether the session receives into it at all.
    pub access: Access,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_number_of_its_pointer() {
        let byte = 7_u8;
        let pointer = &raw const byte;
        let address = MemoryAddress::from_ptr(pointer);
        assert_eq!(address.get(), pointer.addr() as u64);
        assert_eq!(address, MemoryAddress::from_device(address.get()));
        assert_eq!(MemoryAddress::from_device(0x7f00).to_string(), "0x7f00");
    }
}
