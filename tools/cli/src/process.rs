//! Child processes, which never outlive this one, and threads.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group};

use crate::budget::Budget;
use crate::deadline::Deadline;
use crate::failure::{Failure, one_line};

/// Prefix of the line with a command's error.
const ERROR_PREFIX: &str = "error: ";
/// Longest wait for the rest of an ended process's log, if the command has the time. The log ends
/// with the process, unless another process still holds it.
const LOG_GRACE: Duration = Duration::from_secs(1);
/// Longest wait for that log when the command has no time left.
const SHORT_LOG_GRACE: Duration = Duration::from_millis(200);
/// Longest line of a log, in bytes; the rest counts as the next line.
const LINE_BYTES: u64 = 4096;

/// Destination of the lines that a process writes to stderr. The last line is recorded either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// Hidden from the user.
    Hidden,
    /// Written to this process's stderr, except for errors: one process prints them for both.
    Shown,
}

/// Starts a thread. Fails where the host allows no more.
pub(crate) fn spawn_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Failure> {
    let started = Builder::new().name(name.to_owned()).spawn(work);
    started.map_err(Failure::io("starting a thread"))
}

/// Starts a thread that ends before the scope does.
pub(crate) fn spawn_in<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, Failure> {
    let started = Builder::new().name(name.to_owned()).spawn_scoped(scope, work);
    started.map_err(Failure::io("starting a thread"))
}

/// Child process, which is killed on drop with all processes that it started.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    process: Child,
    budget: Budget,
    /// Whether the process is reaped. Until then no other process has its number.
    is_reaped: bool,
    /// Readable once the process has ended.
    ended: OwnedFd,
    last_line: Option<Receiver<String>>,
}

impl ChildProcess {
    /// Starts a process. `budget`: of the command that starts it.
    pub(crate) fn start(command: &mut Command, log: Log, budget: Budget) -> Result<Self, Failure> {
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(Failure::io("starting a process"))?;
        let last_line = process.stderr.take().map(|stderr| {
            let (sender, receiver) = channel();
            // The receiver may be gone.
            spawn_thread("log", move || sender.send(read_log(stderr, log)).ok()).map(|_| receiver)
        });
        let watched = last_line.transpose().and_then(|last_line| {
            let ended = rustix::process::pidfd_open(Pid::from_child(&process), PidfdFlags::empty())
                .map_err(|error| Failure::io("watching a started process")(error.into()))?;
            Ok((ended, last_line))
        });
        match watched {
            Ok((ended, last_line)) => {
                Ok(Self { process, budget, is_reaped: false, ended, last_line })
            }
            Err(failure) => {
                let _ = process.kill();
                let _ = process.wait();
                Err(failure)
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns a descriptor that is readable once the process has ended.
    pub(crate) fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Waits for the process and returns its status; `None` if it did not end in time and was
    /// killed.
    pub(crate) fn wait(&mut self, deadline: Deadline) -> Result<Option<ExitStatus>, Failure> {
        let mut ended = [PollFd::from_borrowed_fd(self.ended.as_fd(), PollFlags::IN)];
        let failed = || Failure::io("waiting for a started process");
        let has_ended = deadline.poll(&mut ended).map_err(failed())?;
        let status = self.end().map_err(failed())?;
        Ok(has_ended.then_some(status))
    }

    /// Returns, for a process that has ended, the last error in its log, or else, if the log is
    /// hidden, its last line. Empty if there is none.
    pub(crate) fn last_line(&mut self) -> String {
        let line = self.last_line.take().and_then(|receiver| {
            let grace = self.budget.closing(LOG_GRACE).left().max(SHORT_LOG_GRACE);
            receiver.recv_timeout(grace).ok()
        });
        line.unwrap_or_default()
    }

    /// Returns why a process ended unexpectedly: its last line, or else its exit status.
    pub(crate) fn cause(&mut self) -> Failure {
        let line = self.last_line();
        let status = match self.end() {
            _ if !line.is_empty() => return Failure::OtherEnd(line),
            Err(error) => return Failure::io("waiting for a started process")(error),
            Ok(status) => status,
        };
        let how = match (status.signal(), status.code()) {
            (Some(signal), _) => format!("was killed by signal {signal}"),
            (None, Some(code)) => format!("ended with exit status {code} and wrote no error"),
            (None, None) => "ended in an unknown way".into(),
        };
        Failure::OtherEnd(format!("server process {} {how}", self.id()))
    }

    /// Kills the process and all that it started, unless they have ended, and reaps it.
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        if !self.is_reaped {
            // It leads a group of its own. An error means that the group has ended already.
            let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        }
        let status = self.process.wait()?;
        self.is_reaped = true;
        Ok(status)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // An error has no recipient any more.
        let _ = self.end();
        // The process's output is on the terminal before this process prints its last line.
        self.last_line();
    }
}

/// Reads the whole log, so that the process never blocks, and returns its last line.
fn read_log(stderr: ChildStderr, log: Log) -> String {
    let mut reader = BufReader::new(stderr);
    let (mut line, mut last) = (Vec::new(), String::new());
    while (&mut reader).take(LINE_BYTES).read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        let text = String::from_utf8_lossy(&line);
        match (log, text.strip_prefix(ERROR_PREFIX)) {
            (Log::Shown, Some(error)) => last = one_line(error),
            // The log may have no reader; the process must not block all the same.
            (Log::Shown, None) => drop(std::io::stderr().lock().write_all(text.as_bytes())),
            (Log::Hidden, _) if text.trim().is_empty() => {}
            (Log::Hidden, _) => last = one_line(&text),
        }
        line.clear();
    }
    last
}

/// Makes this process, which `parent` started, die with `parent`, in whatever way that ends.
pub(crate) fn die_with_parent(parent: u32) -> Result<(), Failure> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failure::io("tying this process to its parent")(error.into()))?;
    // It may have died before that.
    let actual = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
    if actual == Some(parent) {
        return Ok(());
    }
    Err(Failure::OtherEnd(format!("process {parent}, which started this one, is gone")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Deadline {
        Deadline::after(Duration::from_secs(60))
    }

    fn shell(script: &str, log: Log) -> ChildProcess {
        ChildProcess::start(Command::new("sh").args(["-c", script]), log, Budget::new(None))
            .unwrap()
    }

    #[test]
    fn a_child_has_a_status_and_a_last_line() {
        let mut child = shell("printf 'one\\ntwo \\033[1m\\n\\n' >&2; exit 3", Log::Hidden);
        assert_eq!(child.wait(soon()).unwrap().unwrap().code(), Some(3));
        assert_eq!(child.last_line(), "two [1m");
        let mut child = shell("echo 'error: why' >&2", Log::Shown);
        assert!(child.wait(soon()).unwrap().unwrap().success());
        assert_eq!(child.last_line(), "why");
    }

    #[test]
    fn a_line_without_end_is_read_in_pieces() {
        let mut child = shell("head -c 10000 /dev/zero | tr '\\0' x >&2", Log::Hidden);
        assert!(child.wait(soon()).unwrap().unwrap().success());
        assert_eq!(child.last_line().len() as u64, 10_000 - 2 * LINE_BYTES);
    }

    #[test]
    fn a_child_that_does_not_end_is_killed() {
        let mut child = shell("exec sleep 600", Log::Hidden);
        assert!(child.wait(Deadline::after(Duration::from_millis(10))).unwrap().is_none());
        assert_eq!(child.last_line(), "");
        let child = shell("exec sleep 600", Log::Hidden);
        let process = format!("/proc/{}", child.id());
        drop(child);
        assert!(!std::path::Path::new(&process).exists());
    }
}
