//! Settings of the built-in software plugin that differ from its own defaults.

use tcpx_diagnosis::Finding;
use tcpx_diagnosis::variables::{process_env, value};
use tcpx_protocol::types::DEFAULT_CHUNK_BYTES;
use tcpx_softnet::{Settings, SettingsError, Transport};

use super::carrier::Carrier;
use crate::error::{Error, Result, SettingProblem};
use crate::settings::PluginChoice;

const TRANSPORT: &str = "TCPX_SOFT_TRANSPORT";

/// Sets the software plugin up for this process, by the environment. `chunk_bytes` is the default
/// of the chunk size. Without a list of interfaces every interface is offered, even loopback,
/// because the NIC is chosen for each peer. Returns what carries payload: the environment may ask
/// for more than the session does.
pub(crate) fn configure(chunk_bytes: u32, carrier: Carrier) -> Result<Carrier> {
    let mut settings = Settings::from_env_or(chunk_bytes).map_err(refuse)?;
    if settings.interfaces.is_none() {
        let all: Vec<String> = if_addrs::get_if_addrs()
            .unwrap_or_default()
            .into_iter()
            .filter(|interface| interface.ip().is_ipv4())
            .map(|interface| interface.name)
            .collect();
        // The sign says that the names are exact. Of none, the plugin says what it misses.
        if !all.is_empty() {
            settings.interfaces = Some(format!("={}", all.join(",")));
        }
    }
    settings.transport = transport(carrier, settings.transport);
    let carrier = carrier_of(settings.transport);
    tcpx_softnet::configure(settings).map_err(refuse)?;
    Ok(carrier)
}

/// What carries payload of a session with this choice, if it is the first of the process.
pub(crate) fn wanted(choice: &PluginChoice) -> Carrier {
    match choice {
        PluginChoice::Devmem => Carrier::DeviceMemory,
        PluginChoice::Auto => Carrier::DeviceMemoryOfGpus,
        PluginChoice::Soft | PluginChoice::Path(_) => Carrier::Sockets,
    }
}

/// The same with what the environment says.
pub(crate) fn wanted_here(choice: &PluginChoice) -> Result<Carrier> {
    let set = value(&process_env(), TRANSPORT).map(str::to_owned);
    // Nothing else that is set concerns a plugin which is open.
    let read = |name: &str| set.clone().filter(|_| name == TRANSPORT);
    let settings = Settings::from_variables(Some(DEFAULT_CHUNK_BYTES), &read).map_err(refuse)?;
    Ok(carrier_of(transport(wanted(choice), settings.transport)))
}

/// `set`: by the environment, or what is usual.
fn transport(wanted: Carrier, set: Transport) -> Transport {
    match wanted {
        Carrier::DeviceMemory => Transport::Devmem,
        // Who has set the variable is not overruled.
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
    let (wanted, opened) = (wanted.words(), opened.words());
    let problem = SettingProblem::OtherTransport { wanted, opened };
    Error::setting("plugin", choice.to_string(), problem)
}

/// Whether NICs reach the memory of this GPU.
pub(crate) fn uses_device_memory(gpu: u32) -> bool {
    tcpx_softnet::uses_device_memory(gpu)
}

/// Says over which NICs memory of this GPU goes by device memory, and why not over the others,
/// where that was left open.
pub(crate) fn tell_reach(gpu: u32) {
    for reach in tcpx_softnet::gpu_reach(gpu) {
        let nic = reach.nic;
        match reach.refusal {
            None => tracing::info!(nic, gpu, "memory of the GPU goes by device memory"),
            Some(why) => tracing::info!(nic, gpu, why, "memory of the GPU goes by plain sockets"),
        }
    }
}

/// Why this thread's last call of the built-in plugin failed, if device memory or a NIC were why.
pub(crate) fn nic_failure() -> Option<Finding> {
    let error = tcpx_softnet::nic_failure()?;
    Some(Finding::new(error.diagnosis()?, error.to_string()))
}
