//! The built command as a process: started with a clean environment, never waited for without a
//! deadline.

pub(crate) mod between;
pub(crate) mod schema;

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Pid;
pub(crate) use rustix::process::Signal;

/// No run of these tests is meant to take nearly as long.
const DEADLINE: Duration = Duration::from_secs(120);
const EXECUTABLE: &str = env!("CARGO_BIN_EXE_tcpx");
/// Variable of every process that a test starts, and of what those start: the test's process id.
const STARTED_BY: &str = "STARTED_BY_TEST";

/// A command line to run.
pub(crate) struct Tcpx {
    command: Command,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// `None`: by a signal.
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "status {:?}\n--- stdout\n{}--- stderr\n{}",
            self.status, self.stdout, self.stderr
        )
    }
}

impl Finished {
    /// The one JSON object on stdout of a run that went well.
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.status, Some(0), "{self}");
        let mut objects = serde_json::Deserializer::from_str(&self.stdout).into_iter();
        let object: serde_json::Value = objects.next().unwrap().unwrap();
        assert!(object.is_object() && objects.next().is_none(), "{self}");
        object
    }
}

impl Tcpx {
    pub(crate) fn new(words: &[&str]) -> Self {
        let mut command = Command::new(EXECUTABLE);
        command.args(words);
        Self::of(command)
    }

    /// Another command line that leads to the same executable; variables that it sets itself stay.
    pub(crate) fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let own: Vec<_> = command.get_envs().map(|(name, _)| name.to_owned()).collect();
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let is_ours = ["TCPX_", "UCCL_TCPX_", "NCCL_", "RUST_LOG"];
            if is_ours.iter().any(|it| text.starts_with(it)) && !own.contains(&name) {
                command.env_remove(&name);
            }
        }
        command.env(STARTED_BY, std::process::id().to_string());
        Self { command }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn run(self) -> Finished {
        self.start().finish()
    }

    pub(crate) fn start(mut self) -> Running {
        let mut process = self.command.spawn().unwrap();
        let stdout = collect(process.stdout.take().unwrap());
        let stderr = process.stderr.take().unwrap();
        let (line, first_line) = channel();
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            let mut reader = BufReader::new(stderr);
            while reader.read_line(&mut text).is_ok_and(|bytes| bytes > 0) {
                // Only the first receiver listens, and it may be gone.
                let _ = line.send(text.lines().last().unwrap_or_default().to_owned());
            }
            text
        });
        Running { process: Owned(process), stdout, stderr, lines: first_line }
    }
}

/// A process that does not outlive the test, also where that fails.
pub(crate) struct Owned(Child);

impl Deref for Owned {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Owned {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // Most have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run that has not ended.
pub(crate) struct Running {
    pub(crate) process: Owned,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
    /// Lines of stderr as they come.
    pub(crate) lines: std::sync::mpsc::Receiver<String>,
}

impl Running {
    /// The next line of stderr that contains `words`.
    pub(crate) fn wait_for_line(&self, words: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(DEADLINE).expect("another line on stderr");
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Waits for the end. A run that outlives the deadline is killed and fails the test.
    pub(crate) fn finish(mut self) -> Finished {
        let (done, ended) = channel();
        let pid = self.process.id();
        let watch = std::thread::spawn(move || {
            let is_late = ended.recv_timeout(DEADLINE).is_err();
            if is_late {
                let _ = send(Signal::KILL, pid);
            }
            is_late
        });
        let status = self.process.wait().unwrap();
        done.send(()).ok();
        assert!(!watch.join().unwrap(), "the run took longer than {DEADLINE:?}");
        let (stdout, stderr) = (self.stdout.join().unwrap(), self.stderr.join().unwrap());
        Finished { status: status.code(), stdout, stderr }
    }
}

/// A server on an ephemeral port.
pub(crate) struct Server {
    running: Running,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start(words: &[&str]) -> Self {
        Self::of(Tcpx::new(words))
    }

    /// A command line without a port.
    pub(crate) fn of(mut tcpx: Tcpx) -> Self {
        tcpx.command.args(["--port", "0"]);
        let running = tcpx.start();
        let line = running.wait_for_line("listening on ");
        let port = line.rsplit(':').next().unwrap().parse().unwrap();
        Self { running, port }
    }

    /// The next line of stderr that contains `words`.
    pub(crate) fn wait_for_line(&self, words: &str) -> String {
        self.running.wait_for_line(words)
    }

    pub(crate) fn running(&mut self) -> &mut Running {
        &mut self.running
    }

    pub(crate) fn finish(self) -> Finished {
        self.running.finish()
    }
}

fn collect(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    })
}

/// Processes of this executable that this test has started, directly or not, with their command
/// lines.
pub(crate) fn leftovers() -> Vec<String> {
    let executable = std::fs::canonicalize(EXECUTABLE).unwrap();
    let mark = format!("{STARTED_BY}={}", std::process::id());
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter(|entry| {
            std::fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == executable)
        })
        .filter(|entry| {
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        })
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok())
        .map(|line| line.replace('\0', " "))
        .collect()
}

/// Prints why a test is skipped, past the test harness's capture, so that it is seen.
pub(crate) fn report_skip(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// Sends a signal to a process that is there, or has not been waited for.
pub(crate) fn signal(signal: Signal, pid: u32) {
    send(signal, pid).unwrap();
}

/// Sends a signal to a process, if it is there. The program `kill` is not on every machine.
pub(crate) fn send(signal: Signal, pid: u32) -> rustix::io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("the number of a process");
    rustix::process::kill_process(pid, signal)
}

/// The one child of a process, once it is a program of its own: until then its parent waits for it,
/// and would wait for ever if it were stopped.
pub(crate) fn child_of(pid: u32) -> Option<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let child: u32 = std::fs::read_to_string(path).unwrap().trim().parse().ok()?;
    let words = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).ok();
    (words(child)? != words(pid)?).then_some(child)
}

/// The kernel delivers the signal at once, but the process needs a moment to be gone.
pub(crate) fn assert_nothing_is_left() {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !leftovers().is_empty() {
        assert!(Instant::now() < deadline, "{:?}", leftovers());
        std::thread::yield_now();
    }
}

/// The file of a library that this process has loaded: a library, but no plugin.
pub(crate) fn path_of_loaded_library(part: &str) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.contains(part)).unwrap();
    line[line.find('/').unwrap()..].to_owned()
}
