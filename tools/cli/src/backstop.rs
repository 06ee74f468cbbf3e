//! Backstop of a command: ends a command whose time is over while a call does not return.
//!
//! A call of a plugin, a driver or the system may never return, and cannot be interrupted.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use crate::budget::Budget;
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::process;

/// Time after which a late command will not end by itself.
const LATE: Duration = Duration::from_millis(500);
/// Time that the last line and the end of the process may take.
const LAST_LINE: Duration = Duration::from_millis(250);

/// Guard that ends a command with a time limit, unless the guard is dropped before.
pub(crate) struct Backstop {
    known: Arc<Mutex<BackstopState>>,
    /// Dropped, it ends the thread.
    _running: Option<Sender<()>>,
}

/// Facts for the last line of a command whose time is over.
#[derive(Debug)]
struct BackstopState {
    doing: &'static str,
    /// Line of the command's failure, and its exit status, once it has failed.
    failure: Option<(String, u8)>,
    is_over: bool,
}

impl Backstop {
    pub(crate) fn start(budget: Budget) -> Result<Self, Failure> {
        let known = BackstopState { doing: "beginning", failure: None, is_over: false };
        let known = Arc::new(Mutex::new(known));
        let running = budget.end().map(|end| {
            let (running, stopped) = channel();
            let known = Arc::clone(&known);
            let watch = move || {
                let waited = stopped.recv_timeout(end.left() + LATE);
                // Locked until the process ends, so that no other thread prints its last line.
                let known = lock(&known);
                if waited == Err(RecvTimeoutError::Timeout) && !known.is_over {
                    let (line, status) = known.last_line(end);
                    exit_process(&line, status);
                }
            };
            process::spawn_thread("backstop", watch).map(|_| running)
        });
        Ok(Self { known, _running: running.transpose()? })
    }

    /// Sets what the command does from now on.
    pub(crate) fn set_step(&self, doing: &'static str) {
        lock(&self.known).doing = doing;
    }

    /// Records that the command fails after cleaning up. `line`: the line that it will print.
    pub(crate) fn failed(&self, line: String, status: u8) {
        lock(&self.known).failure = Some((line, status));
    }
}

impl Drop for Backstop {
    fn drop(&mut self) {
        lock(&self.known).is_over = true;
    }
}

impl BackstopState {
    fn last_line(&self, waited: Deadline) -> (String, u8) {
        self.failure.clone().unwrap_or_else(|| {
            let doing = format!("{}, in a call that does not return", self.doing);
            let failure = Failure::OutOfTime { doing, waited };
            (failure.one_line(), failure.exit_status())
        })
    }
}

fn lock(known: &Mutex<BackstopState>) -> MutexGuard<'_, BackstopState> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints the last line and ends this process, and with it the processes that it started.
fn exit_process(line: &str, status: u8) {
    // Stderr may be stuck too, and so may exit handlers of other code.
    let _ = process::spawn_thread("last-line", || {
        sleep(LAST_LINE);
        kill_process(getpid(), Signal::KILL)
    });
    let _ = writeln!(std::io::stderr(), "error: {line}");
    #[expect(clippy::exit, reason = "the thread that could return it does not")]
    std::process::exit(status.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_names_the_step_unless_the_failure_is_known() {
        let end = Budget::new(Some(Duration::from_secs(3))).end().unwrap();
        let mut known =
            BackstopState { doing: "opening the plugin", failure: None, is_over: false };
        let (line, status) = known.last_line(end);
        assert!(line.contains("3 s (--timeout)") && line.contains("opening the plugin"), "{line}");
        assert_eq!(status, 1);
        known.failure = Some(("it was like that".into(), 2));
        assert_eq!(known.last_line(end), ("it was like that".into(), 2));
    }
}
