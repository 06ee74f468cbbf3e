//! Shapes: legal but inconvenient behaviour on request, so that consumers are tested against more
//! than the easy case.

use std::str::FromStr;

use crate::parse_error::ScriptError;

/// What the plugin does the hard way. None of it ever changes the bytes that are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shape {
    /// Fragments of random length, from one byte to a page.
    pub fragments: bool,
    /// Fragments that start anywhere in a page.
    pub unaligned: bool,
    /// Fragments that share a page, also with fragments of the next message.
    pub share: bool,
    /// Bounce pages in random order.
    pub shuffle: bool,
    /// Socket calls that move only part of what they could.
    pub short: bool,
    /// Socket calls that find the socket not ready, many times in a row.
    pub again: bool,
    /// Sockets that rest for up to a millisecond.
    pub delay: bool,
    /// Bounce pages that seem to have run out.
    pub starve: bool,
}

impl Shape {
    /// Everything at once.
    pub const ALL: Self = Self {
        fragments: true,
        unaligned: true,
        share: true,
        shuffle: true,
        short: true,
        again: true,
        delay: true,
        starve: true,
    };

    /// The words that `from_str` takes.
    const ALLOWED: &str = "a comma-separated list of fragments, unaligned, share, shuffle, short, \
         again, delay, starve; or all";

    /// Whether messages are cut into other fragments than whole pages in order.
    pub(crate) fn cuts(self) -> bool {
        self.fragments || self.unaligned || self.share || self.shuffle
    }
}

impl FromStr for Shape {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let mut shape = Self::default();
        for name in text.split(',') {
            match name.trim() {
                "all" => shape = Self::ALL,
                "fragments" => shape.fragments = true,
                "unaligned" => shape.unaligned = true,
                "share" => shape.share = true,
                "shuffle" => shape.shuffle = true,
                "short" => shape.short = true,
                "again" => shape.again = true,
                "delay" => shape.delay = true,
                "starve" => shape.starve = true,
                _ => return Err(ScriptError::new(Self::ALLOWED)),
            }
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_add_up() {
        assert_eq!("all".parse(), Ok(Shape::ALL));
        let every = "fragments, unaligned,share,shuffle,short,again,delay,starve";
        assert_eq!(every.parse(), Ok(Shape::ALL));
        assert_eq!("short".parse(), Ok(Shape { short: true, ..Shape::default() }));
        assert!("short;again".parse::<Shape>().is_err());
        assert!("".parse::<Shape>().is_err());
    }
}
