//! Tests in processes of their own: the test program again, for one test. A plugin opens once in a
//! process, and its settings, signals and limits are the process's; a test that needs its own says
//! [`in_own_process!`](crate::in_own_process) first. A test with several ends starts further
//! processes of itself with [`again!`](crate::again), and asks [`role`] which it is.
//!
//! ```no_run
//! # use tcpx_testkit::{again, in_own_process, process};
//! // #[test]
//! fn a_peer_that_dies_is_noticed() {
//!     if process::role().as_deref() == Some("peer") {
//!         return; // the peer's part
//!     }
//!     in_own_process!();
//!     let peer = process::Owned::start(&mut again!("peer"));
//! }
//! ```

use std::env;
use std::fmt::Write;
use std::io::Read;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::patience::PATIENCE;

/// Variable that holds the role of a test process.
const ROLE: &str = "TCPX_TEST_ROLE";
/// The part of a test that is merely alone.
const ALONE: &str = "alone";

/// The calling test's name, as the test program takes it.
#[macro_export]
macro_rules! here {
    () => {{
        fn here() {}
        $crate::process::test_name(std::any::type_name_of_val(&here))
    }};
}

/// A command that runs the calling test once more in a new process, in the role that is given.
#[macro_export]
macro_rules! again {
    ($role:expr) => {
        $crate::process::again($crate::here!(), $role)
    };
}

/// Runs the rest of the calling test in a process of its own. In the test program itself it waits
/// until that process has passed, and returns from the test. Takes variables of the environment for
/// the process: `in_own_process!("TCPX_SOFT_SOCKETS" = "2")`.
#[macro_export]
macro_rules! in_own_process {
    ($($name:literal = $value:expr),* $(,)?) => {
        if $crate::process::role().is_none() {
            let mut command = $crate::process::again_alone($crate::here!());
            $(command.env($name, $value);)*
            $crate::process::pass(&mut command);
            return;
        }
    };
}

/// The part that [`again!`] has given this process; `None` in the test program itself.
#[must_use]
pub fn role() -> Option<String> {
    env::var(ROLE).ok()
}

/// The test in which a function with this path was written.
#[doc(hidden)]
#[must_use]
pub fn test_name(path: &'static str) -> &'static str {
    let path = path.strip_suffix("::here").unwrap_or(path);
    let path = path.split("::{{closure}}").next().unwrap_or(path);
    path.split_once("::").map_or(path, |(_crate, name)| name)
}

/// This test program again, for one test of it.
#[must_use]
pub fn again(test: &str, role: &str) -> Command {
    let mut command = this_program();
    command.args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role);
    command
}

/// The same in no further role.
#[doc(hidden)]
#[must_use]
pub fn again_alone(test: &str) -> Command {
    again(test, ALONE)
}

/// This program.
///
/// # Panics
/// When it does not know where it lies.
#[must_use]
pub fn this_program() -> Command {
    Command::new(env::current_exe().expect("a program knows where it is"))
}

/// The library of this file name that Cargo has built with the tests of its own package.
///
/// # Panics
/// When it lies neither beside this program nor where Cargo puts what is built last.
#[must_use]
pub fn library(file: &str) -> PathBuf {
    let program = env::current_exe().expect("a program knows where it is");
    let folder = program.parent().expect("the folder of test programs");
    let places = [folder.join(file), folder.with_file_name(file)];
    let found = places.into_iter().find(|place| place.is_file());
    found.unwrap_or_else(|| panic!("{file} is not built with its tests"))
}

/// Runs a test process to its end, and prints what it skipped.
///
/// # Panics
/// When it fails, does not end in time, or runs no test; the message is all that it printed.
pub fn pass(command: &mut Command) -> String {
    let output = finish(command, 2 * PATIENCE);
    let text = printed(&output);
    let has_run = text.contains("running 1 test");
    assert!(output.status.success() && has_run, "{command:?}: {}\n{text}", output.status);
    for line in text.lines().filter(|line| line.contains("skipped: ")) {
        crate::needs::report_skip(line.split_once("skipped: ").map_or(line, |(_, why)| why));
    }
    text
}

