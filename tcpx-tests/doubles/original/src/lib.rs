#![allow(unsafe_code)]
//! The software plugin with all of the original's behaviours (`tcpx_softnet::Quirk`), under the
//! original's name. It has no `tcpxCommHealth_v1` and no `tcpxCommPoll_v1`, as the
//! original has none.
//!
//! It reads the environment as the software plugin does. `TCPX_ORIGINAL_WITHOUT`, a list of quirks,
//! takes some away; `TCPX_SOFT_ORIGINAL` is not looked at. It exits, aborts and hangs where the
//! original does. Never use it for anything but tests.

use tcpx_softnet::{ParseError, Quirks, Settings};
use tcpx_sys::{Logger, NcclNetV7, NcclResult};

/// The software plugin, which has every member that the original has.
const SOFT: NcclNetV7 = tcpx_softnet::table();
/// The quirks that are not wanted.
const WITHOUT: &str = "TCPX_ORIGINAL_WITHOUT";

/// What `dlsym` finds: the table itself, not a pointer to it.
#[allow(non_upper_case_globals, reason = "the ABI's name")]
// SAFETY: no other item of this name exists in the library; its type is the one that the name
// stands for.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v7: NcclNetV7 =
    NcclNetV7 { name: c"GPUDirectTCPX_v7".as_ptr(), init: Some(init), ..SOFT };

unsafe extern "C" fn init(logger: Option<Logger>) -> NcclResult {
    if logger.is_none() {
        // The original calls it at once.
        std::process::abort();
    }
    let Ok(without) = unwanted() else { return NcclResult::INTERNAL_ERROR };
    // The software plugin itself says what is wrong with settings, and that a second call is late.
    if let Ok(settings) = Settings::from_variables(None, &variable) {
        let mut settings = settings;
        settings.script.original = Quirks::ALL.without(without);
        let _ = tcpx_softnet::configure(settings);
    }
    // SAFETY: the caller's argument, passed on.
    SOFT.init.map_or(NcclResult::INTERNAL_ERROR, |init| unsafe { init(logger) })
}

fn unwanted() -> Result<Quirks, ParseError> {
    match std::env::var(WITHOUT) {
        Ok(list) if !list.is_empty() => list.parse(),
        _ => Ok(Quirks::NONE),
    }
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
