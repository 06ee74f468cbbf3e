#![allow(unsafe_code)]
//! Process of an agent, as its check sees it: started, called, and killed when dropped.
//!
//! § is a section of docs/plugin-contract.md.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command as Program, ExitStatus, Stdio};
use std::time::Instant;

use serde::de::DeserializeOwned;

use crate::harness::check_result::{CheckResult, EarlyEnd, fail};
use crate::link::command::{Command, Reply};
use crate::link::socket::{LINK_VARIABLE, Link};
use crate::link::values::AgentSetup;
use crate::options::{Options, PluginSource};

/// Bytes of an agent's output that are searched for its last line.
const OUTPUT_TAIL_BYTES: usize = 4096;
/// Longest line of an agent's output that a report repeats.
const LOG_LINE_CHARS: usize = 240;

/// Chunk size for callers that have not set it: without it the plugin transfers nothing (§3.3).
const CHUNK_VARIABLE: (&str, &str) = ("NCCL_DYNAMIC_CHUNK_SIZE", "524288");
/// Interface of the software plugin: the one that every machine has.
const INTERFACE_VARIABLE: (&str, &str) = ("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "lo");

/// An agent and the link to it.
#[derive(Debug)]
pub(crate) struct AgentProcess {
    running: RefCell<RunningAgent>,
    /// Deadline of calls.
    deadline: Instant,
}

/// The process itself, with its link and its output.
#[derive(Debug)]
struct RunningAgent {
    child: Child,
    link: Link,
    output: File,
    /// Exit status in words, once the process has ended.
    ended: Option<String>,
}

impl AgentProcess {
    /// Starts an agent that will hold `gpu` and load the plugin of `options`. `index`: how many
    /// agents of the check were started before it.
    pub(crate) fn start(
        options: &Options,
        gpu: Option<u32>,
        environment: &[(&str, &str)],
        index: usize,
        deadline: Instant,
    ) -> CheckResult<Self> {
        let started = RunningAgent::start(options, gpu, environment, index, deadline);
        let running = started.map_err(|error| fail("an agent starts", error.to_string()))?;
        Ok(Self { running: RefCell::new(running), deadline })
    }

    /// Sends one command and waits for its reply.
    pub(crate) fn call<T: DeserializeOwned>(&self, command: &Command) -> CheckResult<T> {
        self.begin(command)?;
        self.finish(command.name())
    }

    /// Sends a command whose reply [`finish`](Self::finish) will receive, so that two agents can
    /// work at once.
    pub(crate) fn begin(&self, command: &Command) -> CheckResult {
        let mut running = self.running.borrow_mut();
        let sent = running.link.send(command, Some(self.deadline));
        sent.map_err(|error| running.lost(command.name(), &error))
    }

    /// Waits for the reply to the last command, whose name is `call`.
    pub(crate) fn finish<T: DeserializeOwned>(&self, call: &'static str) -> CheckResult<T> {
        let mut running = self.running.borrow_mut();
        match running.link.receive::<Reply<T>>(Some(self.deadline)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(reason)) => Err(fail("the agent can execute the command", reason)),
            Err(error) => Err(running.lost(call, &error)),
        }
    }

    /// Returns the last line that the agent wrote, which is usually the plugin's last warning.
    pub(crate) fn last_log_line(&self) -> Option<String> {
        self.running.borrow().last_log_line()
    }

    /// Kills the process with SIGKILL and waits for its end.
    pub(crate) fn kill(&self) {
        self.running.borrow_mut().end();
    }
}

