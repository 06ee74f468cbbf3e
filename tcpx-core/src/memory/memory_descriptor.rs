//! Memory descriptors: a sealed envelope in which one end describes its registered memory to
//! another. They are also read as text, for programs without such an envelope.
//!
//! The body has 20 bytes, little-endian: address (u64), size (u64), pointer type (i32). The
//! envelope's digest finds damage and proves no origin.
//!
//! The text form of a memory descriptor is "address,size,type", three decimal numbers without
//! signs, spaces or leading zeros. Programs without the sealed form print it.

use tcpx_protocol::types::MemoryType;
use tcpx_wire::sealed::{DIGEST_BYTES, Envelope, HEADER_BYTES, SealError};

const ENVELOPE: Envelope = Envelope { magic: *b"TCPXMEMD", version: 1 };
const BODY_BYTES: usize = 20;

/// Reason why a memory descriptor, or its bytes, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryDescriptorError {
    /// The bytes are no memory descriptor.
    #[error("these bytes are no memory descriptor of tcpx")]
    Magic,
    /// The descriptor was made by another version of the library.
    #[error(
        "format version {found}, this library reads {supported}: use the same tcpx on both ends"
    )]
    Version {
        /// Version of the bytes.
        found: u16,
        /// Version of this library.
        supported: u16,
    },
    /// There are too few bytes, or too many.
    #[error("{have} bytes, a descriptor has {need}")]
    Length {
        /// Number of bytes given.
        have: usize,
        /// Number of bytes of a descriptor.
        need: usize,
    },
    /// Bits changed on the way.
    #[error("damaged on the way: the checksum does not match")]
    Digest,
    /// The text begins as the text form does, and is malformed.
    #[error("as text it is \"address,size,type\", three decimal numbers; byte {at} does not fit")]
    Text {
        /// Index of the first malformed byte, from 0 on.
        at: usize,
    },
    /// The pointer type is neither host nor device memory.
    #[error("ptr_type {0} is not known")]
    PointerType(i32),
    /// Address or size is 0, or the range ends past the end of the address space.
    #[error("{bytes} bytes at {address:#x} cannot be")]
    Range {
        /// Address of the first byte.
        address: u64,
        /// Size in bytes.
        bytes: u64,
    },
}

impl MemoryDescriptorError {
    /// Converts the reason why an envelope of `have` bytes could not be opened.
    fn of_envelope(error: SealError, have: usize) -> Self {
        match error {
            SealError::Magic => Self::Magic,
            // The bytes are too few to hold the magic.
            SealError::Truncated { .. } if have < HEADER_BYTES => Self::Magic,
            SealError::Version { found, supported } => Self::Version { found, supported },
            SealError::Digest if have == MemoryDescriptor::SERIALIZED_BYTES => Self::Digest,
            _ => Self::length(have),
        }
    }

    fn length(have: usize) -> Self {
        Self::Length { have, need: MemoryDescriptor::SERIALIZED_BYTES }
    }
}

/// Address, size and kind of memory. A plain value: it owns nothing and keeps nothing registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryDescriptor {
    /// Address of the first byte, in the address space of the end that made the descriptor.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Kind of the memory.
    pub memory: MemoryType,
}

impl MemoryDescriptor {
    /// Number of bytes of a serialised descriptor.
    pub const SERIALIZED_BYTES: usize = HEADER_BYTES + BODY_BYTES + DIGEST_BYTES;

    /// Writes the descriptor as bytes, which [`deserialize`](Self::deserialize) reads on any
    /// machine.
    ///
    /// # Errors
    /// [`MemoryDescriptorError::Range`] for an impossible range.
    pub fn serialize(&self) -> Result<[u8; Self::SERIALIZED_BYTES], MemoryDescriptorError> {
        self.check()?;
        Ok(seal(self.address, self.bytes, self.memory.ptr_type()))
    }

    /// Reads bytes that [`serialize`](Self::serialize) made, or the text `address,size,type`. The
    /// text has three decimal numbers, and the last is 1 for host memory and 2 for device memory.
    /// The bytes may come from an untrusted peer.
    ///
    /// # Errors
    /// Each [`MemoryDescriptorError`].
    pub fn deserialize(bytes: &[u8]) -> Result<Self, MemoryDescriptorError> {
        if DescriptorText::is_meant(bytes) {
            let text =
                DescriptorText::read(bytes).map_err(|at| MemoryDescriptorError::Text { at })?;
            return Self::checked(text.address, text.bytes, text.ptr_type);
        }
        let body = ENVELOPE
            .open(bytes)
            .map_err(|error| MemoryDescriptorError::of_envelope(error, bytes.len()))?;
        let fields = || {
            let (address, rest) = body.split_first_chunk()?;
            let (size, rest) = rest.split_first_chunk()?;
            Some((*address, *size, *<&[u8; 4]>::try_from(rest).ok()?))
        };
        let (address, size, ptr_type) =
            fields().ok_or(MemoryDescriptorError::length(bytes.len()))?;
        let (address, size) = (u64::from_le_bytes(address), u64::from_le_bytes(size));
        Self::checked(address, size, i32::from_le_bytes(ptr_type))
    }

