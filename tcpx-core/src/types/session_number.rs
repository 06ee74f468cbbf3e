//! Which session of the process something belongs to.

use std::sync::atomic::{AtomicU64, Ordering};

/// A session's number in its process. No two have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionNumber(u64);

impl SessionNumber {
    /// The number of a new session.
    pub(crate) fn next() -> Self {
        static USED: AtomicU64 = AtomicU64::new(0);
        Self(USED.fetch_add(1, Ordering::Relaxed))
    }
}