impl RunningAgent {
    /// Starts the process and sends it the setup.
    fn start(
        options: &Options,
        gpu: Option<u32>,
        environment: &[(&str, &str)],
        index: usize,
        deadline: Instant,
    ) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        let output = tempfile::tempfile()?;
        let mut program = Program::new(match &options.program {
            Some(program) => program.clone(),
            // Not the path: the file may have been replaced since.
            None => PathBuf::from("/proc/self/exe"),
        });
        program.args(&options.arguments).stdin(Stdio::null());
        program.stdout(output.try_clone()?).stderr(output.try_clone()?).process_group(0);
        let namespace = options.namespaces.get(index % options.namespaces.len().max(1));
        let namespace = namespace.map(File::open).transpose()?;
        for (name, value) in default_environment(options) {
            if std::env::var_os(name).is_none_or(|value| value.is_empty()) {
                program.env(name, value);
            }
        }
        program.envs(options.environment.iter().map(|(name, value)| (name, value)));
        program.envs(environment.iter().copied());
        configure_child(&mut program, theirs.as_raw_fd(), namespace);
        let child = program.spawn()?;
        drop(theirs);
        let mut running = Self { child, link: Link::new(ours), output, ended: None };
        let setup = AgentSetup { target: options.target.clone(), gpu };
        running.link.send(&setup, Some(deadline))?;
        Ok(running)
    }

    /// Kills the process after an error of the link, and returns how the check ends.
    fn lost(&mut self, call: &'static str, error: &io::Error) -> EarlyEnd {
        if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) {
            self.end();
            return EarlyEnd::Hung { call };
        }
        self.end();
        let how = self.ended.clone().unwrap_or_else(|| error.to_string());
        EarlyEnd::Died { call, how }
    }

    /// Ends the process and all that it started. A process that was ending already keeps its own
    /// status.
    fn end(&mut self) {
        if self.ended.is_some() {
            return;
        }
        // The agent leads a group of its own, and is not reaped yet, so the number is still its
        // own. SAFETY: kill touches no memory.
        unsafe { libc::kill(-self.child.id().cast_signed(), libc::SIGKILL) };
        let how = match self.child.wait() {
            Ok(status) => describe_exit(status),
            Err(error) => error.to_string(),
        };
        self.ended = Some(match self.last_log_line() {
            Some(line) => format!("{how}; its last line: {line}"),
            None => how,
        });
    }

    /// Returns the last line of the agent's output.
    fn last_log_line(&self) -> Option<String> {
        let length = self.output.metadata().ok()?.len();
        let mut tail = vec![0; OUTPUT_TAIL_BYTES];
        // At an offset, since the agent continues to write at the file's own.
        let read =
            self.output.read_at(&mut tail, length.saturating_sub(OUTPUT_TAIL_BYTES as u64)).ok()?;
        tail.truncate(read);
        let text = String::from_utf8_lossy(&tail);
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(line.chars().take(LOG_LINE_CHARS).collect())
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the variables that are set unless the caller has set them.
fn default_environment(options: &Options) -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_on_one_host = options.namespaces.is_empty();
    let is_ours = matches!(options.target, PluginSource::Table);
    let interface = (is_ours && is_on_one_host).then_some(INTERFACE_VARIABLE);
    [CHUNK_VARIABLE].into_iter().chain(interface)
}

/// Has the program keep the link, die with its parent, write no core file, and enter a network
/// namespace.
fn configure_child(program: &mut Program, link: i32, namespace: Option<File>) {
    program.env(LINK_VARIABLE, link.to_string());
    // SAFETY: between fork and exec only async-signal-safe calls are made: fcntl, prctl, setrlimit,
    // setns; nothing allocates.
    unsafe {
        program.pre_exec(move || {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            if libc::fcntl(link, libc::F_SETFD, 0) < 0
                || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0
                || libc::setrlimit(libc::RLIMIT_CORE, &raw const none) < 0
                || namespace
                    .as_ref()
                    .is_some_and(|file| libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) < 0)
            {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

/// Formats the end of a process.
fn describe_exit(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let name = match signal {
                libc::SIGABRT => " (SIGABRT)",
                libc::SIGBUS => " (SIGBUS)",
                libc::SIGFPE => " (SIGFPE)",
                libc::SIGKILL => " (SIGKILL)",
                libc::SIGPIPE => " (SIGPIPE)",
                libc::SIGSEGV => " (SIGSEGV)",
                _ => "",
            };
            format!("the process was killed by signal {signal}{name}")
        }
        (None, Some(code)) => format!("the process exited with status {code}"),
        (None, None) => "the process ended".to_owned(),
    }
}
