//! End of an engine and of its progress thread.

use std::task::Poll;
use std::time::{Duration, Instant};

use super::shared::SharedEngine;
use super::wait::WaitLimit;
use crate::engine::UNPACK_TIMEOUT;
use crate::error::Result;

/// Time in which copies and comms of ended peers must let go of memory, and calls of the plugin
/// must deregister it.
pub(super) const RELEASE_TIMEOUT: Duration = UNPACK_TIMEOUT.saturating_mul(2);

impl SharedEngine {
    /// Begins to say goodbye to all peers.
    pub(super) fn start_close(&self) -> Result<()> {
        self.engine()?.start_close();
        Ok(())
    }

    /// Waits until all peers have answered, closes everything, and ends the progress thread. The
    /// limits are those for goodbyes, and for letting go of memory after them.
    pub(super) fn finish_close(
        &self,
        (close_timeout, release_timeout): (Duration, Duration),
    ) -> Result<()> {
        let start = Instant::now();
        let closed = self.wait(
            WaitLimit::for_time(close_timeout),
            |engine| Ok(if engine.is_quiet() { Poll::Ready(()) } else { Poll::Pending }),
            |engine, waited, now| engine.close_deadline(waited, now),
        );
        self.engine()?.finish_close();
        // Lingering remains end, or are given up, within a time of their own.
        let settled = self.wait(
            WaitLimit::for_time(release_timeout),
            |engine| {
                let is_over = engine.is_settled_or_given_up();
                Ok(if is_over { Poll::Ready(()) } else { Poll::Pending })
            },
            |engine, waited, _| engine.unsettled(waited),
        );
        self.stop_thread();
        settled?;
        let engine = self.engine()?;
        if !engine.is_settled() {
            return Err(engine.unsettled(start.elapsed()));
        }
        // Everything is closed: only the workers must still end.
        let (workers, patience) =
            (engine.resources.workers.clone(), engine.patience_with_workers());
        drop(engine);
        workers.finish(patience);
        closed
    }

    /// Closes an engine that nothing has used.
    pub(super) fn close_unused(&self) {
        let times = (Duration::ZERO, RELEASE_TIMEOUT);
        if let Err(error) = self.start_close().and_then(|()| self.finish_close(times)) {
            tracing::warn!(%error, "an engine that nothing has used did not end cleanly");
        }
    }
}
