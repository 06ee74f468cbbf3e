//! Bundle of the facts about this machine that support needs, in one file without secrets.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use tcpx_diagnosis::Report;
use tcpx_diagnosis::variables::Env;
use tcpx_doctor::{Kernel, LiveKernel, render_devices};

use super::machine::{self, MinSeverity, render_findings};
use crate::failure::Failure;
use crate::output::archive::Archive;
use crate::session::Transport;

/// Files of the system that describe its configuration, without texts of users.
const FILES: &[&str] = &[
    "/etc/os-release",
    "/proc/version",
    "/proc/meminfo",
    "/proc/self/limits",
    "/proc/net/dev",
    "/proc/net/route",
    "/proc/net/snmp",
    "/proc/net/netstat",
    "/proc/net/sockstat",
    "/proc/driver/nvidia/version",
    "/proc/sys/net/core/optmem_max",
    "/proc/sys/net/core/rmem_max",
    "/proc/sys/net/core/wmem_max",
    "/proc/sys/net/core/somaxconn",
    "/proc/sys/net/ipv4/tcp_rmem",
    "/proc/sys/net/ipv4/tcp_wmem",
    "/proc/sys/net/ipv4/tcp_congestion_control",
    "/proc/sys/net/ipv4/ip_local_port_range",
];
/// Words in kernel log lines about drivers; NICs' names are added.
const WORDS: &[&str] = &["NVRM", "nvidia", "gve", "devmem", "dma-buf", "dma_buf", "TCP: "];
/// Parts of the names of variables that hold a secret.
const SECRET_NAMES: &[&str] = &["TOKEN", "SECRET", "PASSW", "KEY", "CREDENTIAL", "AUTH"];
/// Least length of a secret that is removed: shorter values occur in any text.
const SHORTEST_SECRET: usize = 6;
const REMOVED: &str = "(removed)";

/// Results of the examination.
pub(super) struct ExaminationResults<'a> {
    pub(super) transport: &'a Transport,
    pub(super) report: &'a Report,
    pub(super) kernel: &'a LiveKernel,
    /// The data NICs.
    pub(super) nics: &'a [String],
}

/// Writes the bundle to a new file.
pub(super) fn write(path: &Path, examined: &ExaminationResults<'_>) -> Result<(), Failure> {
    let shown = path.display();
    let unusable = |error: std::io::Error| {
        Failure::Usage(format!("--bundle {shown}: {error}; name a file that does not exist yet"))
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let secrets = secrets(std::env::vars_os().map(|(name, value)| {
        (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
    }));
    let mut archive = Archive::default();
    for (name, text) in texts(examined, now)? {
        let text = without_secrets(text, &secrets);
        archive.add(&format!("tcpx-bundle/{name}"), text.as_bytes(), now);
    }
    let mut file = fs::File::create_new(path).map_err(unusable)?;
    std::io::Write::write_all(&mut file, &archive.into_gzip()).map_err(|error| {
        // A partial file would look like a complete one.
        let _ = fs::remove_file(path);
        unusable(error)
    })
}

/// Returns the names and contents of the files in the bundle.
fn texts(examined: &ExaminationResults<'_>, now: u64) -> Result<Vec<(String, String)>, Failure> {
    let ExaminationResults { transport, report, kernel, nics } = examined;
    let tool = json!({
        "tcpx": env!("CARGO_PKG_VERSION"),
        "unix_time": now,
        "transport": transport,
        "data_nics": nics,
    });
    let findings = json!({ "findings": report.findings(), "exit_status": report.exit_status() });
    let environment = machine::environment()?.into_iter().map(|mut line| {
        if is_secret(&line.name) && line.value.is_some() {
            line.value = Some(REMOVED.into());
        }
        line.to_string()
    });
    let mut texts = vec![
        ("tool.json".to_owned(), tool.to_string()),
        ("doctor.txt".to_owned(), render_findings(report.findings(), MinSeverity::Info)),
        ("doctor.json".to_owned(), findings.to_string()),
        ("environment.txt".to_owned(), environment.collect::<Vec<_>>().join("\n")),
        ("devices.txt".to_owned(), render_devices(&machine::gpus(), &machine::nics()?)),
        ("kernel.log".to_owned(), kernel_log(kernel, nics)),
    ];
    texts.extend(nics.iter().map(|nic| {
        let counters = kernel.statistics(nic);
        let text = counters.map_or_else(
            |error| format!("no counters: {error}"),
            |counters| {
                let lines = counters.iter().map(|(name, value)| format!("{name} {value}"));
                lines.collect::<Vec<_>>().join("\n")
            },
        );
        (format!("counters/{nic}.txt"), text)
    }));
    texts.extend(FILES.iter().map(|file| {
        let text = fs::read_to_string(file).unwrap_or_else(|error| format!("not read: {error}"));
        (format!("system{file}"), text)
    }));
    texts.iter_mut().for_each(|(_, text)| text.push('\n'));
    Ok(texts)
}

/// Returns the kernel's log lines about drivers and data NICs.
fn kernel_log(kernel: &LiveKernel, nics: &[String]) -> String {
    let lines = match kernel.log() {
        Ok(lines) => lines,
        Err(error) => return format!("not read: {error}"),
    };
    let is_meant = |text: &str| {
        WORDS.iter().any(|word| text.contains(word)) || nics.iter().any(|nic| text.contains(nic))
    };
    let lines = lines.iter().filter(|line| is_meant(&line.text));
    let lines =
        lines.map(|line| format!("<{}> {} s ago: {}", line.level, line.age.as_secs(), line.text));
    lines.collect::<Vec<_>>().join("\n")
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// Returns values that must not leave this machine, the longest first.
fn secrets(variables: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let env: Env = variables.filter(|(name, _)| is_secret(name)).collect();
    let mut values: Vec<String> = env.into_values().collect();
    values.retain(|value| value.len() >= SHORTEST_SECRET);
    // The value as JSON escapes it.
    let escaped: Vec<String> = values.iter().map(|value| json!(value).to_string()).collect();
    values.extend(escaped.iter().map(|it| it[1..it.len() - 1].to_owned()));
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    values
}

fn without_secrets(text: String, secrets: &[String]) -> String {
    secrets.iter().fold(text, |text, secret| text.replace(secret, REMOVED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_variables_are_removed_from_every_text() {
        let variables = [
            ("HF_TOKEN", "hf_abcdef"),
            ("MY_api_key", "hf_abcdef-and-more"),
            ("SHORT_KEY", "on"),
            ("PASSWORD", "back\\slash"),
            ("NCCL_DEBUG", "INFORMATION"),
        ];
        let secrets = secrets(variables.map(|(a, b)| (a.to_owned(), b.to_owned())).into_iter());
        let text = "a hf_abcdef b hf_abcdef-and-more c on INFORMATION back\\slash back\\\\slash";
        let expected = "a (removed) b (removed) c on INFORMATION (removed) (removed)";
        assert_eq!(without_secrets(text.into(), &secrets), expected);
    }
}
