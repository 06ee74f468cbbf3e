#![allow(unsafe_code)]
//! The software plugin with all of the original's behaviours (`tcpx_softnet_faults::Quirk`), under
//! the original's name. It has no `tcpxCommHealth_v1` and no `tcpxCommPoll_v1`, as the original has
//! none.
//!
//! It reads the environment as the software plugin does, and scripts of faults with it.
//! `TCPX_ORIGINAL_WITHOUT`, a list of quirks, takes some away; `TCPX_SOFT_ORIGINAL` is not looked
//! at. It exits, aborts and hangs where the original does. Never use it for anything but tests.

use tcpx_softnet::{Settings, SettingsError};
use tcpx_softnet_faults::{FaultScript, Quirks, ScriptError, init_with, read_all};
use tcpx_sys::{Logger, NcclNetV7, NcclResult};

/// The quirks that are not wanted.
const WITHOUT: &str = "TCPX_ORIGINAL_WITHOUT";

/// What `dlsym` finds: the table itself, not a pointer to it.
#[allow(non_upper_case_globals, reason = "the ABI's name")]
// SAFETY: no other item of this name exists in the library; its type is the one that the name
// stands for.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v7: NcclNetV7 = NcclNetV7 {
    name: c"GPUDirectTCPX_v7".as_ptr(),
    init: Some(init),
    ..tcpx_softnet_faults::table()
};

unsafe extern "C" fn init(logger: Option<Logger>) -> NcclResult {
    match logger {
        Some(logger) => init_with(logger, read),
        // The original calls it at once.
        None => std::process::abort(),
    }
}

fn read() -> Result<(Settings, FaultScript), SettingsError> {
    let without = match std::env::var(WITHOUT) {
        Ok(value) if !value.is_empty() => value.parse().map_err(|ScriptError { allowed }| {
            SettingsError::Invalid { variable: WITHOUT, value, allowed }
        })?,
        _ => Quirks::NONE,
    };
    let (settings, mut script) = read_all(None, &variable)?;
    script.original = Quirks::ALL.without(without);
    Ok((settings, script))
}

/// A variable as the original would have it.
fn variable(name: &str) -> Option<String> {
    if name == "TCPX_SOFT_ORIGINAL" {
        return Some("all".to_owned());
    }
    let set = std::env::var(name).ok();
    // The original waits for a peer for ever. This is as long as the software plugin can.
    set.or_else(|| (name == "TCPX_SOFT_CONNECT_TIMEOUT_MS").then(|| "3600000".to_owned()))
}
