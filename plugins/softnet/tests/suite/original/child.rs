//! Runs a test once more in processes of its own, with quirks and without.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use tcpx_testkit::{PATIENCE, process};

use crate::support::{self, Net, pair};

const ORIGINAL: &str = "TCPX_SOFT_ORIGINAL";

/// How a process ended, and all that it said.
pub(crate) struct ProcessResult {
    pub(crate) status: ExitStatus,
    pub(crate) text: String,
}

impl ProcessResult {
    /// Whether its test passed.
    pub(crate) fn passed(&self) -> bool {
        self.status.success() && self.text.contains("1 passed")
    }

    /// The signal that ended it.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}

/// Test whose part is played in processes of its own.
#[derive(Clone, Copy)]
pub(crate) struct Test(pub(crate) &'static str);

/// Plays a part in the processes that the calling test has started, and is the test elsewhere.
macro_rules! test_of {
    ($part:expr) => {{
        if tcpx_testkit::process::role().is_some() {
            return $part();
        }
        crate::original::child::Test(tcpx_testkit::here!())
    }};
}

impl Test {
    /// Runs the part with these quirks, none when empty, and variables.
    pub(crate) fn run(self, quirks: &str, variables: &[(&str, &str)]) -> ProcessResult {
        self.run_as("part", quirks, variables)
    }

    /// The same in a role.
    pub(crate) fn run_as(
        self,
        role: &str,
        quirks: &str,
        variables: &[(&str, &str)],
    ) -> ProcessResult {
        let mut command = process::again(self.0, role);
        command.env(ORIGINAL, quirks).env("TCPX_SOFT_IFNAME", "=lo").env("TCPX_SOFT_HELPERS", "0");
        let output = process::finish(command.envs(variables.iter().copied()), 2 * PATIENCE);
        ProcessResult { status: output.status, text: process::printed(&output) }
    }

    /// The part passes with the quirk, and does not pass without it.
    pub(crate) fn proves(self, quirk: &str, variables: &[(&str, &str)]) {
        let with = self.run(quirk, variables);
        assert!(with.passed(), "with {quirk}: {}", with.text);
        let without = self.run("", variables);
        assert!(!without.passed(), "without {quirk}: {}", without.text);
        assert!(without.text.contains("FAILED"), "it ran, and failed: {}", without.text);
    }
}

/// The plugin as the environment wants it.
pub(crate) fn net() -> Net {
    support::net_of_environment(|_| {})
}

/// A pair of it.
pub(crate) fn pair(bytes: usize, kind: i32) -> pair::Pair {
    pair::Pair::new(net(), bytes, kind)
}