/// Runs a command to its end, with nothing to read, and returns all that it printed.
///
/// # Panics
/// When it does not start, or is killed because it has not ended within `limit`.
pub fn finish(command: &mut Command, limit: Duration) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = Owned::start(command);
    let stdout = collect(process.stdout.take().expect("piped"));
    let stderr = collect(process.stderr.take().expect("piped"));
    let ended = process.wait_for(limit);
    if ended.is_none() {
        drop(process);
    }
    let join = |thread: JoinHandle<Vec<u8>>| thread.join().expect("a thread that reads");
    let (stdout, stderr) = (join(stdout), join(stderr));
    let Some(status) = ended else {
        let stdout = String::from_utf8_lossy(&stdout);
        let stderr = String::from_utf8_lossy(&stderr);
        panic!("{command:?} has not ended in {limit:?}:\n{stdout}{stderr}");
    };
    Output { status, stdout, stderr }
}

/// What a process printed, on standard output and then on standard error.
#[must_use]
pub fn printed(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Writing to a string cannot fail.
    let _ = write!(text, "{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn collect(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is worth showing.
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

/// A process that does not outlive its owner, also where a test fails.
#[derive(Debug)]
pub struct Owned(Child);

impl Owned {
    /// Starts it.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Waits for its end. `None`: it has not come within `limit`.
    ///
    /// # Panics
    /// When the process cannot be waited for.
    pub fn wait_for(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.0.try_wait().expect("a child can be waited for") {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            // The system reports a child's end by a signal to the whole process, which threads of
            // a test program cannot share.
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When the process has been waited for.
    pub fn signal(&self, signal: Signal) {
        send(signal, self.0.id()).expect("it has not been waited for");
    }
}

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

/// Sends a signal to a process. The program `kill` is not on every machine.
///
/// # Errors
/// Those of the system: there is no such process, or it belongs to another user.
///
/// # Panics
/// When `pid` is no number of a process.
pub fn send(signal: Signal, pid: u32) -> rustix::io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("the number of a process");
    kill_process(pid, signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_runs_in_a_process_of_its_own() {
        let outer = env::var("OUTER").ok();
        in_own_process!("OUTER" = std::process::id().to_string());
        let outer = outer.expect("the other process says which it is");
        assert_ne!(outer, std::process::id().to_string());
        assert_eq!(role().as_deref(), Some(ALONE));
    }

    #[test]
    fn a_test_has_roles() {
        if role().as_deref() == Some("peer") {
            println!("\nhere is the peer");
            return;
        }
        assert!(pass(&mut again!("peer")).contains("here is the peer"));
    }

    #[test]
    fn a_process_that_fails_is_a_failure_with_its_output() {
        if role().is_some() {
            panic!("on purpose");
        }
        let failure = std::panic::catch_unwind(|| pass(&mut again!("one that fails")));
        let failure = failure.expect_err("it fails");
        assert!(failure.downcast_ref::<String>().expect("text").contains("on purpose"));
    }

    #[test]
    fn names_that_no_test_has_are_no_success() {
        let failure = std::panic::catch_unwind(|| pass(&mut again("no_such_test", "peer")));
        assert!(failure.is_err());
    }

    #[test]
    fn a_program_that_was_not_built_is_not_found() {
        let failure = std::panic::catch_unwind(|| library("libnothing.so"));
        let failure = failure.expect_err("there is no such library");
        assert!(failure.downcast_ref::<String>().expect("text").contains("libnothing.so"));
    }

    #[test]
    fn a_process_that_does_not_end_is_killed() {
        if role().is_some() {
            thread::sleep(PATIENCE);
        }
        let limit = Duration::from_millis(300);
        let failure = std::panic::catch_unwind(|| finish(&mut again!("sleeper"), limit));
        assert!(failure.is_err());
    }
}
