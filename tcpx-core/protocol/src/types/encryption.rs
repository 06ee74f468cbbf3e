//! Setting of a session for the encryption of what crosses the network, and what two ends make of
//! theirs. Pure.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Whether what crosses the network is encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Encryption {
    /// Never. A peer that requires it is refused.
    #[default]
    Off,
    /// With every peer that has not switched it off.
    Prefer,
    /// With every peer. One that has switched it off is refused.
    Require,
}

const NAMES: [(&str, Encryption); 3] =
    [("off", Encryption::Off), ("prefer", Encryption::Prefer), ("require", Encryption::Require)];

/// Text that is no such setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be off, prefer or require")]
pub struct EncryptionError;

impl FromStr for Encryption {
    type Err = EncryptionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, encryption)| *encryption).ok_or(EncryptionError)
    }
}

impl fmt::Display for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = NAMES.iter().find(|(_, encryption)| encryption == self);
        f.pad(found.map_or("off", |(name, _)| name))
    }
}

/// Settings of two ends that do not talk: one requires what the other has switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "encryption = {ours} here, {theirs} there: set TCPX_ENCRYPTION to prefer or require at both ends, \
     or to off at both"
)]
#[non_exhaustive]
pub struct EncryptionMismatch {
    /// Setting of this end.
    pub ours: Encryption,
    /// Setting of the other end.
    pub theirs: Encryption,
}

impl Encryption {
    /// Returns whether two ends encrypt what they send each other. Both ends call it, each with its
    /// own setting as `self`, and come to the same.
    ///
    /// # Errors
    /// They must not talk.
    pub fn agree(self, theirs: Self) -> Result<bool, EncryptionMismatch> {
        match (self, theirs) {
            (Self::Off, Self::Require) | (Self::Require, Self::Off) => {
                Err(EncryptionMismatch { ours: self, theirs })
            }
            (Self::Off, _) | (_, Self::Off) => Ok(false),
            _ => Ok(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Encryption::{Off, Prefer, Require};
    use super::*;

    #[test]
    fn two_settings_encrypt_fit_without_or_refuse_each_other() {
        for (ours, theirs, expected) in [
            (Off, Off, Some(false)),
            (Off, Prefer, Some(false)),
            (Off, Require, None),
            (Prefer, Off, Some(false)),
            (Prefer, Prefer, Some(true)),
            (Prefer, Require, Some(true)),
            (Require, Off, None),
            (Require, Prefer, Some(true)),
            (Require, Require, Some(true)),
        ] {
            let agreed = ours.agree(theirs);
            assert_eq!(agreed.ok(), expected, "{ours} and {theirs}");
            if let Err(error) = agreed {
                assert!(
                    error.to_string().starts_with(&format!("encryption = {ours} here, {theirs}"))
                );
            }
        }
    }

    #[test]
    fn a_setting_has_one_word() {
        for (word, setting) in NAMES {
            assert_eq!((word.parse(), setting.to_string().as_str()), (Ok(setting), word));
        }
        assert_eq!("1".parse::<Encryption>(), Err(EncryptionError));
    }
}
