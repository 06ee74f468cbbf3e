//! `tcpx env`: the plugin's variables, with their values here, or as a profile of an A3 High host.

use std::process::ExitCode;

use serde_json::json;
use tcpx_diagnosis::variables::{
    Env, compare_with_profile, lint_algorithms, profile_a3_high, render_profile,
};
use tcpx_diagnosis::{Finding, Report};
use tcpx_doctor::environment::{EnvLine, nccl_version};

use super::machine::{self, MinSeverity, render_findings};
use crate::failure::Failure;
use crate::output::{print, print_json};

/// Show the environment variables of the hardware plugin and of this library, or print a profile.
///
/// Without flags: one line for each known variable with state, value and meaning, then unknown ones
/// that look like it. `tcpx doctor --env` says what is wrong with them, too. To set a profile: eval
/// "$(tcpx env --profile a3-high)".
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct EnvArgs {
    /// Print the settings recommended for this kind of host, to be sourced by a shell
    #[arg(long, value_enum, value_name = "NAME")]
    profile: Option<Profile>,

    /// Print one JSON object instead of a text
    #[arg(long, conflicts_with = "profile")]
    json: bool,
}

/// A kind of host for which settings are recommended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Profile {
    /// GCP A3 High: eight H100, four data NICs eth1 to eth4
    A3High,
}

/// Prints the variables or the profile.
pub(crate) fn run(args: &EnvArgs) -> Result<ExitCode, Failure> {
    match args.profile {
        Some(Profile::A3High) => print(render_profile(profile_a3_high()).trim_end())?,
        None => {
            let lines = machine::environment()?;
            match args.json {
                true => print_json(&json!({ "variables": lines }))?,
                false => print(&render(&lines))?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Profile {
    /// Returns the differences of the environment from the profile.
    pub(crate) fn compare(self, env: &Env) -> Vec<Finding> {
        match self {
            Self::A3High => {
                let unsafe_with = |nccl| lint_algorithms(env, nccl);
                let mut findings = compare_with_profile(env, profile_a3_high());
                findings.extend(nccl_version(env).and_then(unsafe_with));
                findings
            }
        }
    }
}

/// Prints the variables and the findings about them. Returns the exit status of the worst finding.
pub(crate) fn examine(
    report: &Report,
    json: bool,
    least: MinSeverity,
) -> Result<ExitCode, Failure> {
    let lines = machine::environment()?;
    let exit_status = report.exit_status();
    match json {
        true => print_json(&json!({
            "variables": lines,
            "findings": shown(report, least),
            "worst": report.worst(),
            "exit_status": exit_status,
        }))?,
        false => {
            let findings = render_findings(report.findings(), least);
            print(&format!("{}\n\n{findings}", render(&lines)))?;
        }
    }
    Ok(ExitCode::from(exit_status))
}

/// Returns the findings of a report that have at least this severity.
pub(crate) fn shown(report: &Report, least: MinSeverity) -> Vec<&Finding> {
    report.findings().iter().filter(|finding| least.shows(finding)).collect()
}

fn render(lines: &[EnvLine]) -> String {
    lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