    fn checked(address: u64, bytes: u64, ptr_type: i32) -> Result<Self, MemoryDescriptorError> {
        let memory = MemoryType::from_ptr_type(ptr_type)
            .ok_or(MemoryDescriptorError::PointerType(ptr_type))?;
        let descriptor = Self { address, bytes, memory };
        descriptor.check()?;
        Ok(descriptor)
    }

    fn check(&self) -> Result<(), MemoryDescriptorError> {
        let Self { address, bytes, .. } = *self;
        if address == 0 || bytes == 0 || address.checked_add(bytes).is_none() {
            return Err(MemoryDescriptorError::Range { address, bytes });
        }
        Ok(())
    }
}

/// Returns the bytes of a descriptor with these fields, even if no memory can have them.
pub(crate) fn seal(
    address: u64,
    size: u64,
    ptr_type: i32,
) -> [u8; MemoryDescriptor::SERIALIZED_BYTES] {
    let mut body = [0; BODY_BYTES];
    body[..8].copy_from_slice(&address.to_le_bytes());
    body[8..16].copy_from_slice(&size.to_le_bytes());
    body[16..].copy_from_slice(&ptr_type.to_le_bytes());
    let sealed = ENVELOPE.seal(&body);
    std::array::from_fn(|index| sealed[index])
}

/// Numbers of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DescriptorText {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) ptr_type: i32,
}

impl DescriptorText {
    /// Returns whether the bytes are meant as text. The sealed form begins with a letter.
    pub(super) fn is_meant(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(u8::is_ascii_digit)
    }

    /// Reads a text. An error is the index of the first malformed byte.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, usize> {
        let mut rest = Reader { bytes, at: 0 };
        let address = rest.number(u64::MAX)?;
        rest.comma()?;
        let size = rest.number(u64::MAX)?;
        rest.comma()?;
        let ptr_type = rest.number(i32::MAX as u64)?;
        if rest.at < bytes.len() {
            return Err(rest.at);
        }
        Ok(Self { address, bytes: size, ptr_type: ptr_type as i32 })
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// Returns the next digit.
    fn digit(&self) -> Option<u64> {
        let byte = self.bytes.get(self.at).filter(|byte| byte.is_ascii_digit())?;
        Some(u64::from(byte - b'0'))
    }

    /// Reads a number up to `largest`. The number is one digit, or begins with a digit above 0.
    fn number(&mut self, largest: u64) -> Result<u64, usize> {
        let mut number = self.digit().ok_or(self.at)?;
        let is_zero = number == 0;
        self.at += 1;
        while let Some(digit) = self.digit() {
            let longer = number.checked_mul(10).and_then(|number| number.checked_add(digit));
            let fits = longer.filter(|longer| *longer <= largest && !is_zero);
            number = fits.ok_or(self.at)?;
            self.at += 1;
        }
        Ok(number)
    }

