//! Answer to whether another `test` may make progress although no descriptor becomes ready.

/// Answers of `needsCall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NeedsCall {
    /// No progress is possible before a descriptor becomes ready, or the caller acts.
    No = 0,
    /// In a while: the comm waits for an event that no descriptor shows.
    Soon = 1,
    /// At once: the step was long enough, and there is more to move.
    AtOnce = 2,
}

impl NeedsCall {
    /// Returns `self` if `is_so`, and `No` otherwise.
    pub(crate) fn when(self, is_so: bool) -> Self {
        if is_so { self } else { Self::No }
    }
}
