//! Settings of the built-in software plugin that differ from its own defaults.

use tcpx_softnet::{Settings, SettingsError};

use crate::error::{Error, Result, SettingProblem};

/// Sets the software plugin up for this process: the environment counts, the chunk size has a default, and without an
/// interface list every interface is offered, loopback too, because the NIC is chosen for each peer.
pub(crate) fn configure(chunk_bytes: u32) -> Result<()> {
    let refuse = |error: SettingsError| match error {
        SettingsError::Invalid { variable, value, allowed } => {
            Error::setting(variable, value, SettingProblem::NotAllowed { allowed })
        }
        other => {
            let problem = SettingProblem::SoftPlugin(other.to_string());
            Error::setting("software plugin", "settings", problem)
        }
    };
    let mut settings = Settings::from_env_or(chunk_bytes).map_err(refuse)?;
    if settings.interfaces.is_none() {
        let all: Vec<String> = if_addrs::get_if_addrs()
            .unwrap_or_default()
            .into_iter()
            .filter(|interface| interface.ip().is_ipv4())
            .map(|interface| interface.name)
            .collect();
        // The sign makes the whole list one of exact names.
        settings.interfaces = Some(format!("={}", all.join(",")));
    }
    tcpx_softnet::configure(settings).map_err(refuse)
}
