//! `--isolate`: a plugin is opened in a process of its own first.
//!
//! The hardware plugin ends its process where a library would return an error, and an unknown
//! plugin may crash or never return. In a child process each of these has a result: exit status,
//! signal or deadline. Only a plugin that returned to the child, with success or an error, is then
//! opened here.

use std::path::Path;
use std::process::{Command, ExitCode};

use tcpx_core::{PluginChoice, Session, SessionOptions};

use crate::budget::Budget;
use crate::failure::Failure;
use crate::process::{ChildProcess, Log, die_with_parent};

/// The hidden command.
pub(crate) const COMMAND: &str = "open-plugin";
/// Exit status of a child in which the plugin returned. Not 0, which a plugin's own exit(0) would
/// give.
const RETURNED: u8 = 86;

/// Open a plugin, and exit with a status of its own when the call has returned.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct OpenPluginArgs {
    /// The plugin's file
    plugin: PluginChoice,

    /// CUDA ordinal of the session's GPU
    #[arg(long)]
    gpu: Option<u32>,

    /// Process that started this one; this one dies with it
    #[arg(long)]
    parent: u32,
}

/// Opens the plugin in the child. An error of the library is a result, too: the parent will get the
/// same.
pub(crate) fn run(args: &OpenPluginArgs) -> Result<ExitCode, Failure> {
    die_with_parent(args.parent)?;
    let mut options = SessionOptions::from_env()?;
    options.plugin = args.plugin.clone();
    options.gpu = args.gpu;
    if let Err(error) = Session::new(options) {
        tracing::info!(%error, "the session was not opened");
    }
    Ok(ExitCode::from(RETURNED))
}

/// Opens the plugin file `plugin` in a child process and waits for the end of that, which is one
/// step of the command.
pub(crate) fn try_plugin(plugin: &Path, gpu: Option<u32>, budget: Budget) -> Result<(), Failure> {
    let executable = std::env::current_exe().map_err(Failure::io("finding this executable"))?;
    let mut trial = ChildProcess::start(&mut child(&executable, plugin, gpu), Log::Hidden, budget)?;
    let shown = plugin.display();
    let waited = budget.step();
    let how = match trial.wait(waited)? {
        Some(status) if status.code() == Some(RETURNED.into()) => return Ok(()),
        Some(status) => format!("ended its process ({status}) while it was opened"),
        None => format!("was not opened within {waited}; its process was killed"),
    };
    let line = trial.last_line();
    let line = if line.is_empty() { "none".to_owned() } else { format!("\"{line}\"") };
    Err(Failure::PluginProcess(format!("plugin {shown} {how}; last line of its log: {line}")))
}

/// Returns the command of the process that opens the plugin for a session like ours.
fn child(executable: &Path, plugin: &Path, gpu: Option<u32>) -> Command {
    let mut command = Command::new(executable);
    command.args([COMMAND, "--parent", &std::process::id().to_string()]);
    if let Some(gpu) = gpu {
        command.args(["--gpu", &gpu.to_string()]);
    }
    command.arg("--").arg(plugin);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_child_opens_the_plugin_with_the_sessions_gpu() {
        let words = |gpu| {
            let command = child(Path::new("/bin/tcpx"), Path::new("/x.so"), gpu);
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            words.filter(|word| *word != std::process::id().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(words(None), [COMMAND, "--parent", "--", "/x.so"]);
        assert_eq!(words(Some(3)), [COMMAND, "--parent", "--gpu", "3", "--", "/x.so"]);
    }
}
