//! Tests that a machine cannot run: they print `skipped: ` and the reason. Where a skip would hide
//! a broken test, `TCPX_TEST_REQUIRE` makes a failure of it; its words are `gpu`, `netns`,
//! `compilers`, `tools` and `zig`, separated by commas.

use std::env;
use std::io::Write;

/// Whether `TCPX_TEST_REQUIRE` names `need`.
#[must_use]
pub fn is_required(need: &str) -> bool {
    let required = env::var("TCPX_TEST_REQUIRE").unwrap_or_default();
    required.split(',').any(|word| word.trim() == need)
}

/// Says that a test, or a part of it, is skipped because `need` is not met. Returns false, for
/// conditions that end with it.
///
/// # Panics
/// When `need` is required.
pub fn skip(need: &str, reason: &str) -> bool {
    assert!(!is_required(need), "{need} is required: {reason}");
    report_skip(reason);
    false
}

/// Prints why a test is skipped, past the test harness's capture, so that it is seen.
pub fn report_skip(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}
