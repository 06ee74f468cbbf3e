//! What a failed call of the plugin was about. A return code says little, so whoever made the call
//! may ask on the same thread.

use std::cell::RefCell;
use std::sync::Arc;

use tcpx_devmem::DevmemError;

use crate::log;

thread_local! {
    static LAST: RefCell<Option<Arc<DevmemError>>> = const { RefCell::new(None) };
}

/// Why the last call of this plugin on this thread failed, if device memory or its NIC were why.
/// The error has its diagnosis.
#[must_use]
pub fn nic_failure() -> Option<Arc<DevmemError>> {
    // A thread that ends has no calls to ask about.
    LAST.try_with(|last| last.borrow().clone()).ok().flatten()
}

/// The call that is under way fails for this reason.
pub(crate) fn blame(error: &Arc<DevmemError>) {
    let _ = LAST.try_with(|last| *last.borrow_mut() = Some(Arc::clone(error)));
}

/// The same, and says so.
pub(crate) fn log_and_blame(what: &str, error: DevmemError) {
    match error.diagnosis() {
        Some(diagnosis) => log::warn!("{what}: {error} [{}]", diagnosis.code),
        None => log::warn!("{what}: {error}"),
    }
    blame(&Arc::new(error));
}

/// A call begins.
pub(crate) fn forget_blame() {
    let _ = LAST.try_with(|last| last.borrow_mut().take());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_blamed_on_its_own_thread_until_the_next() {
        log_and_blame("listen", DevmemError::NoNic { nic: "eth9".to_owned() });
        let id = nic_failure().and_then(|error| Some(error.diagnosis()?.code.number()));
        assert_eq!(id, Some(428));
        std::thread::spawn(|| assert!(nic_failure().is_none())).join().expect("no panic");
        forget_blame();
        assert!(nic_failure().is_none());
    }
}
