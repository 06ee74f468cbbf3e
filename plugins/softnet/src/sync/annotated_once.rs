//! Cell written once that reports the write to helgrind, or lets a test decide which thread comes
//! next.

#[cfg(tcpx_helgrind)]
use super::client_request::{after, before, untrack};
#[cfg(all(test, not(tcpx_helgrind)))]
use super::exploration::{after, before, untrack};

/// As `std::sync::OnceLock`. The cell itself is not watched; what it points to is.
#[derive(Debug)]
pub(crate) struct OnceLock<T>(std::sync::OnceLock<T>);

impl<T> OnceLock<T> {
    pub(crate) const fn new() -> Self {
        Self(std::sync::OnceLock::new())
    }

    pub(crate) fn get(&self) -> Option<&T> {
        untrack(&self.0);
        self.0.get().inspect(|_| after(&self.0))
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        untrack(&self.0);
        before(&self.0);
        self.0.set(value)
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        untrack(&self.0);
        let value = self.0.get_or_init(|| {
            let value = make();
            before(&self.0);
            value
        });
        after(&self.0);
        value
    }
}
