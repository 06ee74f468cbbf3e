//! Trouble that may pass, and is an end when it lasts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tcpx_devmem::DevmemError;

/// Time since when there has been trouble.
#[derive(Debug, Default)]
pub(crate) struct LastingTrouble {
    since: Option<Instant>,
}

impl LastingTrouble {
    /// Takes the present trouble, if there is any. Returns whether it has lasted for `limit`.
    pub(crate) fn update(
        &mut self,
        trouble: Option<Arc<DevmemError>>,
        limit: Option<Duration>,
    ) -> Option<Arc<DevmemError>> {
        let Some(error) = trouble else {
            self.since = None;
            return None;
        };
        let since = *self.since.get_or_insert_with(Instant::now);
        limit.is_some_and(|limit| since.elapsed() >= limit).then_some(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trouble_that_lasts_is_an_end() {
        let trouble = || Some(Arc::new(DevmemError::NicDown { nic: "eth1".to_owned() }));
        let mut lasting = LastingTrouble::default();
        let long = Some(Duration::from_secs(3600));
        assert!(lasting.update(trouble(), long).is_none());
        assert!(lasting.update(trouble(), None).is_none(), "no limit is set");
        assert!(lasting.update(trouble(), Some(Duration::ZERO)).is_some());
        assert!(lasting.update(None, Some(Duration::ZERO)).is_none());
        assert!(lasting.since.is_none(), "it begins anew");
    }
}
