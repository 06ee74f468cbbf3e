//! Environment variables as typed values.

use std::str::FromStr;

use super::settings_error::SettingsError;
use crate::parse_error::ParseError;

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

    /// Values separated by semicolons; none when the variable is unset.
    #[cfg(feature = "faults")]
    pub(crate) fn list<T: FromStr<Err = ParseError>>(
        &self,
        variable: &'static str,
    ) -> Result<Vec<T>, SettingsError> {
        let Some(value) = self.text(variable) else { return Ok(Vec::new()) };
        let items = value.split(';').map(str::parse).collect::<Result<_, _>>();
        items.map_err(|ParseError { allowed }| SettingsError::Invalid { variable, value, allowed })
    }

    pub(crate) fn flag(&self, variable: &'static str) -> Result<Option<bool>, SettingsError> {
        Ok(self.number(variable, 0, 1)?.map(|number| number == 1))
    }
}
