//! Whether operations may be posted to a peer, as anybody may ask at any time.

use std::sync::atomic::{AtomicBool, Ordering};

/// Most operations that may be posted, by all threads together, between two looks of whoever holds
/// the engine.
pub(crate) const MOST_HANDED_IN: usize = 1024;

/// Written by whoever holds the engine; a reader may be a step behind.
#[derive(Debug, Default)]
pub(crate) struct PostGate {
    sends: AtomicBool,
    receives: AtomicBool,
}

impl PostGate {
    pub(super) fn set(&self, sends: bool, receives: bool) {
        self.sends.store(sends, Ordering::Relaxed);
        self.receives.store(receives, Ordering::Relaxed);
    }

    /// Whether sends are taken.
    pub(crate) fn takes_sends(&self) -> bool {
        self.sends.load(Ordering::Relaxed)
    }

    /// Whether receives are taken, [`MOST_HANDED_IN`] of them.
    pub(crate) fn takes_receives(&self) -> bool {
        self.receives.load(Ordering::Relaxed)
    }
}
