//! Versions of the system's C library.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

/// A version of glibc, such as 2.28.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Glibc {
    major: u32,
    minor: u32,
}

impl FromStr for Glibc {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('.').and_then(|(major, minor)| {
            Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
        });
        numbers.ok_or_else(|| format!("{text:?} is not a version of glibc, such as 2.28"))
    }
}

impl Display for Glibc {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

impl Glibc {
    /// Returns the newest version whose symbols a library needs. The lines of the output of
    /// `readelf --version-info` are like
    /// `0x0010: Name: GLIBC_2.17  Flags: none  Version: 5`. Versions with three numbers are all
    /// older than any with which Rust works.
    pub(super) fn newest(versions: &str) -> Option<Self> {
        let words = versions.split_whitespace();
        words.filter_map(|word| word.strip_prefix("GLIBC_")?.parse().ok()).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts() {
        let versions = "\
            000000: Version: 1  File: libc.so.6  Cnt: 3\n\
            0x0010: Name: GLIBC_2.9   Flags: none  Version: 4\n\
            0x0020: Name: GLIBC_2.28  Flags: none  Version: 3\n\
            0x0030: Name: GLIBC_2.2.5 Flags: none  Version: 2\n\
            0x0040: Name: GCC_4.3.0   Flags: none  Version: 5\n";
        assert_eq!(Glibc::newest(versions), Some(Glibc { major: 2, minor: 28 }));
        assert_eq!(Glibc::newest("No version information found in this file."), None);
    }

    #[test]
    fn a_version_is_two_numbers() {
        assert_eq!("2.28".parse::<Glibc>().unwrap().to_string(), "2.28");
        for wrong in ["", "2", "2.", "2.28.1", "-2.28", "two"] {
            assert!(wrong.parse::<Glibc>().is_err(), "{wrong}");
        }
    }
}
