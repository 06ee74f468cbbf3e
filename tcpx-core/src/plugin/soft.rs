//! Settings of the built-in software plugin that differ from its own defaults.

use tcpx_diagnosis::Finding;
use tcpx_diagnosis::table::connection;
use tcpx_diagnosis::variables::{process_env, value};
use tcpx_protocol::types::DEFAULT_CHUNK_BYTES;
use tcpx_softnet::{FailureReason, Settings, SettingsError, Transport};

use super::carrier::Carrier;
use crate::error::{Error, Result, SettingProblem};
use crate::settings::PluginChoice;

const TRANSPORT: &str = "TCPX_SOFT_TRANSPORT";

/// Configures the software plugin for this process from the environment. `chunk_bytes` is the
/// default of the chunk size. Without a list of interfaces the plugin offers every interface, even
/// loopback, because the NIC is chosen for each peer. Returns the carrier of payload, because the
/// environment may ask for more than the session does.
pub(crate) fn configure(chunk_bytes: u32, carrier: Carrier) -> Result<Carrier> {
    let mut settings = Settings::from_env_or(chunk_bytes).map_err(refuse)?;
    if settings.interfaces.is_none() {
        let all: Vec<String> = if_addrs::get_if_addrs()
            .unwrap_or_default()
            .into_iter()
            .filter(|interface| interface.ip().is_ipv4())
            .map(|interface| interface.name)
            .collect();
        // The sign says that the names are exact. If there are none, the plugin itself reports what
        // is missing.
        if !all.is_empty() {
            settings.interfaces = Some(format!("={}", all.join(",")));
        }
    }
    settings.transport = transport(carrier, settings.transport);
    let carrier = carrier_of(settings.transport);
    tcpx_softnet::configure(settings).map_err(refuse)?;
    Ok(carrier)
}

/// Returns the carrier for a session with this choice, if it is the first of the process.
pub(crate) fn wanted(choice: &PluginChoice) -> Carrier {
    match choice {
        PluginChoice::Devmem => Carrier::DeviceMemory,
        PluginChoice::Auto => Carrier::DeviceMemoryOfGpus,
        PluginChoice::Soft | PluginChoice::Path(_) => Carrier::Sockets,
    }
}

/// Returns the same carrier, and takes the environment into account.
pub(crate) fn wanted_here(choice: &PluginChoice) -> Result<Carrier> {
    let set = value(&process_env(), TRANSPORT).map(str::to_owned);
    // No other variable concerns a plugin that is open.
    let read = |name: &str| set.clone().filter(|_| name == TRANSPORT);
    let settings = Settings::from_variables(Some(DEFAULT_CHUNK_BYTES), &read).map_err(refuse)?;
    Ok(carrier_of(transport(wanted(choice), settings.transport)))
}

/// Returns the transport for a carrier. `set` is that of the environment, or the default.
fn transport(wanted: Carrier, set: Transport) -> Transport {
    match wanted {
        Carrier::DeviceMemory => Transport::Devmem,
        // A variable that is set overrules the default.
        Carrier::DeviceMemoryOfGpus if value(&process_env(), TRANSPORT).is_none() => {
            Transport::Auto
        }
        Carrier::DeviceMemoryOfGpus | Carrier::Sockets | Carrier::IoUring => set,
    }
}

fn carrier_of(transport: Transport) -> Carrier {
    match transport {
        Transport::Devmem => Carrier::DeviceMemory,
        Transport::Auto => Carrier::DeviceMemoryOfGpus,
        Transport::IoUring => Carrier::IoUring,
        _ => Carrier::Sockets,
    }
}

fn refuse(error: SettingsError) -> Error {
    match error {
        SettingsError::Invalid { variable, value, allowed } => {
            Error::setting(variable, value, SettingProblem::NotAllowed { allowed })
        }
        other => {
            let problem = SettingProblem::SoftPlugin(other.to_string());
            Error::setting("software plugin", "settings", problem)
        }
    }
}

/// Returns the error of a session whose choice asks for another transport than this process has.
pub(crate) fn other_transport(choice: &PluginChoice, wanted: Carrier, opened: Carrier) -> Error {
    let (wanted, opened) = (wanted.description(), opened.description());
    let problem = SettingProblem::OtherTransport { wanted, opened };
    Error::setting("plugin", choice.to_string(), problem)
}

/// Returns whether NICs reach the memory of this GPU.
pub(crate) fn uses_device_memory(gpu: u32) -> bool {
    tcpx_softnet::uses_device_memory(gpu)
}

/// Logs over which NICs memory of this GPU goes by device memory, and why not over the others, if
/// the choice left that open.
pub(crate) fn log_gpu_reach(gpu: u32) {
    for reach in tcpx_softnet::gpu_reach(gpu) {
        let nic = reach.nic;
        match reach.refusal {
            None => tracing::info!(nic, gpu, "memory of the GPU goes by device memory"),
            Some(why) => tracing::info!(nic, gpu, why, "memory of the GPU goes by plain sockets"),
        }
    }
}

/// Returns why this thread's last call of the built-in plugin failed, if the plugin knows.
pub(crate) fn failure_reason() -> Option<Finding> {
    match tcpx_softnet::last_failure()? {
        FailureReason::Nic(error) => Some(Finding::new(error.diagnosis()?, error.to_string())),
        FailureReason::Tampered => {
            let seen = "bytes on an encrypted channel are not those that the peer sent";
            Some(Finding::new(&connection::DATA_TAMPERED, seen))
        }
        _ => None,
    }
}