    fn comma(&mut self) -> Result<(), usize> {
        if self.bytes.get(self.at) != Some(&b',') {
            return Err(self.at);
        }
        self.at += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SAMPLE: MemoryDescriptor =
        MemoryDescriptor { address: 0x7f00_0000_1000, bytes: 1 << 30, memory: MemoryType::Device };

    #[test]
    fn the_bytes_are_laid_out_as_documented() {
        let bytes = SAMPLE.serialize().unwrap();
        assert_eq!(bytes[..12], *b"TCPXMEMD\x01\x00\x14\x00");
        assert_eq!(bytes[12..20], 0x7f00_0000_1000u64.to_le_bytes());
        assert_eq!(bytes[20..28], (1u64 << 30).to_le_bytes());
        assert_eq!(bytes[28..32], 2i32.to_le_bytes());
    }

    #[test]
    fn each_fault_is_named() {
        use MemoryDescriptorError as E;
        let bytes = SAMPLE.serialize().unwrap();
        let fault = |bytes: &[u8]| MemoryDescriptor::deserialize(bytes).unwrap_err();
        assert_eq!(fault(b""), E::Magic);
        assert_eq!(fault(b"-4096,1073741824,2"), E::Magic);
        assert_eq!(fault(b"0x7f0000001000,1073741824,2"), E::Text { at: 1 });
        assert_eq!(fault(b"4096,1073741824"), E::Text { at: 15 });
        assert_eq!(fault(b"4096,1073741824,3"), E::PointerType(3));
        assert_eq!(fault(b"4096,0,1"), E::Range { address: 4096, bytes: 0 });
        assert_eq!(fault(&bytes[..39]), E::Length { have: 39, need: 40 });
        assert_eq!(fault(&[&bytes[..], b"x"].concat()), E::Length { have: 41, need: 40 });
        let mut newer = bytes;
        newer[8] = 2;
        assert_eq!(fault(&newer), E::Version { found: 2, supported: 1 });
        assert_eq!(fault(&seal(SAMPLE.address, SAMPLE.bytes, 3)), E::PointerType(3));
        for (address, bytes) in [(0, 1), (1, 0), (SAMPLE.address, u64::MAX)] {
            let descriptor = MemoryDescriptor { address, bytes, ..SAMPLE };
            assert_eq!(descriptor.serialize(), Err(E::Range { address, bytes }));
            assert_eq!(fault(&seal(address, bytes, 1)), E::Range { address, bytes });
        }
    }

    proptest! {
        #[test]
        fn what_was_serialised_is_read(
            address in 1u64..1 << 48,
            bytes in 1u64..1 << 48,
            is_host: bool,
        ) {
            let memory = if is_host { MemoryType::Host } else { MemoryType::Device };
            let descriptor = MemoryDescriptor { address, bytes, memory };
            let text = format!("{address},{bytes},{}", memory.ptr_type());
            let sealed = descriptor.serialize().unwrap();
            prop_assert_eq!(MemoryDescriptor::deserialize(&sealed), Ok(descriptor));
            prop_assert_eq!(MemoryDescriptor::deserialize(text.as_bytes()), Ok(descriptor));
        }

        #[test]
        fn no_single_changed_byte_goes_unseen(
            index in 0..MemoryDescriptor::SERIALIZED_BYTES,
            change in 1u8..,
        ) {
            let mut bytes = SAMPLE.serialize().unwrap();
            bytes[index] ^= change;
            prop_assert!(MemoryDescriptor::deserialize(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            // No text comes about by chance: its last number is 1 or 2.
            prop_assert!(MemoryDescriptor::deserialize(&bytes).is_err());
        }
    }

    #[test]
    fn the_first_wrong_byte_is_named() {
        for (text, at) in [
            ("", 0),
            ("4096", 4),
            ("4096,", 5),
            ("4096,1", 6),
            ("4096,1,", 7),
            ("4096,1,2,", 8),
            ("4096,1,2\n", 8),
            ("4096,1,2\0", 8),
            ("4096, 1,2", 5),
            ("4096 ,1,2", 4),
            ("4096,+1,2", 5),
            ("4096,-1,2", 5),
            ("0x1000,1,2", 1),
            ("04096,1,2", 1),
            ("4096,,2", 5),
            ("4096;1;2", 4),
            ("18446744073709551616,1,2", 19),
            ("4096,99999999999999999999,2", 24),
            ("4096,1,2147483648", 16),
        ] {
            assert_eq!(DescriptorText::read(text.as_bytes()), Err(at), "{text:?}");
        }
    }

    #[test]
    fn the_largest_numbers_are_read() {
        let text = b"18446744073709551615,18446744073709551615,2147483647";
        let (address, bytes, ptr_type) = (u64::MAX, u64::MAX, i32::MAX);
        assert_eq!(DescriptorText::read(text), Ok(DescriptorText { address, bytes, ptr_type }));
    }

    proptest! {
        #[test]
        fn what_is_read_is_the_one_way_to_write_it(text in "[0-9,]{0,60}|[0-9]{1,21},[0-9]{1,21},[0-9]{1,11}") {
            if let Ok(DescriptorText { address, bytes, ptr_type }) =
                DescriptorText::read(text.as_bytes())
            {
                prop_assert_eq!(format!("{address},{bytes},{ptr_type}"), text);
            }
        }

        #[test]
        fn what_is_written_is_read(address: u64, bytes: u64, ptr_type in 0i32..) {
            let text = format!("{address},{bytes},{ptr_type}");
            let expected = DescriptorText { address, bytes, ptr_type };
            prop_assert_eq!(DescriptorText::read(text.as_bytes()), Ok(expected));
        }
    }
}
