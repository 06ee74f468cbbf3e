//! Reason why a call of the plugin failed. A return code says little, so the caller may ask for the
//! reason on the same thread.

use std::cell::RefCell;
use std::sync::Arc;

use tcpx_devmem::DevmemError;

use crate::log;

thread_local! {
    static LAST: RefCell<Option<Arc<DevmemError>>> = const { RefCell::new(None) };
}

/// Returns why the last call of this plugin on this thread failed, if device memory or its NIC were
/// the reason. The error has its diagnosis.
#[must_use]
pub fn nic_failure() -> Option<Arc<DevmemError>> {
    // A thread that ends has no calls to ask about.
    LAST.try_with(|last| last.borrow().clone()).ok().flatten()
}

/// Notes this error as the reason why the call under way fails.
pub(crate) fn set_last_error(error: &Arc<DevmemError>) {
    let _ = LAST.try_with(|last| *last.borrow_mut() = Some(Arc::clone(error)));
}

/// Does the same, and logs the error.
pub(crate) fn log_and_set_last_error(what: &str, error: DevmemError) {
    match error.diagnosis() {
        Some(diagnosis) => log::warn!("{what}: {error} [{}]", diagnosis.code),
        None => log::warn!("{what}: {error}"),
    }
    set_last_error(&Arc::new(error));
}

/// Forgets the reason, because a call begins.
pub(crate) fn clear_last_error() {
    let _ = LAST.try_with(|last| last.borrow_mut().take());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_stays_on_its_thread_until_the_next_call() {
        log_and_set_last_error("listen", DevmemError::NoNic { nic: "eth9".to_owned() });
        let id = nic_failure().and_then(|error| Some(error.diagnosis()?.code.number()));
        assert_eq!(id, Some(428));
        std::thread::spawn(|| assert!(nic_failure().is_none())).join().expect("no panic");
        clear_last_error();
        assert!(nic_failure().is_none());
    }
}
