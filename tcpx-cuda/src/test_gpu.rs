//! The GPU that unit tests use.

use std::env;

use crate::CudaGpu;

/// The first GPU. Without one the test skips, unless a GPU is required.
pub(crate) fn test_gpu() -> Option<CudaGpu> {
    let required = env::var("TCPX_TEST_REQUIRE").unwrap_or_default();
    match CudaGpu::open(0) {
        Ok(gpu) => Some(gpu),
        Err(error) if required.split(',').any(|word| word.trim() == "gpu") => {
            panic!("a GPU is required, but {error}")
        }
        Err(error) => {
            eprintln!("this test is skipped: {error}");
            None
        }
    }
}
