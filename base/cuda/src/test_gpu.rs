#![allow(clippy::print_stderr, reason = "a test that skips says why")]
//! GPU that tests use.

use std::env;

use crate::gpu::CudaGpu;

/// Returns the first GPU. Without a GPU, the function says on standard error that the calling test
/// skips.
///
/// # Panics
/// Panics when there is no GPU, and `gpu` is among the comma-separated words of
/// `TCPX_TEST_REQUIRE`.
#[must_use]
pub fn test_gpu() -> Option<CudaGpu> {
    let required = env::var("TCPX_TEST_REQUIRE").unwrap_or_default();
    match CudaGpu::open(0) {
        Ok(gpu) => Some(gpu),
        Err(error) if required.split(',').any(|word| word.trim() == "gpu") => {
            panic!("a GPU is required, but {error}")
        }
        Err(error) => {
            eprintln!("this test, or its GPU part, is skipped: {error}");
            None
        }
    }
}
