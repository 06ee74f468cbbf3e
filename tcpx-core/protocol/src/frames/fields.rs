//! What is in the bodies of frames: fields of fixed size, one behind the other; handles of
//! channels; how the bytes of a receive reach their place; and some bytes of an operation that
//! travels on the link. Pure.

use crate::types::memory::OperationKind;

/// What of a body is not read.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Begins at the front of a body.
    pub fn of(body: &'a [u8]) -> Self {
        Self(body)
    }

    /// The next so many bytes, if they are there.
    pub fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// Takes one byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.bytes().map(u8::from_le_bytes)
    }

    /// Takes a number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    /// Takes a number of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// 0 or 1.
    pub fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Whether all of it was read.
    pub fn is_at_end(self) -> bool {
        self.0.is_empty()
    }
}

/// Bytes of a handle.
pub const HANDLE_BYTES: usize = 128;

/// What a plugin needs to connect a channel: bytes that its own kind made at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelHandle(pub [u8; HANDLE_BYTES]);

/// How a receive is delivered. The sender needs it to know which receives may share a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The bytes are unpacked from the bounce buffer to any place.
    Unpacked,
    /// The plugin writes the bytes straight into place.
    InPlace,
    /// As [`InPlace`](Self::InPlace). The place begins where that of the receive announced just
    /// before ends, in the same registration.
    InPlaceBehind,
}

impl Delivery {
    /// Returns its number as it travels.
    pub fn to_wire(self) -> u8 {
        match self {
            Self::Unpacked => 0,
            Self::InPlace => 1,
            Self::InPlaceBehind => 2,
        }
    }

    /// Returns the delivery with this number.
    pub fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Unpacked,
            1 => Self::InPlace,
            2 => Self::InPlaceBehind,
            _ => return None,
        })
    }
}

/// So many bytes of an operation, which follow a frame.
///
/// How the bytes of an operation are cut into parts means nothing. So whoever receives a part may
/// take it in several, as its bytes come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPart {
    /// Whether it is a read or a write.
    pub kind: OperationKind,
    /// The operation, by its initiator's name.
    pub op: u64,
    /// Bytes.
    pub bytes: u32,
}

impl LinkPart {
    /// The first bytes of it, of which there are not more.
    pub fn first(self, bytes: usize) -> Self {
        Self { bytes: self.bytes.min(bytes.try_into().unwrap_or(u32::MAX)), ..self }
    }

    /// What is left of it behind so many bytes, if anything is.
    pub fn after(self, bytes: usize) -> Option<Self> {
        let left = self.bytes - self.first(bytes).bytes;
        (left > 0).then_some(Self { bytes: left, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_one_behind_the_other_and_nothing_is_read_past_the_end() {
        let mut fields = Fields::of(&[1, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 2, 7, 8]);
        assert_eq!((fields.u8(), fields.u32(), fields.u64()), (Some(1), Some(2), Some(3)));
        assert_eq!((fields.bool(), fields.bool()), (Some(true), None));
        assert_eq!(fields.u32(), None);
        assert!(!fields.is_at_end());
        assert_eq!(fields.bytes(), Some([7, 8]));
        assert!(fields.is_at_end());
        assert_eq!(fields.u8(), None);
    }

    #[test]
    fn what_is_taken_and_what_is_left_are_the_whole() {
        let part = |bytes| LinkPart { kind: OperationKind::Write, op: 7, bytes };
        for (bytes, first, left) in [
            (0, 0, Some(100)),
            (1, 1, Some(99)),
            (99, 99, Some(1)),
            (100, 100, None),
            (101, 100, None),
            (usize::MAX, 100, None),
        ] {
            let whole = part(100);
            assert_eq!((whole.first(bytes), whole.after(bytes)), (part(first), left.map(part)));
        }
    }
}
