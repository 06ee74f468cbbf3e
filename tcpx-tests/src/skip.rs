//! Saying that a test did not run.

use std::io::Write;

/// Prints why a test is skipped, past the test harness's capture, so that it is seen.
pub fn report_skip(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// Whether a test that needs a GPU can run; says so if not.
///
/// # Panics
/// When there is none, and `gpu` is among the comma-separated words of `TCPX_TEST_REQUIRE`.
#[must_use]
pub fn has_gpu() -> bool {
    let required = std::env::var("TCPX_TEST_REQUIRE").unwrap_or_default();
    let required = required.split(',').any(|word| word.trim() == "gpu");
    let found = tcpx_core::gpu_count() > 0;
    assert!(found || !required, "a GPU is required and the CUDA driver shows none");
    if !found {
        report_skip("the CUDA driver shows no GPU");
    }
    found
}
