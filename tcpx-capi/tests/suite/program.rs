//! Programs that never run for ever: each ends with its owner, or with the test's patience.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};

use tcpx_testkit::PATIENCE;
use tcpx_testkit::process::Owned;

/// A running program.
pub(crate) struct Program {
    process: Owned,
    name: String,
}

impl Program {
    pub(crate) fn start(path: &Path, arguments: &[impl AsRef<OsStr>]) -> Self {
        Self::start_with(path, arguments, &[])
    }

    /// Starts it with these variables besides.
    pub(crate) fn start_with(
        path: &Path,
        arguments: &[impl AsRef<OsStr>],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(path);
        command
            .args(arguments)
            .envs(variables.iter().copied())
            .env("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0:exitcode=66")
            .env("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self { process: Owned::start(&mut command), name: path.display().to_string() }
    }

    /// Starts an example's server, which says its port first.
    pub(crate) fn serve(path: &Path, arguments: &[&str]) -> (Self, String) {
        Self::serve_with(path, arguments, &[])
    }

    /// Starts it with these variables besides.
    pub(crate) fn serve_with(
        path: &Path,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> (Self, String) {
        let mut program = Self::start_with(path, arguments, variables);
        // One byte at a time, so that the output that follows stays in the pipe. A server that
        // cannot listen ends, which ends the line.
        let mut line = String::new();
        let output = program.process.stdout.as_mut().unwrap();
        BufReader::with_capacity(1, output).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("port ").unwrap_or_default().to_owned();
        assert!(!port.is_empty(), "{} said {line:?} instead of its port", program.name);
        (program, port)
    }

    /// Waits for its end, which must be a success with PASSED as the last word.
    pub(crate) fn pass(self) -> String {
        let name = self.name.clone();
        let (status, output, errors) = self.finish();
        let passed = status.success() && output.trim_end().ends_with("PASSED");
        assert!(passed, "{name}: {status}\n{output}{errors}");
        output
    }

    /// Waits for its end, which must be the failure of a check. Returns the text of the failure.
    pub(crate) fn fail(self) -> String {
        let name = self.name.clone();
        let (status, output, errors) = self.finish();
        assert_eq!(status.code(), Some(1), "{name}: {status}\n{output}{errors}");
        errors
    }

    /// Waits for its end. Returns its status, and what it wrote to its two outputs.
    fn finish(mut self) -> (ExitStatus, String, String) {
        let output = read_all(self.process.stdout.take().unwrap());
        let errors = read_all(self.process.stderr.take().unwrap());
        let ended = self.process.wait_for(5 * PATIENCE);
        drop(self.process); // which closes the pipes of one that is stuck
        let (output, errors) = (output.join().unwrap(), errors.join().unwrap());
        let Some(status) = ended else { panic!("{} is stuck:\n{output}{errors}", self.name) };
        (status, output, errors)
    }
}

/// Reads beside the wait, so that a full pipe stops no program.
fn read_all(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}
