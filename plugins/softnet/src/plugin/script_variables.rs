//! What the variables of the fault script say, and what follows from it.

#[cfg(feature = "faults")]
use std::path::PathBuf;
#[cfg(feature = "faults")]
use std::time::Duration;

use tcpx_comm::wire::MAX_INLINE_BYTES;

use super::variables::{SettingsError, Variables, narrow};
use crate::faults::FaultScript;
use crate::quirk::Quirk;

#[cfg(feature = "faults")]
const RXDM: &str = "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX";
#[cfg(feature = "faults")]
const STEERING_WAIT: &str = "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS";

/// The variable of the plugin's own, or where that is wanted the original's.
pub(super) fn inline_bytes(
    read: &Variables<'_>,
    script: &FaultScript,
) -> Result<Option<u32>, SettingsError> {
    if script.has(Quirk::Inline) {
        let threshold = read.lenient("NCCL_INLINE_THRESHOLD").filter(|bytes| *bytes <= 2048);
        return Ok(Some(threshold.map_or(0, narrow)));
    }
    let bytes = read.number("TCPX_SOFT_INLINE_BYTES", 0, u64::from(MAX_INLINE_BYTES))?;
    Ok(bytes.map(narrow))
}

/// What the variables of the fault script say.
#[cfg(feature = "faults")]
pub(super) fn script(read: &Variables<'_>) -> Result<FaultScript, SettingsError> {
    Ok(FaultScript {
        shape: read.parsed("TCPX_SOFT_SHAPE")?.unwrap_or_default(),
        seed: read.number("TCPX_SOFT_SEED", 0, u64::MAX)?.unwrap_or_default(),
        faults: read.list("TCPX_SOFT_FAULTS")?,
        original: read.parsed("TCPX_SOFT_ORIGINAL")?.unwrap_or_default(),
        packet_bytes: read.number("TCPX_SOFT_PACKET_BYTES", 1, 65_535)?.map(narrow),
        steering_wait: read.lenient(STEERING_WAIT).map(Duration::from_micros),
        rxdm: read.text(RXDM).map(PathBuf::from),
    })
}

/// A script that would do nothing is refused, so that nobody takes the run for a test of it.
#[cfg(not(feature = "faults"))]
pub(super) fn script(read: &Variables<'_>) -> Result<FaultScript, SettingsError> {
    for variable in [
        "TCPX_SOFT_SHAPE",
        "TCPX_SOFT_SEED",
        "TCPX_SOFT_FAULTS",
        "TCPX_SOFT_ORIGINAL",
        "TCPX_SOFT_PACKET_BYTES",
    ] {
        if let Some(value) = read.text(variable) {
            let allowed = "nothing; this build leaves faults out";
            return Err(SettingsError::Invalid { variable, value, allowed });
        }
    }
    Ok(FaultScript::default())
}
