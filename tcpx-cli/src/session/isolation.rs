//! `--isolate`: a plugin is opened in a process of its own first.
//!
//! The hardware plugin ends its process where a library would return an error, and an unknown one may crash or never
//! return. In a child process that is an answer: exit status, signal or deadline. Only a plugin that gave the child an
//! answer, good or bad, is then opened here.

use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};
use tcpx_core::{PluginChoice, Session, SessionOptions};

use crate::bootstrap;
use crate::failure::{Failure, one_line};
use crate::pair;

/// The hidden command.
pub(crate) const COMMAND: &str = "open-plugin";
/// Exit status of a child in which opening came to an end. Not 0, which a plugin's own exit(0) would give.
const ANSWERED: u8 = 86;
/// How much of the child's log is kept, in bytes.
const LOG_BYTES: usize = 4096;
/// How long the log of a child that has ended may take; it ends with the process unless that left one behind.
const LOG_GRACE: Duration = Duration::from_secs(1);

/// Open a plugin and say by the exit status that this came to an end.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct OpenPluginArgs {
    /// The plugin's file
    plugin: PluginChoice,

    /// CUDA ordinal of the session's GPU
    #[arg(long)]
    gpu: Option<u32>,

    /// Process that started this one and must not be outlived
    #[arg(long)]
    parent: u32,
}

/// In the child: opens the plugin. An error of the library is an answer too; the parent will get the same.
pub(crate) fn run(args: &OpenPluginArgs) -> Result<ExitCode, Failure> {
    pair::live_with(args.parent)?;
    let defaults = SessionOptions::from_env()?;
    let options = SessionOptions { plugin: args.plugin.clone(), gpu: args.gpu, ..defaults };
    if let Err(error) = Session::new(options) {
        tracing::info!(%error, "the session was not opened");
    }
    Ok(ExitCode::from(ANSWERED))
}

/// Opens the plugin file `plugin` in a child process and waits at most `limit` for that to come to an end.
pub(crate) fn try_plugin(plugin: &Path, gpu: Option<u32>, limit: Duration) -> Result<(), Failure> {
    let executable = std::env::current_exe().map_err(Failure::io("finding this executable"))?;
    let mut trial = Trial::start(child(&executable, plugin, gpu))?;
    let shown = plugin.display();
    let how = match trial.end(limit)? {
        Some(status) if status.code() == Some(ANSWERED.into()) => return Ok(()),
        Some(status) => format!("ended its process ({status}) while it was opened"),
        None => format!(
            "was not opened within {} s (--timeout); its process was killed",
            limit.as_secs_f64()
        ),
    };
    let words = trial.last_words();
    let words = if words.is_empty() { "nothing".to_owned() } else { format!("\"{words}\"") };
    Err(Failure::PluginProcess(format!("plugin {shown} {how}; the last it said: {words}")))
}

/// This program as the process that opens the plugin for a session like ours.
fn child(executable: &Path, plugin: &Path, gpu: Option<u32>) -> Command {
    let mut command = Command::new(executable);
    command.args([COMMAND, "--parent", &std::process::id().to_string()]);
    if let Some(gpu) = gpu {
        command.args(["--gpu", &gpu.to_string()]);
    }
    command.arg("--").arg(plugin);
    command
}

/// A running child.
struct Trial {
    process: Child,
    log: Option<Receiver<Vec<u8>>>,
}

impl Trial {
    fn start(mut command: Command) -> Result<Self, Failure> {
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Failure::io("starting a process for the plugin"))?;
        let log = process.stderr.take().map(|stderr| {
            let (keep, kept) = channel();
            // Nobody waits for it after an answer.
            std::thread::spawn(move || keep.send(tail(stderr)).ok());
            kept
        });
        Ok(Self { process, log })
    }

    /// How the child ended, `None` when it had to be killed because it did not.
    fn end(&mut self, limit: Duration) -> Result<Option<ExitStatus>, Failure> {
        let pidfd =
            rustix::process::pidfd_open(Pid::from_child(&self.process), PidfdFlags::empty())
                .map_err(|error| Failure::io("watching the plugin's process")(error.into()))?;
        let mut ended = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
        let has_ended = bootstrap::wait(&mut ended, Instant::now() + limit)
            .map_err(Failure::io("waiting for the plugin's process"))?;
        if !has_ended {
            self.kill();
            return Ok(None);
        }
        self.process.wait().map(Some).map_err(Failure::io("waiting for the plugin's process"))
    }

    /// The last line of the child's log.
    fn last_words(&mut self) -> String {
        let log = self.log.take().and_then(|log| log.recv_timeout(LOG_GRACE).ok());
        let text = String::from_utf8_lossy(&log.unwrap_or_default()).into_owned();
        text.lines().map(one_line).rfind(|line| !line.is_empty()).unwrap_or_default()
    }

    fn kill(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads everything, so that the child is never held up, and keeps the end.
fn tail(mut stderr: ChildStderr) -> Vec<u8> {
    let mut kept = VecDeque::new();
    let mut buffer = [0; LOG_BYTES];
    while let Ok(bytes @ 1..) = stderr.read(&mut buffer) {
        kept.extend(&buffer[..bytes]);
        kept.drain(..kept.len().saturating_sub(LOG_BYTES));
    }
    kept.into()
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
