//! Sessions of the GPU tests: both ends in one process.

use std::time::Duration;

use tcpx_core::{Session, UnpackChoice};
use tcpx_tests::sessions::{open, soft};

/// On this GPU, or with emulated device memory. Where ends are dropped one after the other, the
/// first one's goodbye has no answer.
pub(crate) fn session(gpu: Option<u32>, unpack: UnpackChoice) -> Session {
    open(soft().gpu(gpu).unpack(unpack).close_timeout(Duration::from_secs(5)))
}
