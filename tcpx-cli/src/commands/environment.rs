//! `tcpx env`: the plugin's variables as they are set here, or as they should be on an A3 High
//! host.

use std::process::ExitCode;

use serde_json::json;
use tcpx_diagnosis::variables::{profile_a3_high, render_profile};
use tcpx_doctor::environment::EnvLine;

use super::machine::{self, render_findings};
use crate::failure::Failure;
use crate::output::{print, print_json};

/// Show the hardware plugin's environment variables, or print a profile of them for a shell.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Profile {
    /// GCP A3 High: eight H100, four data NICs eth1 to eth4
    A3High,
}

/// Prints the variables or the profile.
pub(crate) fn run(args: &EnvArgs) -> Result<ExitCode, Failure> {
    match args.profile {
        Some(Profile::A3High) => print(render_profile(profile_a3_high()).trim_end())?,
        None => {
            let (lines, _) = machine::environment()?;
            match args.json {
                true => print_json(&json!({ "variables": lines }))?,
                false => print(&render(&lines))?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The variables and what is wrong with them; the exit status is that of the worst finding.
pub(crate) fn examine(json: bool) -> Result<ExitCode, Failure> {
    let (lines, report) = machine::environment()?;
    let exit_status = report.exit_status();
    match json {
        true => print_json(&json!({
            "variables": lines,
            "findings": report,
            "worst": report.worst(),
            "exit_status": exit_status,
        }))?,
        false => print(&format!("{}\n\n{}", render(&lines), render_findings(report.findings())))?,
    }
    Ok(ExitCode::from(exit_status))
}

fn render(lines: &[EnvLine]) -> String {
    lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
