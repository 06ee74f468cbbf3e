//! The number that a program knows a registration by.

use std::fmt;
use std::num::NonZeroU64;

/// A registration of a session. Ids count from 1, and a session never uses one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryId(NonZeroU64);

impl MemoryId {
    /// The id of this number, as [`get`](Self::get) gave it; `None` for 0, which is no id.
    #[must_use]
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// Its number, for where a type cannot go: another language, a file, a log.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// The id of a registration that so many others came before.
    pub fn after(others: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(others))
    }
}

impl fmt::Display for MemoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_count_from_one_and_show_as_their_number() {
        assert_eq!(MemoryId::new(0), None);
        assert_eq!(MemoryId::new(1), Some(MemoryId::after(0)));
        assert_eq!((MemoryId::after(41).get(), MemoryId::after(41).to_string()), (42, "42".into()));
        assert!(MemoryId::after(1) < MemoryId::after(2));
    }
}
