//! Numbers of bytes as people write them.

use std::fmt;
use std::str::FromStr;

/// A number of bytes: `67108864`, `64M` or `64MiB`. At least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ByteSize(pub(crate) u64);

const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let shift = match unit.trim_start() {
            "" | "B" => Some(0),
            unit => UNITS
                .iter()
                .find(|(name, _)| {
                    unit.eq_ignore_ascii_case(name) || unit.eq_ignore_ascii_case(&name[..1])
                })
                .map(|(_, shift)| *shift),
        };
        let (Ok(number), Some(shift)) = (number.parse::<u64>(), shift) else {
            return Err("not a number of bytes; write for example 67108864, 64M or 64MiB".into());
        };
        match number.checked_mul(1 << shift) {
            Some(0) => Err("must be at least 1 byte".into()),
            Some(bytes) => Ok(Self(bytes)),
            None => Err("more bytes than fit 64 bits".into()),
        }
    }
}

impl fmt::Display for ByteSize {
    /// The largest binary unit that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().rev().find(|(_, shift)| self.0.trailing_zeros() >= *shift);
        match unit {
            Some((name, shift)) if self.0 != 0 => f.pad(&format!("{} {name}", self.0 >> shift)),
            _ => f.pad(&format!("{} B", self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_plain_numbers_and_binary_units() {
        for (text, bytes) in [
            ("1", 1),
            ("67108864", 64 << 20),
            ("64M", 64 << 20),
            ("64m", 64 << 20),
            ("64MiB", 64 << 20),
            ("4 KiB", 4096),
            ("10000019", 10_000_019),
            ("2G", 2 << 30),
            ("7B", 7),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn refuses_nothing_nonsense_and_too_much() {
        for text in ["", "M", "64MB", "-1", "1.5M", "0x10", "64 M B", "18446744073709551616"] {
            let error = text.parse::<ByteSize>().unwrap_err();
            assert!(error.contains("67108864"), "{text}: {error}");
        }
        assert!("0".parse::<ByteSize>().unwrap_err().contains("at least 1"));
        assert!("0M".parse::<ByteSize>().unwrap_err().contains("at least 1"));
        assert!("16777216T".parse::<ByteSize>().unwrap_err().contains("64 bits"));
    }

    #[test]
    fn prints_the_largest_whole_unit() {
        for (bytes, text) in
            [(64 << 20, "64 MiB"), (4096, "4 KiB"), (10_000_019, "10000019 B"), (0, "0 B")]
        {
            assert_eq!(ByteSize(bytes).to_string(), text);
        }
    }
}
