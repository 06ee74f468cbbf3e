//! How long reads and writes of a peer's memory may be that travel on the control link.

use std::fmt;
use std::str::FromStr;

/// On fewer processors one connection moves as much as several: threads that help a channel have no
/// processor of their own there.
const FEWEST_PROCESSORS: usize = 5;
/// Where channels move more, a read or write of so many bytes takes about as long as to ask for it.
const SHORT_BYTES: u64 = 256 << 10;

/// Longest read or write of a peer's memory that travels on the control link, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkBytes {
    /// 256 KiB, or any number on fewer than 5 processors with the software plugin.
    #[default]
    Auto,
    /// So many; 0: none but what is as short as a message that travels there.
    Most(u64),
}

impl LinkBytes {
    /// The same over this plugin. Channels of the hardware move more than the link, however few
    /// processors there are.
    pub(crate) fn over(self, is_hardware: bool) -> Self {
        match self {
            Self::Auto if is_hardware => Self::Most(SHORT_BYTES),
            chosen => chosen,
        }
    }

    /// The number where the process may use so many processors.
    pub(crate) fn bytes(self, processors: usize) -> u64 {
        match self {
            Self::Auto if processors < FEWEST_PROCESSORS => u64::MAX,
            Self::Auto => SHORT_BYTES,
            Self::Most(bytes) => bytes,
        }
    }
}

/// A text that is no number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be auto or a number of bytes")]
pub struct LinkBytesError;

impl FromStr for LinkBytes {
    type Err = LinkBytesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            number => number.parse().map(Self::Most).map_err(|_| LinkBytesError),
        }
    }
}

impl fmt::Display for LinkBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Most(bytes) => bytes.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_processors_have_no_limit_unless_they_are_given_one() {
        let auto = [1, 4, 5, 208].map(|processors| LinkBytes::Auto.bytes(processors));
        assert_eq!(auto, [u64::MAX, u64::MAX, 256 << 10, 256 << 10]);
        assert_eq!([2, 208].map(|processors| LinkBytes::Most(7).bytes(processors)), [7, 7]);
        let of_hardware = [1, 208].map(|processors| LinkBytes::Auto.over(true).bytes(processors));
        assert_eq!(of_hardware, [256 << 10; 2], "nothing long goes past the hardware");
        assert_eq!(LinkBytes::Auto.over(false), LinkBytes::Auto);
        assert_eq!(LinkBytes::Most(u64::MAX).over(true), LinkBytes::Most(u64::MAX));
    }

    #[test]
    fn texts_are_read_as_they_are_written() {
        for choice in [LinkBytes::Auto, LinkBytes::Most(0), LinkBytes::Most(u64::MAX)] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        for text in ["", "-1", "many", "1.5", "18446744073709551616"] {
            assert_eq!(text.parse::<LinkBytes>(), Err(LinkBytesError), "{text}");
        }
    }
}
