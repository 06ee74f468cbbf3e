//! Decision whether the plugin may be loaded.

use std::path::Path;

use super::hardware::Hardware;
use super::plugin_file::{PluginKind, check_plugin_file};
use crate::machine::host::Host;
use crate::report::Report;

/// Checks everything whose failure would make the plugin at `plugin` exit, crash, hang or refuse to
/// start. The checks cover its file, the CUDA driver, GPUs, data NICs, the kernel's dialect, RxDM,
/// and the environment in `host.env`. That environment must be the one that the plugin will see,
/// with the settings that the caller is about to make.
///
/// `gpu` is the PCI address of the only GPU that will be used, `0000:04:00.0`; without it RxDM must
/// serve every GPU of the machine. The software plugin needs only a loadable file. Takes at most
/// `host.deadline` for each of RxDM's sockets and changes nothing.
///
/// # Errors
/// Returns the findings of severity [`FatalForPlugin`](crate::Severity::FatalForPlugin), at least
/// one.
pub fn preflight(plugin: &Path, gpu: Option<&str>, host: &Host<'_>) -> Result<(), Report> {
    let (kind, mut findings) = check_plugin_file(host, plugin);
    if kind != PluginKind::Software {
        findings.extend(Hardware::examine(host, gpu).findings);
    }
    let fatal = Report::new(findings).fatal();
    if fatal.findings().is_empty() {
        return Ok(());
    }
    for finding in fatal.findings() {
        tracing::error!(code = %finding.id, seen = %finding.seen, "the plugin cannot be loaded safely");
    }
    Err(fatal)
}
