//! Environment variables as typed values, and why a setting is refused.

use std::str::FromStr;

use crate::parse_error::ParseError;

/// A setting that the plugin refuses to start with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The variable has no default that could be right.
    #[error("{variable} is not set; {reason}")]
    Unset {
        /// Name of the variable.
        variable: &'static str,
        /// Why it is needed.
        reason: &'static str,
    },
    /// The value is not one of those allowed.
    #[error("{variable} is {value:?}; allowed: {allowed}")]
    Invalid {
        /// Name of the variable, or of the field of [`crate::Settings`].
        variable: &'static str,
        /// What it was.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// [`crate::configure`] came after `init`.
    #[error("the plugin is already initialised; settings are read once, by init")]
    TooLate,
}

/// Strict reading: an empty variable is unset, and anything else must be a whole allowed value.
pub(crate) struct Variables<'a> {
    pub(crate) get: &'a dyn Fn(&str) -> Option<String>,
}

impl Variables<'_> {
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        (self.get)(name).filter(|value| !value.is_empty())
    }

    pub(crate) fn number(
        &self,
        variable: &'static str,
        low: u64,
        high: u64,
    ) -> Result<Option<u64>, SettingsError> {
        let Some(value) = self.text(variable) else { return Ok(None) };
        match value.parse::<u64>() {
            Ok(number) if (low..=high).contains(&number) => Ok(Some(number)),
            _ => Err(SettingsError::Invalid {
                variable,
                value,
                allowed: "a plain decimal number in the documented range",
            }),
        }
    }

    pub(crate) fn parsed<T: FromStr<Err = ParseError>>(
        &self,
        variable: &'static str,
    ) -> Result<Option<T>, SettingsError> {
        let Some(value) = self.text(variable) else { return Ok(None) };
        value.parse().map(Some).map_err(|ParseError { allowed }| SettingsError::Invalid {
            variable,
            value,
            allowed,
        })
    }

    pub(crate) fn flag(&self, variable: &'static str) -> Result<Option<bool>, SettingsError> {
        Ok(self.number(variable, 0, 1)?.map(|number| number == 1))
    }
}

/// What scripts a double of the plugin to misbehave (docs/settings.md).
const SCRIPTS: [&str; 5] = [
    "TCPX_SOFT_SHAPE",
    "TCPX_SOFT_SEED",
    "TCPX_SOFT_FAULTS",
    "TCPX_SOFT_ORIGINAL",
    "TCPX_SOFT_PACKET_BYTES",
];

/// Refuses a script, which would do nothing here: the run could be taken for a test of it.
pub(super) fn refuse_scripts(read: &Variables<'_>) -> Result<(), SettingsError> {
    for variable in SCRIPTS {
        if let Some(value) = read.text(variable) {
            let allowed = "nothing; only a double of this plugin, for tests, is scripted";
            return Err(SettingsError::Invalid { variable, value, allowed });
        }
    }
    Ok(())
}

/// Returns a number whose range was checked, so that nothing is cut.
pub(crate) fn narrow<T: TryFrom<u64> + Default>(value: u64) -> T {
    T::try_from(value).unwrap_or_default()
}
