//! Set of the original's behaviours that are taken on.

use std::str::FromStr;

use crate::parse_error::ScriptError;
use crate::quirk::Quirk;

/// A set of [`Quirk`]s. Written as a comma-separated list of their names, or `all`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks(u32);

impl Quirks {
    /// The plugin as kind as it can be.
    pub const NONE: Self = Self(0);
    /// As the original in everything.
    pub const ALL: Self = Self((1 << Quirk::COUNT) - 1);

    /// The words that `from_str` takes.
    const ALLOWED: &str = "a comma-separated list of sigpipe, piecemeal, failstop, progress, \
         silence, pointers, regmr, gpus, offsets, slow, rules, unchecked, steered, strangers, leak, inline, crash; or all";

    /// Whether the quirk is in the set.
    #[must_use]
    pub const fn has(self, quirk: Quirk) -> bool {
        self.0 & 1 << quirk as u32 != 0
    }

    /// The set and one quirk more.
    #[must_use]
    pub const fn with(self, quirk: Quirk) -> Self {
        Self(self.0 | 1 << quirk as u32)
    }

    /// The set without those of another.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}

impl FromStr for Quirks {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        text.split(',').try_fold(Self::NONE, |quirks, name| match name.trim() {
            "all" => Ok(Self::ALL),
            name => Quirk::from_name(name)
                .map(|quirk| quirks.with(quirk))
                .ok_or(ScriptError::new(Self::ALLOWED)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_add_up_and_can_be_taken_away() {
        let words = Quirks::ALLOWED.strip_prefix("a comma-separated list of ").expect("a list");
        let names = words.strip_suffix("; or all").expect("a list");
        assert_eq!(names.parse(), Ok(Quirks::ALL), "all names are listed");
        assert_eq!("all".parse(), Ok(Quirks::ALL));
        let two: Quirks = " slow,leak".parse().expect("names");
        assert!(two.has(Quirk::Slow) && two.has(Quirk::Leak) && !two.has(Quirk::Crash));
        assert_eq!(Quirk::Leak.name().parse(), Ok(Quirks::NONE.with(Quirk::Leak)));
        let rest = Quirks::ALL.without(two);
        assert!(rest.has(Quirk::Crash) && !rest.has(Quirk::Slow));
        for wrong in ["", "odd", "slow;leak"] {
            assert!(wrong.parse::<Quirks>().is_err(), "{wrong}");
        }
    }
}
