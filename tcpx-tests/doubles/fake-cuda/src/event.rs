//! Events: marks in a stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::gpu::Gpu;
use crate::handles::Handles;
use crate::stream::Stream;

/// The events of this process.
pub(crate) static EVENTS: Handles<Event> = Handles::new();

/// The newest of its marks counts.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) gpu: &'static Gpu,
    made: AtomicU64,
    reached: AtomicU64,
}

impl Event {
    pub(crate) fn new(gpu: &'static Gpu) -> Arc<Self> {
        Arc::new(Self { gpu, made: AtomicU64::new(0), reached: AtomicU64::new(0) })
    }

    pub(crate) fn record(self: &Arc<Self>, stream: &Stream) {
        let mark = self.made.fetch_add(1, Ordering::AcqRel) + 1;
        let event = Arc::clone(self);
        stream.push(move || {
            event.reached.fetch_max(mark, Ordering::AcqRel);
            Ok(())
        });
    }

    /// Whether the work before the newest mark is done, or there is no mark.
    pub(crate) fn is_reached(&self) -> bool {
        self.reached.load(Ordering::Acquire) >= self.made.load(Ordering::Acquire)
    }
}
