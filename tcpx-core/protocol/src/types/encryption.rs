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

/// Means by which an end of an encrypted link proves who it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Credential {
    /// The key of its session, whose hash is the session's id.
    #[default]
    SessionKey,
    /// A certificate of an authority, for its name.
    Certificate,
}

/// Two ends that prove themselves in different ways, so neither can check the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{ours} here, {theirs} there: set TCPX_TLS_CERT, TCPX_TLS_KEY and TCPX_TLS_CA at both ends, or \
     at neither"
)]
#[non_exhaustive]
pub struct CredentialMismatch {
    /// Credential of this end.
    pub ours: Credential,
    /// Credential of the other end.
    pub theirs: Credential,
}

impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::SessionKey => "no certificate",
            Self::Certificate => "a certificate",
        })
    }
}

impl Credential {
    /// Checks that the other end proves itself in the same way.
    ///
    /// # Errors
    /// One end has a certificate, and the other does not.
    pub fn agree(self, theirs: Self) -> Result<(), CredentialMismatch> {
        match self == theirs {
            true => Ok(()),
            false => Err(CredentialMismatch { ours: self, theirs }),
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
    fn a_certificate_at_one_end_is_an_error_that_says_which() {
        let [with, without] = [Credential::Certificate, Credential::SessionKey];
        assert_eq!((with.agree(with), without.agree(without)), (Ok(()), Ok(())));
        let said = |ours: Credential, theirs| ours.agree(theirs).unwrap_err().to_string();
        assert!(said(with, without).starts_with("a certificate here, no certificate there"));
        assert!(said(without, with).starts_with("no certificate here, a certificate there"));
    }

    #[test]
    fn a_setting_has_one_word() {
        for (word, setting) in NAMES {
            assert_eq!((word.parse(), setting.to_string().as_str()), (Ok(setting), word));
        }
        assert_eq!("1".parse::<Encryption>(), Err(EncryptionError));
    }
}
