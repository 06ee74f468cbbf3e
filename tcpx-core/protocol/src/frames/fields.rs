//! Fields of the bodies of frames: values of fixed size, one behind the other; handles of channels;
//! and the way in which the bytes of a receive reach their place. Pure.

/// Rest of a body that is not read yet.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Begins at the front of a body.
    pub fn of(body: &'a [u8]) -> Self {
        Self(body)
    }

    /// Reads the next `N` bytes, if they are there.
    pub fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// Takes one byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.bytes().map(u8::from_le_bytes)
    }

    /// Takes a number of two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_le_bytes)
    }

    /// Takes a number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    /// Takes a number of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// Reads a bool: 0 or 1.
    pub fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Takes all that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Returns how many bytes are left.
    pub fn left(&self) -> usize {
        self.0.len()
    }

    /// Returns whether all of it was read.
    pub fn is_at_end(self) -> bool {
        self.0.is_empty()
    }
}

/// Most bytes of the fields of a body that are put together before they are appended.
const BODY_BYTES: usize = 32;

/// A body, or the front of one, that is put together field by field and appended at once. What does
/// not fit is left out; no frame has that much.
#[derive(Debug, Default)]
pub(super) struct Body {
    bytes: [u8; BODY_BYTES],
    used: usize,
}

impl Body {
    #[inline]
    fn put<const N: usize>(&mut self, field: [u8; N]) -> &mut Self {
        if let Some(place) = self.bytes.get_mut(self.used..self.used + N) {
            place.copy_from_slice(&field);
            self.used += N;
        }
        self
    }

    #[inline]
    pub(super) fn u8(&mut self, number: u8) -> &mut Self {
        self.put([number])
    }

    #[inline]
    pub(super) fn u16(&mut self, number: u16) -> &mut Self {
        self.put(number.to_le_bytes())
    }

    #[inline]
    pub(super) fn u32(&mut self, number: u32) -> &mut Self {
        self.put(number.to_le_bytes())
    }

    #[inline]
    pub(super) fn u64(&mut self, number: u64) -> &mut Self {
        self.put(number.to_le_bytes())
    }

    #[inline]
    pub(super) fn append_to(&self, out: &mut Vec<u8>) {
        // Copying all of it takes a few moves, and copying as much as is used a call.
        let end = out.len() + self.used;
        out.extend_from_slice(&self.bytes);
        out.truncate(end);
    }
}

/// Bytes of a handle.
pub const HANDLE_BYTES: usize = 128;

/// Handle that a plugin needs to connect a channel: bytes that its own kind made at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelHandle(pub [u8; HANDLE_BYTES]);

/// Delivery of a receive. The sender needs to know it to decide which receives may share a chunk.
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
}
