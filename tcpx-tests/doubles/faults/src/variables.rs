//! A script as environment variables say it.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tcpx_softnet::{Settings, SettingsError};

use crate::parse_error::ScriptError;
use crate::quirk::Quirk;
use crate::script::{self, FaultScript};

/// What scripts the double. The plugin itself refuses these.
pub const VARIABLES: [&str; 5] = [SHAPE, SEED, FAULTS, ORIGINAL, PACKET_BYTES];
const SHAPE: &str = "TCPX_SOFT_SHAPE";
const SEED: &str = "TCPX_SOFT_SEED";
const FAULTS: &str = "TCPX_SOFT_FAULTS";
const ORIGINAL: &str = "TCPX_SOFT_ORIGINAL";
const PACKET_BYTES: &str = "TCPX_SOFT_PACKET_BYTES";
const RXDM: &str = "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX";
const STEERING_WAIT: &str = "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS";
const INLINE_THRESHOLD: &str = "NCCL_INLINE_THRESHOLD";

/// Reads one variable.
pub type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads the environment.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn text(read: Read<'_>, name: &str) -> Option<String> {
    read(name).filter(|value| !value.is_empty())
}

fn refused(variable: &'static str, value: String, allowed: &'static str) -> SettingsError {
    SettingsError::Invalid { variable, value, allowed }
}

fn parsed<T: FromStr<Err = ScriptError>>(
    read: Read<'_>,
    variable: &'static str,
) -> Result<Option<T>, SettingsError> {
    let Some(value) = text(read, variable) else { return Ok(None) };
    let parsed = value.parse().map(Some);
    parsed.map_err(|ScriptError { allowed }| refused(variable, value, allowed))
}

fn number<T: FromStr>(
    read: Read<'_>,
    variable: &'static str,
    fits: impl Fn(&T) -> bool,
) -> Result<Option<T>, SettingsError> {
    let Some(value) = text(read, variable) else { return Ok(None) };
    match value.parse().ok().filter(fits) {
        Some(number) => Ok(Some(number)),
        None => Err(refused(variable, value, "a plain decimal number in the documented range")),
    }
}

/// A number of the original's, which takes any other text for unset.
fn lenient(read: Read<'_>, name: &str) -> Option<u64> {
    text(read, name)?.parse().ok()
}

impl FaultScript {
    /// What these variables say.
    ///
    /// # Errors
    /// The first with a value that is not allowed.
    pub fn from_variables(read: Read<'_>) -> Result<Self, SettingsError> {
        let faults = match text(read, FAULTS) {
            None => Vec::new(),
            Some(value) => {
                let all = value.split(';').map(str::parse).collect::<Result<_, _>>();
                all.map_err(|ScriptError { allowed }| refused(FAULTS, value, allowed))?
            }
        };
        Ok(Self {
            shape: parsed(read, SHAPE)?.unwrap_or_default(),
            seed: number(read, SEED, |_| true)?.unwrap_or_default(),
            faults,
            original: parsed(read, ORIGINAL)?.unwrap_or_default(),
            packet_bytes: number(read, PACKET_BYTES, |bytes| script::PACKET_BYTES.contains(bytes))?,
            steering_wait: lenient(read, STEERING_WAIT).map(Duration::from_micros),
            rxdm: text(read, RXDM).map(PathBuf::from),
        })
    }
}

/// The plugin's settings and the script that these variables ask for. `chunk_bytes`: the size of a
/// chunk when none is set.
///
/// # Errors
/// The first with a value that is not allowed, or the chunk size when there is none.
pub fn read_all(
    chunk_bytes: Option<u32>,
    read: Read<'_>,
) -> Result<(Settings, FaultScript), SettingsError> {
    let script = FaultScript::from_variables(read)?;
    let of_plugin = |name: &str| read(name).filter(|_| !VARIABLES.contains(&name));
    let mut settings = Settings::from_variables(chunk_bytes, &of_plugin)?;
    if script.has(Quirk::Inline) {
        let threshold = lenient(read, INLINE_THRESHOLD).filter(|bytes| *bytes <= 2048);
        settings.inline_bytes = threshold.map_or(0, |bytes| bytes as u32);
    }
    Ok((settings, script))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_value_is_refused_by_name() {
        for (name, value) in [
            (SHAPE, "odd"),
            (SEED, "-1"),
            (FAULTS, "rc:test@1=0"),
            (FAULTS, "kill:send@1;"),
            (ORIGINAL, "kind"),
            (PACKET_BYTES, "0"),
            (PACKET_BYTES, "65536"),
        ] {
            let refused = read_all(Some(1), &|asked| (asked == name).then(|| value.to_owned()));
            match refused {
                Err(SettingsError::Invalid { variable, .. }) => assert_eq!(variable, name),
                other => panic!("{name}={value}: {other:?}"),
            }
        }
        let (_, script) = read_all(Some(1), &|name| match name {
            FAULTS => Some("lose:send@1;leak:recv@4".to_owned()),
            PACKET_BYTES => Some("1448".to_owned()),
            _ => None,
        })
        .expect("good values");
        assert_eq!((script.faults.len(), script.packet_bytes), (2, Some(1448)));
    }
}
