//! Check whether there is a GPU for a test.

/// Whether a test that needs a GPU can run; says so if not.
///
/// # Panics
/// When there is none, and `gpu` is among the words of `TCPX_TEST_REQUIRE`.
#[must_use]
pub fn has_gpu() -> bool {
    tcpx_core::gpu_count() > 0 || tcpx_testkit::skip("gpu", "the CUDA driver shows no GPU")
}
