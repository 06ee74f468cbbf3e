//! Both ends on one machine: this process starts the other end as a child and never leaves it behind.
//!
//! The child connects back to an ephemeral port of loopback, so there is no port to agree on and nothing to wait for by
//! guess. The kernel kills it when this process dies in whatever way; it also ends when the connection does.

use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::bootstrap::{self, Link};
use crate::failure::Failure;
use crate::other_end::OtherEnd;
use crate::session::SessionArgs;

/// How long a child that has nothing left to do may take to end.
const GRACE: Duration = Duration::from_secs(3);
/// Begins the line in which a process says why it failed.
const ERROR_PREFIX: &str = "error: ";

/// The other end as a child process.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    /// Readable once the process has ended.
    ended: OwnedFd,
    /// Hands the child's log on and keeps its errors.
    log: Option<JoinHandle<Vec<String>>>,
}

/// Starts the server of `command` and waits until it has connected.
pub(crate) fn start(
    command: &str,
    session: &SessionArgs,
    timeout: Duration,
) -> Result<OtherEnd, Failure> {
    let listener = bootstrap::bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let address =
        listener.local_addr().map_err(Failure::io("asking for the listener's address"))?;
    let executable = std::env::current_exe().map_err(Failure::io("finding this executable"))?;
    let mut child = Command::new(executable);
    child
        .args([command, "server", "--dial", &address.to_string()])
        .args(["--parent", &std::process::id().to_string()])
        .args(["--timeout", &timeout.as_secs_f64().to_string()])
        .args(session.plugin.iter().flat_map(|plugin| ["--plugin".to_owned(), plugin.to_string()]))
        .args(session.gpu.iter().flat_map(|gpu| ["--gpu".to_owned(), gpu.to_string()]));
    let mut child = Child::spawn(child)?;
    match bootstrap::accept_or_end(&listener, Some(child.ended.as_fd()), timeout) {
        Ok(Some(stream)) => Ok(OtherEnd::with_child(Link::new(stream, timeout)?, child)),
        Ok(None) => Err(child.cause()),
        Err(failure) => {
            child.kill();
            Err(failure)
        }
    }
}

/// In the child: dies with the process that started it.
pub(crate) fn live_with(parent: u32) -> Result<(), Failure> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| {
        Failure::Io { what: "tying this process to its parent".into(), error: error.into() }
    })?;
    // It may have died before that.
    let actual = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
    if actual == Some(parent) {
        return Ok(());
    }
    Err(Failure::OtherEnd(format!("process {parent}, which started this one, is gone")))
}

impl Child {
    fn spawn(mut command: Command) -> Result<Self, Failure> {
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Failure::io("starting the other end"))?;
        let log = process.stderr.take().map(|stderr| std::thread::spawn(|| hand_on(stderr)));
        let pid = Pid::from_child(&process);
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(ended) => Ok(Self { process, ended, log }),
            Err(error) => {
                let _ = process.kill();
                let _ = process.wait();
                let what = "watching the other end's process".to_owned();
                Err(Failure::Io { what, error: error.into() })
            }
        }
    }

    /// Waits for the child to end, and kills it if it does not. `outcome`: how it went for this end.
    pub(crate) fn conclude<T>(mut self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        let mut ended = [PollFd::from_borrowed_fd(self.ended.as_fd(), PollFlags::IN)];
        let ended_itself = bootstrap::wait(&mut ended, Instant::now() + GRACE)
            .map_err(Failure::io("waiting for the other end's process"))?;
        if !ended_itself {
            self.kill();
            let text = format!(
                "process {} did not end within {GRACE:?} and was killed",
                self.process.id()
            );
            return outcome.and(Err(Failure::OtherEnd(text)));
        }
        let status = self.status()?;
        match outcome {
            outcome if status.success() => outcome,
            // A process that was killed explains everything; one that gave up may have done so because of this end.
            Err(failure) if status.signal().is_none() && !failure.may_be_a_symptom() => {
                Err(failure)
            }
            _ => Err(self.cause()),
        }
    }

    /// Why the child ended: its own words, else how the system saw it.
    fn cause(&mut self) -> Failure {
        let status = match self.status() {
            Ok(status) => status,
            Err(failure) => return failure,
        };
        let errors = self.log.take().and_then(|log| log.join().ok()).unwrap_or_default();
        Failure::OtherEnd(match errors.last() {
            Some(error) => error.clone(),
            None => format!("server process {} {}", self.process.id(), in_words(status)),
        })
    }

    fn status(&mut self) -> Result<ExitStatus, Failure> {
        self.process.wait().map_err(Failure::io("waiting for the other end's process"))
    }

    fn kill(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        if let Some(log) = self.log.take() {
            let _ = log.join();
        }
    }
}

fn in_words(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by signal {signal}"),
        (None, Some(code)) => format!("ended with exit status {code} and said nothing"),
        (None, None) => "ended in an unknown way".into(),
    }
}

/// Copies the child's log to this process's. Its errors are returned: one process speaks for both.
fn hand_on(stderr: ChildStderr) -> Vec<String> {
    let mut errors = Vec::new();
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        let text = String::from_utf8_lossy(&line);
        match text.strip_prefix(ERROR_PREFIX) {
            Some(error) => errors.push(error.trim_end().to_owned()),
            // Nobody may be reading the log; the child must not be held up by that.
            None => drop(std::io::stderr().lock().write_all(text.as_bytes())),
        }
        line.clear();
    }
    errors
}
