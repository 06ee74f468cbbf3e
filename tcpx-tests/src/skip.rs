//! Saying that a test did not run.

use std::io::Write;

/// Prints why a test is skipped, past the test harness's capture, so that it is seen.
pub fn report_skip(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}
