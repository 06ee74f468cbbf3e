//! How much a lane does at once, so that nobody waits long for the lock. Pure.

/// Payload that one step of a lane moves where the calling thread copies it, about 50 µs of work:
/// the step ends with the chunk that reaches it.
pub(crate) const STEP_BYTES: u64 = 256 << 10;
/// Requests that one step finishes, about as long.
const STEP_REQUESTS: u32 = 32;

/// What one step of a lane came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub(crate) struct LaneStep {
    /// Anything was posted, sent, or has arrived.
    pub(crate) moved: bool,
    /// The step ended because it was long enough: there is more to do at once, and no descriptor
    /// need become ready for it.
    pub(crate) more: bool,
}

/// What a step may still do.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepBudget {
    bytes: u64,
    requests: u32,
}

impl StepBudget {
    /// A step that moves so many bytes, `u64::MAX` where the calling thread moves none.
    pub(super) fn new(bytes: u64) -> Self {
        Self { bytes, requests: STEP_REQUESTS }
    }

    /// A request has finished, and had so many bytes.
    pub(super) fn spend(&mut self, bytes: u32) {
        self.bytes = self.bytes.saturating_sub(u64::from(bytes));
        self.requests = self.requests.saturating_sub(1);
    }

    /// Whether the step has done enough.
    pub(super) fn is_spent(&self) -> bool {
        self.bytes == 0 || self.requests == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_ends_with_enough_bytes_or_enough_requests() {
        let mut budget = StepBudget::new(100);
        budget.spend(99);
        assert!(!budget.is_spent());
        budget.spend(512);
        assert!(budget.is_spent());

        let mut budget = StepBudget::new(u64::MAX);
        (1..STEP_REQUESTS).for_each(|_| budget.spend(u32::MAX));
        assert!(!budget.is_spent(), "bytes that nobody copies here");
        budget.spend(0);
        assert!(budget.is_spent());
    }
}
