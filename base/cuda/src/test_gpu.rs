#![allow(clippy::print_stderr, reason = "a test that skips says why")]
//! The GPU that tests use.

use std::env;

use crate::gpu::CudaGpu;

/// The first GPU. Without one the calling test is to skip, which this says on standard error.
///
/// # Panics
/// When there is none, and `gpu` is among the comma-separated words of `TCPX_TEST_REQUIRE`.
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
