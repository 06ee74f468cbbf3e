//! `tcpx doctor`: examination of this machine, with a command to type for each cure.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tcpx_core::{PluginChoice, SessionOptions};
use tcpx_diagnosis::pci::{Gpu, Nic};
use tcpx_diagnosis::variables::{Env, process_env};
use tcpx_diagnosis::{Finding, Host, Report};
use tcpx_doctor::{
    LiveKernel, NicCounters, check_device_memory, data_nic_names, examine, examine_environment,
    explain_auto_choice,
};

use super::bundle::{self, ExaminationResults};
use super::certificates;
use super::environment::{self, Profile};
use super::machine::{self, MinSeverity, render_findings};
use super::textfile;
use crate::failure::Failure;
use crate::input::plugin_name;
use crate::output::{print, print_json};
use crate::session::Transport;

/// Variable that names the plugin's data NICs.
const DATA_NICS: &str = "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME";

/// Examine this machine: plugin, CUDA, GPUs, NICs, kernel, RxDM, limits, environment, NIXL.
///
/// Each finding has a code (see `tcpx explain`), a severity, what was seen, why that matters, and
/// the cure as commands to type. Nothing is changed and the plugin is not loaded. With the software
/// plugin, what only the hardware plugin needs is information, which a text only counts. Exit
/// status: 0 nothing but information, 1 warning, 2 error, 3 fatal for the plugin: it would exit,
/// crash, hang or refuse to start; 64 wrong flags, 70 not examined for another reason, both with
/// nothing on stdout.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct DoctorArgs {
    /// Plugin to examine the machine for: auto, soft, devmem or the file of an ncclNet v7 plugin
    /// [env: TCPX_PLUGIN, UCCL_TCPX_PLUGIN_PATH] [default: auto]
    #[arg(long, value_parser = plugin_name, value_name = "auto|soft|devmem|PATH")]
    plugin: Option<PluginChoice>,

    /// Leave out findings about other GPUs than this one, counted from 0 in the order of `tcpx
    /// devices`
    #[arg(long, value_name = "N")]
    gpu: Option<usize>,

    /// Examine as if this were the only data NIC (NCCL_GPUDIRECTTCPX_SOCKET_IFNAME "=NAME")
    #[arg(long, value_name = "NAME")]
    nic: Option<String>,

    /// Also check whether this address can be reached: connect, and close at once
    #[arg(long, value_name = "ADDR:PORT")]
    peer: Option<String>,

    /// Also check whether the certificate (TCPX_TLS_CERT) is for this name: that of a session or of
    /// NIXL's agent
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Also watch the data NICs' counters for this many seconds, while a transfer runs: do packets
    /// reach device memory, do errors and drops grow?
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    watch: Option<u64>,

    /// Only look at environment variables, and show each
    #[arg(long, conflicts_with_all = ["gpu", "nic", "peer", "name", "watch"])]
    env: bool,

    /// Also compare the environment with the settings recommended for this kind of host
    #[arg(long, value_enum, value_name = "NAME")]
    profile: Option<Profile>,

    /// Leave out milder findings; a text names them in a line [default: warning, with --json info]
    #[arg(long, value_enum, value_name = "SEVERITY")]
    min_severity: Option<MinSeverity>,

    /// Also write the findings to this file as metrics, for node_exporter's textfile collector,
    /// which reads files named *.prom
    #[arg(long, value_name = "FILE", conflicts_with = "env")]
    textfile: Option<PathBuf>,

    /// Also write the facts that support needs into this file: findings, variables, devices, NIC
    /// counters, the kernel's log lines about drivers, settings of the system; values of variables
    /// that look like secrets are removed
    #[arg(long, value_name = "FILE.tar.gz", conflicts_with = "env")]
    bundle: Option<PathBuf>,

    /// Print one JSON object instead of a text
    #[arg(long)]
    json: bool,
}

