//! Deferred failure of a plugin call. Calls fail in this way when the other end, or the way to it,
//! has died, or when the other end cannot take a connection. Pure.
//!
//! The control link shows best why a peer ended. The system closes the sockets of a dead process
//! one by one, so a comm may fail before the link does. Such a failure waits a moment for the
//! link to report the cause.

use std::time::{Duration, Instant};

use tcpx_sys::NcclResult;

use crate::error::{Error, Phase, PluginFailure};

/// Time that the link has to report the cause.
const GRACE_PERIOD: Duration = Duration::from_millis(500);

/// Failure whose cause the control link may be about to report.
#[derive(Debug)]
pub(super) struct DeferredFailure {
    error: Error,
    since: Instant,
}

impl DeferredFailure {
    /// Defers an error that a dead peer may cause, or a peer that did not let this end connect. Any
    /// other error is returned: its cause is clear.
    pub(super) fn new(error: Error, now: Instant) -> Result<Self, Error> {
        match error {
            Error::Plugin(PluginFailure {
                cause: Some(_),
                phase: Phase::Accept | Phase::Connect,
                ..
            }) => Err(error),
            Error::Plugin(PluginFailure {
                code: NcclResult::SYSTEM_ERROR | NcclResult::REMOTE_ERROR,
                ..
            })
            | Error::Plugin(PluginFailure { phase: Phase::Connect, .. }) => {
                Ok(Self { error, since: now })
            }
            _ => Err(error),
        }
    }

    /// Returns the end of the grace period.
    pub(super) fn ends_at(&self) -> Instant {
        self.since + GRACE_PERIOD
    }

    /// Returns the error once the grace period is over, if the link has reported no other cause.
    pub(super) fn check(&self, now: Instant) -> Result<(), Error> {
        if now.saturating_duration_since(self.since) < GRACE_PERIOD {
            return Ok(());
        }
        Err(self.error.clone())
    }
}

#[cfg(test)]
mod tests {
    use tcpx_diagnosis::Finding;
    use tcpx_diagnosis::table::daemon::RXDM_REFUSES;

    use super::*;

    fn failure(code: NcclResult) -> Error {
        failure_of("test", code, Phase::Send, None)
    }

    fn failure_of(
        call: &'static str,
        code: NcclResult,
        phase: Phase,
        cause: Option<Box<Finding>>,
    ) -> Error {
        let (peer, channel, nic) = (Some("far".to_owned()), Some(0), None);
        Error::Plugin(PluginFailure { call, code, phase, peer, channel, nic, cause })
    }

    #[test]
    fn the_end_that_does_not_accept_knows_why() {
        let now = Instant::now();
        let cause = || Some(Box::new(Finding::new(&RXDM_REFUSES, "refused".to_owned())));
        let connect =
            |cause| failure_of("connect", NcclResult::INTERNAL_ERROR, Phase::Connect, cause);
        assert!(DeferredFailure::new(connect(None), now).is_ok());
        let accept = |code, cause| {
            DeferredFailure::new(failure_of("accept", code, Phase::Accept, cause), now)
        };
        for clear in [
            DeferredFailure::new(connect(cause()), now),
            accept(NcclResult::INTERNAL_ERROR, None),
            accept(NcclResult::SYSTEM_ERROR, cause()),
        ] {
            clear.expect_err("this end knows why");
        }
        assert!(accept(NcclResult::SYSTEM_ERROR, None).is_ok());
    }

    #[test]
    fn an_error_of_sockets_waits_for_the_link_and_no_longer() {
        let now = Instant::now();
        for code in [NcclResult::SYSTEM_ERROR, NcclResult::REMOTE_ERROR] {
            let deferred =
                DeferredFailure::new(failure(code), now).expect("the link may know more");
            assert!(deferred.check(now).is_ok());
            assert!(deferred.check(now + GRACE_PERIOD / 2).is_ok());
            let Err(Error::Plugin(failed)) = deferred.check(now + GRACE_PERIOD) else {
                panic!("the link said nothing, so the plugin's error is all there is")
            };
            assert_eq!(failed.code, code);
        }
    }

    #[test]
    fn other_errors_come_back_at_once() {
        let now = Instant::now();
        for error in [failure(NcclResult::INTERNAL_ERROR), Error::Closed] {
            let text = error.to_string();
            let back = DeferredFailure::new(error, now).expect_err("no dead peer looks like this");
            assert_eq!(back.to_string(), text);
        }
    }
}
