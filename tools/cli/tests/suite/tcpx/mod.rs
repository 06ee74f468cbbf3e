//! The built command as a process: started with a clean environment, never waited for without a
//! deadline, and over only when all that it started is.

pub(crate) mod between;
pub(crate) mod schema;
pub(crate) mod timeout;

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::{fmt, fs};

pub(crate) use rustix::process::Signal;
use serde_json::Value;
use tcpx_testkit::process::Owned;
use tcpx_testkit::{PATIENCE, report_skip, until};

pub(crate) const EXECUTABLE: &str = env!("CARGO_BIN_EXE_tcpx");
/// An address of this machine at which no server listens.
pub(crate) const NO_SERVER: &str = "127.0.0.1:1";
/// Variable of every process that a run starts, directly or not: the run's mark.
const STARTED_BY: &str = "STARTED_BY_TEST";

/// A command line to run.
pub(crate) struct Tcpx {
    command: Command,
    /// Of this run alone.
    mark: String,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// `None`: by a signal.
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Processes that were still there when the run had just ended. They have ended since.
    left: Vec<String>,
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
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.status, Some(0), "{self}");
        self.object()
    }

    /// Returns the same without its origin, which differs between two ends.
    pub(crate) fn json_unsigned(&self) -> Value {
        let mut object = self.json();
        let signature = object.as_object_mut().and_then(|object| object.remove("tcpx"));
        assert!(signature.is_some(), "{self}");
        object
    }

    /// Returns the figures of `tcpx perf`, which both ends print alike: without what an end says of
    /// itself.
    pub(crate) fn figures(&self) -> Value {
        let mut object = self.json_unsigned();
        let transport = object.as_object_mut().and_then(|object| object.remove("peer_transport"));
        assert!(transport.is_some(), "{self}");
        object
    }

    /// The one JSON object on stdout, whatever the exit status.
    pub(crate) fn object(&self) -> Value {
        let mut objects = serde_json::Deserializer::from_str(&self.stdout).into_iter();
        let object: Value =
            objects.next().expect("an object").unwrap_or_else(|error| panic!("{error}: {self}"));
        assert!(object.is_object() && objects.next().is_none(), "{self}");
        object
    }

    /// Asserts that it failed with one error line that has all of `words`.
    pub(crate) fn expect_error(&self, words: &[&str]) {
        let error = self.error();
        for word in words {
            assert!(error.contains(word), "{word:?} is missing: {self}");
        }
    }

    /// The one error line of a run that failed.
    pub(crate) fn error(&self) -> &str {
        let mut errors = self.stderr.lines().filter(|line| line.starts_with("error: "));
        let error = errors.next().unwrap_or_else(|| panic!("no error: {self}"));
        assert!(self.status != Some(0) && errors.next().is_none(), "{self}");
        error
    }

    /// Asserts that nothing that it had started was there when it ended, though it failed.
    pub(crate) fn expect_alone(&self) {
        assert_eq!(self.left, Vec::<String>::new(), "{self}");
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
        static RUNS: AtomicU32 = AtomicU32::new(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let own: Vec<_> = command.get_envs().map(|(name, _)| name.to_owned()).collect();
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let is_ours = ["TCPX_", "UCCL_TCPX_", "NCCL_", "RUST_LOG"];
            if is_ours.iter().any(|it| text.starts_with(it)) && !own.contains(&name) {
                command.env_remove(&name);
            }
        }
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{STARTED_BY}={}.{number}", std::process::id());
        command.env(STARTED_BY, &mark[STARTED_BY.len() + 1..]);
        Self { command, mark }
    }

    pub(crate) fn args(mut self, words: &[&str]) -> Self {
        self.command.args(words);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn run(self) -> Finished {
        self.start().finish()
    }

    pub(crate) fn start(mut self) -> Running {
        let mut process = Owned::start(&mut self.command);
        let stdout = collect(process.stdout.take().unwrap());
        let stderr = process.stderr.take().unwrap();
        let (line, lines) = channel();
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            let mut reader = BufReader::new(stderr);
            while reader.read_line(&mut text).is_ok_and(|bytes| bytes > 0) {
                // Its receiver may be gone.
                let _ = line.send(text.lines().last().unwrap_or_default().to_owned());
            }
            text
        });
        Running { process, stdout, stderr, lines, mark: self.mark }
    }
}

/// A run that has not ended.
pub(crate) struct Running {
    pub(crate) process: Owned,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
    /// Lines of stderr as they come.
    lines: Receiver<String>,
    mark: String,
}

