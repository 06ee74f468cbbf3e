//! Reason why a call of the plugin failed. A return code says little, so the caller may ask for the
//! reason on the same thread.

use std::cell::RefCell;
use std::sync::Arc;

use tcpx_devmem::DevmemError;

use crate::log;

/// Reason why a call failed, where the plugin knows one that its return code does not say.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FailureReason {
    /// Device memory or its NIC. The error has its diagnosis.
    Nic(Arc<DevmemError>),
    /// Bytes that came over an encrypted socket are not those that the peer sent.
    Tampered,
}

thread_local! {
    static LAST: RefCell<Option<FailureReason>> = const { RefCell::new(None) };
}

/// Returns why the last call of this plugin on this thread failed, if the plugin knows.
#[must_use]
pub fn last_failure() -> Option<FailureReason> {
    // A thread that ends has no calls to ask about.
    LAST.try_with(|last| last.borrow().clone()).ok().flatten()
}

/// Notes this as the reason why the call under way fails.
pub(crate) fn set_last_failure(reason: FailureReason) {
    let _ = LAST.try_with(|last| *last.borrow_mut() = Some(reason));
}

/// Notes an error of a NIC as the reason, and logs the error.
pub(crate) fn log_and_set_last_failure(what: &str, error: DevmemError) {
    match error.diagnosis() {
        Some(diagnosis) => log::warn!("{what}: {error} [{}]", diagnosis.code),
        None => log::warn!("{what}: {error}"),
    }
    set_last_failure(FailureReason::Nic(Arc::new(error)));
}

/// Forgets the reason, because a call begins.
pub(crate) fn clear_last_failure() {
    let _ = LAST.try_with(|last| last.borrow_mut().take());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_stays_on_its_thread_until_the_next_call() {
        log_and_set_last_failure("listen", DevmemError::NoNic { nic: "eth9".to_owned() });
        let Some(FailureReason::Nic(error)) = last_failure() else { panic!("a NIC") };
        assert_eq!(error.diagnosis().map(|diagnosis| diagnosis.code.number()), Some(428));
        std::thread::spawn(|| assert!(last_failure().is_none())).join().expect("no panic");
        clear_last_failure();
        assert!(last_failure().is_none());
    }
}
