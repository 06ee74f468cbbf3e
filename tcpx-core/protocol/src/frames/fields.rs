//! Fields of fixed size, one behind the other, in the body of a frame. Pure.

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
