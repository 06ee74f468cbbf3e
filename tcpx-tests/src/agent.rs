//! A test's handle on a scripted peer process.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command as Process, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tcpx_testkit::PATIENCE;

use crate::built::built;
use crate::script::{Command, Failure};

/// The plugin of a peer that its script gives none: a file, and without it the built-in software
/// plugin.
pub const PLUGIN: &str = "TCPX_PEER_PLUGIN";
/// What scripts a double of the software plugin.
const SCRIPTS: [&str; 5] = [
    "TCPX_SOFT_SHAPE",
    "TCPX_SOFT_SEED",
    "TCPX_SOFT_FAULTS",
    "TCPX_SOFT_ORIGINAL",
    "TCPX_SOFT_PACKET_BYTES",
];

/// What a peer answers to a command.
pub type Reply = Result<Value, Refusal>;

/// Why there is no good answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The command failed.
    Failed(Failure),
    /// The process ended.
    Ended,
    /// No answer came in time.
    Silent,
}

impl Refusal {
    /// The failure, of a peer that answered.
    ///
    /// # Panics
    /// When it did not.
    #[must_use]
    pub fn failure(self) -> Failure {
        match self {
            Self::Failed(failure) => failure,
            other => panic!("the peer did not answer: {other:?}"),
        }
    }
}

/// A scripted peer process. Killed when dropped.
#[derive(Debug)]
pub struct Agent {
    process: Child,
    input: Option<ChildStdin>,
    replies: Receiver<Result<Value, Failure>>,
}

impl Agent {
    /// Starts the peer program at `program`, a path that only cargo knows in tests.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(program: impl AsRef<OsStr>) -> Self {
        Self::start_with(Process::new(program))
    }

    /// Starts it inside a network namespace.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start_in(namespace: &str, program: &Path) -> Self {
        let mut process = Process::new("ip");
        process.args(["netns", "exec", namespace]).arg(program);
        Self::start_with(process)
    }

    /// Starts a process prepared by the caller. With a script of what goes wrong in its environment
    /// it has the plugin that takes such scripts.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start_with(mut process: Process) -> Self {
        let is_script = |name: &OsStr| SCRIPTS.iter().any(|script| name == *script);
        let has_value = |value: Option<&OsStr>| value.is_some_and(|value| !value.is_empty());
        if process.get_envs().any(|(name, value)| is_script(name) && has_value(value)) {
            process.env(PLUGIN, built("libnccl_net_tcpx_faulty.so"));
        }
        let mut process = process
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("starting {process:?}: {error}"));
        let output = process.stdout.take().expect("stdout is piped");
        let input = process.stdin.take();
        Self { process, input, replies: read_replies(output) }
    }

    /// Gives a command without waiting for its answer.
    ///
    /// # Panics
    /// When the command cannot be written as JSON, which no command is.
    pub fn send_command(&mut self, command: Command) {
        let line = serde_json::to_string(&command).expect("commands are plain data");
        if let Some(input) = &mut self.input {
            // A peer that has ended shows in the answer.
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
    }

    /// Waits for the answer to the oldest command without one.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn receive_reply(&mut self, timeout: Duration) -> Reply {
        match self.replies.recv_timeout(timeout) {
            Ok(reply) => reply.map_err(Refusal::Failed),
            Err(RecvTimeoutError::Disconnected) => Err(Refusal::Ended),
            Err(RecvTimeoutError::Timeout) => Err(Refusal::Silent),
        }
    }

    /// Gives a command and waits, for longer than any deadline of the peer's own.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn ask(&mut self, command: Command) -> Reply {
        self.send_command(command);
        self.receive_reply(PATIENCE)
    }

    /// Gives a command again and again, with progress in between, until it fails, as it must before
    /// long.
    ///
    /// # Panics
    /// When it does not.
    pub fn first_refusal(&mut self, command: &Command) -> Failure {
        let give_up_at = Instant::now() + PATIENCE;
        loop {
            match self.ask(command.clone()) {
                Ok(_) => assert!(Instant::now() < give_up_at, "{command:?} goes on to succeed"),
                Err(refusal) => return refusal.failure(),
            }
            self.run(Command::Progress { time_ms: 1 });
        }
    }

    /// Gives a command that must succeed and reads its answer.
    ///
    /// # Panics
    /// When it fails or answers something else.
    pub fn get<T: DeserializeOwned>(&mut self, command: Command) -> T {
        let words = format!("{command:?}");
        let reply = self.ask(command).unwrap_or_else(|refusal| panic!("{words}: {refusal:?}"));
        serde_json::from_value(reply).unwrap_or_else(|error| panic!("{words}: {error}"))
    }

    /// Gives a command that must succeed.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&mut self, command: Command) {
        let words = format!("{command:?}");
        if let Err(refusal) = self.ask(command) {
            panic!("{words}: {refusal:?}");
        }
    }

    /// Sends a signal to the process.
    ///
    /// # Panics
    /// When the process is gone.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw)
            .expect("a process has a number");
        kill_process(pid, signal).expect("the process exists until it is waited for");
    }

    /// Waits until the process has been stopped by a signal. False when that did not happen in
    /// time.
    ///
    /// # Panics
    /// When the process is gone.
    #[must_use]
    pub fn wait_until_stopped(&self, timeout: Duration) -> bool {
        let give_up_at = Instant::now() + timeout;
        loop {
            if self.stat().first().is_some_and(|state| state == "T") {
                return true;
            }
            if Instant::now() >= give_up_at {
                return false;
            }
            thread::yield_now();
        }
    }

    /// Processor time that all threads of the process have used so far.
    ///
    /// # Panics
    /// When the process is gone.
    #[must_use]
    pub fn processor_time(&self) -> Duration {
        // Behind the state stand ten other numbers.
        let ticks = self.stat()[11..13]
            .iter()
            .map(|ticks| ticks.parse::<u64>().expect("the system counts ticks"))
            .sum::<u64>();
        Duration::from_secs(1) * ticks as u32 / clock_ticks_per_second() as u32
    }

    /// What the system says of the process, from its state on.
    fn stat(&self) -> Vec<String> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))
            .expect("the process exists until it is waited for");
        // The name before it is in parentheses and may itself contain some.
        let rest = stat.rsplit(") ").next().unwrap_or_default();
        rest.split_whitespace().map(str::to_owned).collect()
    }

    /// Waits until the process has ended by itself, whatever it still answers. False when it did
    /// not in time.
    #[must_use]
    pub fn wait_until_ended(&mut self, timeout: Duration) -> bool {
        loop {
            match self.receive_reply(timeout) {
                Err(Refusal::Ended) => return true,
                Err(Refusal::Silent) => return false,
                Ok(_) | Err(Refusal::Failed(_)) => {}
            }
        }
    }

    /// Gives no more commands, and waits until the process has ended by itself. `None` when it did
    /// not in time.
    ///
    /// # Panics
    /// When the system does not tell.
    #[must_use]
    pub fn end(&mut self, timeout: Duration) -> Option<ExitStatus> {
        self.input = None;
        let has_ended = self.wait_until_ended(timeout);
        has_ended.then(|| self.process.wait().expect("it is a child of this process"))
    }

    /// Kills the process, as the system would.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.input = None;
        self.kill();
    }
}

fn read_replies(output: ChildStdout) -> Receiver<Result<Value, Failure>> {
    let (sender, replies) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let Ok(reply) = serde_json::from_str(&line) else { break };
            if sender.send(reply).is_err() {
                break;
            }
        }
    });
    replies
}