impl Running {
    /// The next line of stderr that contains `words`.
    pub(crate) fn wait_for_line(&self, words: &str) -> String {
        self.find_line(words).unwrap_or_else(|| panic!("{words:?} on stderr"))
    }

    /// The same, if it comes before the run ends.
    pub(crate) fn find_line(&self, words: &str) -> Option<String> {
        loop {
            let line = match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => panic!("neither a line on stderr nor its end"),
            };
            if line.contains(words) {
                return Some(line);
            }
        }
    }

    /// The port on which a server says that it listens.
    pub(crate) fn port(&self) -> u16 {
        let line = self.wait_for_line("listening on ");
        line.rsplit(':').next().unwrap().parse().unwrap()
    }

    /// Waits for the end, and then until nothing is left that it started: the kernel delivers a
    /// signal at once, but a process needs a moment to be gone.
    pub(crate) fn finish(mut self) -> Finished {
        let status = self.process.wait_for(PATIENCE).expect("an end of the run");
        let left = marked(&self.mark);
        assert!(status.code() != Some(0) || left.is_empty(), "it ended before all of {left:?}");
        let (stdout, stderr) = (self.stdout.join().unwrap(), self.stderr.join().unwrap());
        let finished = Finished { status: status.code(), stdout, stderr, left };
        if !finished.left.is_empty() {
            until("an end of all that the run started", || marked(&self.mark).is_empty());
        }
        finished
    }
}

/// A server on a port that the system chose.
pub(crate) struct Server {
    pub(crate) running: Running,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start(words: &[&str]) -> Self {
        Self::of(Tcpx::new(words))
    }

    /// A command line without a port.
    pub(crate) fn of(tcpx: Tcpx) -> Self {
        let running = tcpx.args(&["--port", "0"]).start();
        let port = running.port();
        Self { running, port }
    }

    /// A client of it: `words` without the end and its address.
    pub(crate) fn client(&self, words: &[&str]) -> Tcpx {
        client(&format!("127.0.0.1:{}", self.port), words)
    }

    /// The next line of stderr that contains `words`.
    pub(crate) fn wait_for_line(&self, words: &str) -> String {
        self.running.wait_for_line(words)
    }

    pub(crate) fn finish(self) -> Finished {
        self.running.finish()
    }
}

/// A client: `words` without the end and its address.
pub(crate) fn client(address: &str, words: &[&str]) -> Tcpx {
    Tcpx::new(&[&[words[0], "client", address], &words[1..]].concat())
}

fn collect(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    })
}

/// Processes of this executable that have this mark, by their command lines.
fn marked(mark: &str) -> Vec<String> {
    let executable = fs::canonicalize(EXECUTABLE).unwrap();
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter(|entry| fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == executable))
        .filter(|entry| {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        })
        .filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok())
        .map(|line| line.replace('\0', " "))
        .collect()
}

/// The children of a process that are programs of their own already: until then their parent waits
/// for them, and would wait for ever if they were stopped.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    let words = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).ok();
    let of_thread = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).ok();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let children: Vec<String> = threads.filter_map(Result::ok).filter_map(of_thread).collect();
    let children = children.iter().flat_map(|text| text.split_whitespace());
    let children = children.map(|number| number.parse().expect("the number of a process"));
    children.filter(|child| words(*child).is_some_and(|it| Some(it) != words(pid))).collect()
}

/// The one child of a process, once it is a program of its own.
pub(crate) fn child_of(pid: u32) -> Option<u32> {
    children_of(pid).pop()
}

/// Whether this machine has IPv6; if it has not, the test is skipped.
pub(crate) fn has_ipv6() -> bool {
    const CANNOT_ASSIGN: i32 = 99;
    let is_missing = TcpStream::connect("[::1]:1")
        .is_err_and(|error| error.raw_os_error() == Some(CANNOT_ASSIGN));
    if is_missing {
        report_skip("this machine has no IPv6");
    }
    !is_missing
}

/// The file of a library in `directory` that passes for a plugin of this name. `code` has its
/// function `init`, and one for all others, `other`.
pub(crate) fn library(directory: &Path, name: &str, code: &str) -> String {
    let (source, library) = (directory.join("plugin.c"), directory.join("plugin.so"));
    let text = format!(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n{code}\n\
         struct {{ const char *name; void *members[18]; }} ncclNetPlugin_v7 =\n\
         {{\"{name}\", {{init, other, other, other, other, other, other, 0, other, other,\n\
         other, other, other, other, other, other, other, other}}}};\n"
    );
    fs::write(&source, text).unwrap();
    let status =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(status.expect("a C compiler runs").success(), "{code} was compiled");
    library.to_str().unwrap().to_owned()
}
