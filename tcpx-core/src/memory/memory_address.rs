//! Where memory that a program registers begins.

use std::fmt;

/// Where memory begins: a pointer of this process, or an address on a GPU.
///
/// It is a number inside, because memory of a GPU has no pointer here, and because the plugin and
/// the driver take numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemoryAddress(u64);

impl MemoryAddress {
    /// Memory that this process can point to. The pointer's provenance is exposed: what it allows
    /// to be read and written, the session may read and write by the number.
    #[must_use]
    pub fn from_ptr<T>(pointer: *const T) -> Self {
        Self(pointer.expose_provenance() as u64)
    }

    /// Memory of a GPU, by the number that the CUDA driver gave: a `CUdeviceptr`, or one inside of
    /// it.
    #[must_use]
    pub fn from_device(address: u64) -> Self {
        Self(address)
    }

    /// The address as a number.
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
