//! Environment variables as typed values.

use std::str::FromStr;

use crate::faults::{ALLOWED_FAULTS, Fault};
use crate::memory::DeviceMemory;
use crate::plugin::settings::{Helpers, SettingsError};

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

    pub(crate) fn parsed<T: FromStr>(
        &self,
        variable: &'static str,
        allowed: &'static str,
    ) -> Result<Option<T>, SettingsError> {
        let Some(value) = self.text(variable) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| SettingsError::Invalid { variable, value, allowed })
    }

    pub(crate) fn faults(&self, variable: &'static str) -> Result<Vec<Fault>, SettingsError> {
        let Some(value) = self.text(variable) else { return Ok(Vec::new()) };
        let faults = value
            .split(';')
            .map(|text| text.parse().ok().filter(Fault::is_valid))
            .collect::<Option<_>>();
        faults.ok_or(SettingsError::Invalid { variable, value, allowed: ALLOWED_FAULTS })
    }

    pub(crate) fn flag(&self, variable: &'static str) -> Result<Option<bool>, SettingsError> {
        Ok(self.number(variable, 0, 1)?.map(|number| number == 1))
    }

    pub(crate) fn memory(
        &self,
        variable: &'static str,
    ) -> Result<Option<DeviceMemory>, SettingsError> {
        match self.text(variable).as_deref() {
            None => Ok(None),
            Some("auto") => Ok(Some(DeviceMemory::Auto)),
            Some("emulated") => Ok(Some(DeviceMemory::Emulated)),
            Some("cuda") => Ok(Some(DeviceMemory::Cuda)),
            Some(value) => Err(SettingsError::Invalid {
                variable,
                value: value.to_owned(),
                allowed: "auto, emulated or cuda",
            }),
        }
    }

    pub(crate) fn helpers(&self, variable: &'static str) -> Result<Option<Helpers>, SettingsError> {
        match self.text(variable).as_deref() {
            None => Ok(None),
            Some("auto") => Ok(Some(Helpers::Auto)),
            Some("0") => Ok(Some(Helpers::Off)),
            Some("1") => Ok(Some(Helpers::On)),
            Some(value) => Err(SettingsError::Invalid {
                variable,
                value: value.to_owned(),
                allowed: "0, 1 or auto",
            }),
        }
    }
}
