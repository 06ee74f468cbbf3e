//! The end of a stream's copies, for a comm that closes.

use std::thread;
use std::time::{Duration, Instant};

use tcpx_cuda::Stream;

/// How long the end of a comm waits for copies that still run.
pub(super) const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// Waits until no copy of the stream reads or writes memory any more; false when that takes too
/// long.
pub(super) fn drain(stream: &Stream) -> bool {
    let start = Instant::now();
    // An error means that the context is broken, and with it whatever was queued.
    while matches!(stream.is_idle(), Ok(false)) {
        if start.elapsed() > DRAIN_LIMIT {
            return false;
        }
        thread::yield_now();
    }
    true
}