/// Examines, and prints every finding.
pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let transport = Transport::of(args.plugin.as_ref())?;
    let default = if args.json { MinSeverity::Info } else { MinSeverity::Warning };
    let least = args.min_severity.unwrap_or(default);
    if args.env {
        let env = process_env();
        let report = examine_environment(transport.path(), &Host::this(&env));
        return environment::examine(&with_profile(report, args.profile, &env), args.json, least);
    }
    if let Some(nic) = &args.nic {
        check_nic(nic, &machine::nics()?)?;
    }
    let peer = args.peer.as_deref().map(resolve).transpose()?;
    let gpus = machine::gpus();
    let gpu = args.gpu.map(|wanted| choose(&gpus, wanted)).transpose()?;

    let env = with_data_nic(process_env(), args.nic.as_deref());
    let kernel = LiveKernel::default();
    let host = Host::this(&env);
    let mut report = examine(transport.path(), peer, &host, &kernel);
    if let Some(seconds) = args.watch {
        report = Report::new([report.findings(), &watch(&host, &kernel, seconds)].concat());
    }
    // Variables that cannot be read are findings already.
    if let Ok(options) = SessionOptions::from_env() {
        let found = certificates::check(&options, args.name.as_deref(), SystemTime::now());
        report = Report::new([report.findings(), found.as_slice()].concat());
    }
    if transport.plugin == PluginChoice::Devmem
        && let Some(finding) = check_device_memory(&data_nic_names(&host))
    {
        report = Report::new([report.findings(), &[finding]].concat());
    }
    if transport.is_left_open && !gpus.is_empty() {
        let finding = explain_auto_choice(&data_nic_names(&host));
        report = Report::new([report.findings(), &[finding]].concat());
    }
    report = with_profile(report, args.profile, &env);
    if let Some(gpu) = gpu {
        report = without_other_gpus(&report, gpu, &gpus);
    }
    if let Some(path) = &args.textfile {
        textfile::write(path, &report)?;
    }
    if let Some(path) = &args.bundle {
        let (nics, transport) = (data_nic_names(&host), &transport);
        let examined =
            ExaminationResults { transport, report: &report, kernel: &kernel, nics: &nics };
        bundle::write(path, &examined)?;
        let shown = path.display();
        // Stdout has the findings; stderr may have no reader.
        let _ = writeln!(std::io::stderr(), "{shown} is written; check it before you send it");
    }
    let exit_status = report.exit_status();
    match args.json {
        true => print_json(&json!({
            "transport": transport,
            "gpu": gpu.map(|gpu| &gpu.pci_bus_id),
            "nic": args.nic,
            "peer": peer,
            "findings": environment::shown(&report, least),
            "worst": report.worst(),
            "exit_status": exit_status,
        }))?,
        false => {
            let Transport { plugin, why, .. } = transport;
            print(&format!(
                "plugin {plugin} ({why})\n\n{}",
                render_findings(report.findings(), least)
            ))?;
        }
    }
    Ok(ExitCode::from(exit_status))
}

/// Returns the exit status of a failed examination, as in sysexits.h. An examination has 0 to 3.
pub(crate) fn not_examined(failure: &Failure) -> ExitCode {
    ExitCode::from(if matches!(failure, Failure::Usage(_)) { 64 } else { 70 })
}

/// Returns findings from the counters of the data NICs after `seconds` seconds.
fn watch(host: &Host<'_>, kernel: &LiveKernel, seconds: u64) -> Vec<Finding> {
    let nics = data_nic_names(host);
    let read = || NicCounters::read(kernel, nics.iter().map(String::as_str));
    let before = read();
    std::thread::sleep(Duration::from_secs(seconds));
    read().check_since(&before)
}

fn resolve(peer: &str) -> Result<SocketAddr, Failure> {
    let unusable = |reason: &str| {
        Failure::Usage(format!("--peer {peer}: {reason}; give an address and a port, ADDR:PORT"))
    };
    let mut addresses = peer.to_socket_addrs().map_err(|error| unusable(&error.to_string()))?;
    addresses.next().ok_or_else(|| unusable("the name has no address"))
}

/// Returns the GPU with this number.
fn choose(gpus: &[Gpu], wanted: usize) -> Result<&Gpu, Failure> {
    gpus.get(wanted).ok_or_else(|| {
        let there = match gpus.len() {
            0 => "this machine has no GPU; leave the flag out".to_owned(),
            count => format!("this machine has GPUs 0 to {}", count - 1),
        };
        Failure::Usage(format!("--gpu {wanted}: {there}"))
    })
}

