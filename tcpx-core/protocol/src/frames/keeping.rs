//! What an end makes the other one keep. Pure.

use std::fmt;

/// What is kept until its counterpart comes, or a program takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// Receives that were announced, counted one by one.
    Receives,
    /// Messages that went ahead, in bytes, with [what each costs](super::eager_terms::EagerTerms).
    Ahead,
    /// Notifications likewise.
    Notes,
}

impl Keeping {
    const ALL: [Self; 3] = [Self::Receives, Self::Ahead, Self::Notes];

    /// Returns it as it travels.
    pub fn to_wire(self) -> u8 {
        self as u8
    }

    /// Reads what travels.
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Keeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Receives => "announced receives",
            Self::Ahead => "bytes ahead of receives",
            Self::Notes => "bytes of notifications",
        })
    }
}
