#![allow(unsafe_code)]
//! The software plugin under its own name, with the additions to its table, misbehaving as the
//! environment asks (`tcpx_softnet_faults`, "Variables"). Programs under test load it by path in
//! place of the plugin that is linked in; as there, every interface is offered where none is named.
//! Never use it for anything but tests.

use tcpx_softnet::{Settings, SettingsError};
use tcpx_softnet_faults::{FaultScript, environment, init_with, read_all};
use tcpx_sys::{CommEncryptionV1, CommHealthV1, CommPollV1, Logger, NcclNetV7, NcclResult};

/// What `dlsym` finds: the table itself, not a pointer to it.
#[allow(non_upper_case_globals, reason = "the ABI's name")]
// SAFETY: no other item of this name exists in the library; its type is the one that the name
// stands for.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v7: NcclNetV7 =
    NcclNetV7 { init: Some(init), ..tcpx_softnet_faults::table() };

/// Whether comms are alive.
#[allow(non_upper_case_globals, reason = "named as the table is")]
// SAFETY: as for the table.
#[unsafe(no_mangle)]
pub static tcpxCommHealth_v1: CommHealthV1 = tcpx_softnet_faults::comm_health();

/// What to wait for.
#[allow(non_upper_case_globals, reason = "named as the table is")]
// SAFETY: as for the table.
#[unsafe(no_mangle)]
pub static tcpxCommPoll_v1: CommPollV1 = tcpx_softnet_faults::comm_poll();

/// How a comm is encrypted.
#[allow(non_upper_case_globals, reason = "named as the table is")]
// SAFETY: as for the table.
#[unsafe(no_mangle)]
pub static tcpxCommEncryption_v1: CommEncryptionV1 = tcpx_softnet_faults::comm_encryption();

unsafe extern "C" fn init(logger: Option<Logger>) -> NcclResult {
    match logger {
        Some(logger) => init_with(logger, read),
        None => NcclResult::INTERNAL_ERROR,
    }
}

fn read() -> Result<(Settings, FaultScript), SettingsError> {
    let (mut settings, script) = read_all(None, &environment)?;
    if settings.interfaces.is_none() {
        let all = if_addrs::get_if_addrs().unwrap_or_default();
        let all = all.into_iter().filter(|interface| interface.ip().is_ipv4());
        let names: Vec<String> = all.map(|interface| interface.name).collect();
        // The sign says that the names are exact.
        settings.interfaces = (!names.is_empty()).then(|| format!("={}", names.join(",")));
    }
    Ok((settings, script))
}
