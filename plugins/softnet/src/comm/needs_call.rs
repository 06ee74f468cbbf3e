//! Whether a further `test` may get further although no descriptor becomes ready.

/// The answers of `needsCall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NeedsCall {
    /// Nothing happens before a descriptor becomes ready, or the caller does something.
    No = 0,
    /// In a while: it waits for what no descriptor tells.
    Soon = 1,
    /// At once: the step was long enough, and there is more to move.
    AtOnce = 2,
}

impl NeedsCall {
    /// `self` if it is so.
    pub(crate) fn when(self, is_so: bool) -> Self {
        if is_so { self } else { Self::No }
    }
}
