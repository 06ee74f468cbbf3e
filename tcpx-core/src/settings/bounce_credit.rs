//! Whether peers may only send what the bounce buffer has room for.

use std::fmt;
use std::str::FromStr;

/// When a session counts what its peers may have in the bounce buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BounceCreditChoice {
    /// With the hardware plugin. The software plugin gives each request all of its pages at once,
    /// so it needs none.
    #[default]
    Auto,
    /// With any plugin.
    On,
    /// Never.
    Off,
}

const NAMES: [(&str, BounceCreditChoice); 3] = [
    ("auto", BounceCreditChoice::Auto),
    ("on", BounceCreditChoice::On),
    ("off", BounceCreditChoice::Off),
];

/// A text that is no choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be auto, on or off")]
pub struct BounceCreditChoiceError;

impl FromStr for BounceCreditChoice {
    type Err = BounceCreditChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, choice)| *choice).ok_or(BounceCreditChoiceError)
    }
}

impl fmt::Display for BounceCreditChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = NAMES.iter().find(|(_, choice)| choice == self);
        f.write_str(found.map_or("auto", |(name, _)| name))
    }
}