/// Refuses a NIC that does not exist: there would be no findings about it.
fn check_nic(wanted: &str, nics: &[Nic]) -> Result<(), Failure> {
    if nics.iter().any(|nic| nic.name == wanted) {
        return Ok(());
    }
    let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
    Err(Failure::Usage(format!("--nic {wanted}: this machine has {}", names.join(", "))))
}

fn with_profile(report: Report, profile: Option<Profile>, env: &Env) -> Report {
    let differences = profile.map(|profile| profile.compare(env)).unwrap_or_default();
    Report::new([report.findings(), &differences].concat())
}

/// Returns the environment with which the plugin would use `nic` alone. The sign `=` stands for the
/// exact name.
fn with_data_nic(mut env: Env, nic: Option<&str>) -> Env {
    if let Some(nic) = nic {
        env.insert(DATA_NICS.to_owned(), format!("={nic}"));
    }
    env
}

/// Leaves out findings that are about other GPUs than `gpu` alone. A finding names a GPU by its PCI
/// address.
fn without_other_gpus(report: &Report, gpu: &Gpu, gpus: &[Gpu]) -> Report {
    let is_about =
        |finding: &Finding, gpu: &Gpu| finding.seen.to_ascii_lowercase().contains(&gpu.pci_bus_id);
    let kept = report.findings().iter().filter(|finding| {
        is_about(finding, gpu) || !gpus.iter().any(|other| is_about(finding, other))
    });
    Report::new(kept.cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpx_diagnosis::table::daemon::RXDM_SOCKET_MISSING;

    fn gpu(pci_bus_id: &str) -> Gpu {
        Gpu {
            pci_bus_id: pci_bus_id.to_owned(),
            pci_path: None,
            numa: None,
            has_driver: true,
            model: None,
        }
    }

    fn finding(seen: &str) -> Finding {
        Finding::new(&RXDM_SOCKET_MISSING, seen)
    }

    #[test]
    fn findings_about_a_gpu_and_about_no_gpu_are_shown() {
        let gpus = [gpu("0000:04:00.0"), gpu("0000:05:00.0")];
        let seen = [
            "/run/tcpx/get_gpu_fd_by_rxmem_0000:04:00.0 does not exist",
            "/run/tcpx/get_gpu_fd_by_rxmem_0000:05:00.0 does not exist",
            "eth1 is down",
            "0000:04:00.0 and 0000:05:00.0 share a NIC",
        ];
        let report = Report::new(seen.iter().map(|seen| finding(seen)).collect());
        let kept = without_other_gpus(&report, &gpus[1], &gpus);
        let kept: Vec<&str> = kept.findings().iter().map(|finding| finding.seen.as_str()).collect();
        assert_eq!(kept, [seen[1], seen[2], seen[3]]);
    }

    #[test]
    fn an_absent_gpu_is_refused_with_the_present_ones() {
        let gpus = [gpu("0000:04:00.0"), gpu("0000:05:00.0")];
        assert_eq!(choose(&gpus, 1).unwrap(), &gpus[1]);
        let error = choose(&gpus, 2).unwrap_err().to_string();
        assert!(error.contains("--gpu 2") && error.contains("0 to 1"), "{error}");
        assert!(choose(&[], 0).unwrap_err().to_string().contains("has no GPU"));
    }

    #[test]
    fn a_nic_is_selected_by_its_exact_name() {
        let env = with_data_nic(Env::new(), Some("eth1"));
        assert_eq!(env[DATA_NICS], "=eth1");
        assert!(with_data_nic(Env::new(), None).is_empty());
    }

    #[test]
    fn a_peer_needs_a_port() {
        assert_eq!(resolve("10.0.0.1:12345").unwrap(), "10.0.0.1:12345".parse().unwrap());
        let error = resolve("10.0.0.1").unwrap_err().to_string();
        assert!(error.contains("--peer 10.0.0.1") && error.contains("ADDR:PORT"), "{error}");
    }
}
