//! The text form of a memory descriptor: "address,size,type", three decimal numbers without signs,
//! spaces or leading zeros, as programs print it that have no sealed form.

/// The numbers of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DescriptorText {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) ptr_type: i32,
}

impl DescriptorText {
    /// Whether the bytes are meant as text. The sealed form begins with a letter.
    pub(super) fn is_meant(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(u8::is_ascii_digit)
    }

    /// Reads a text. An error is the place of the first byte that does not belong.
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
    /// The digit that comes next.
    fn digit(&self) -> Option<u64> {
        let byte = self.bytes.get(self.at).filter(|byte| byte.is_ascii_digit())?;
        Some(u64::from(byte - b'0'))
    }

    /// A number up to `largest`, which is one digit or begins with one above 0.
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
