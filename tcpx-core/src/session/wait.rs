//! Until when a call waits.

use std::time::{Duration, Instant};

/// Until when to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimit {
    started_at: Instant,
    ends_at: Option<Instant>,
}

impl WaitLimit {
    pub(crate) fn for_time(time: Duration) -> Self {
        let started_at = Instant::now();
        Self { started_at, ends_at: started_at.checked_add(time) }
    }

    pub(crate) fn endless() -> Self {
        Self { started_at: Instant::now(), ends_at: None }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.ends_at.is_some_and(|ends_at| now >= ends_at)
    }

    pub(super) fn waited(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started_at)
    }

    /// What is left of this time before the limit.
    pub(super) fn cut(&self, time: Duration, now: Instant) -> Duration {
        let left = self.ends_at.map(|ends_at| ends_at.saturating_duration_since(now));
        left.map_or(time, |left| left.min(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lasts_longer_than_its_limit() {
        let (second, limit) =
            (Duration::from_secs(1), WaitLimit::for_time(Duration::from_millis(10)));
        let almost = limit.started_at + Duration::from_micros(9_990);
        assert_eq!(limit.cut(second, almost), Duration::from_micros(10));
        assert!(!limit.is_over(almost));
        let over = limit.started_at + second;
        assert!(limit.is_over(over));
        assert_eq!((limit.cut(second, over), limit.waited(over)), (Duration::ZERO, second));
        assert_eq!(WaitLimit::endless().cut(second, over), second);
    }
}
