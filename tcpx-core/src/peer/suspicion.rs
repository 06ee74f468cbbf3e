//! A plugin call that failed as calls do when the other end has died. Pure.

use std::time::{Duration, Instant};

use tcpx_sys::NcclResult;

use crate::error::{Error, PluginFailure};

/// How long the control link may take to tell that the peer has died, which is the better error. The system closes the
/// sockets of a dead process one by one, so a comm may end before the link does.
const SETTLES_IN: Duration = Duration::from_millis(500);

/// A failure whose cause the control link may be about to tell.
#[derive(Debug)]
pub(super) struct DeferredFailure {
    error: Error,
    since: Instant,
}

impl DeferredFailure {
    /// What to think of an error: with most it is clear at once that they are the end, and they come back.
    pub(super) fn of(error: Error, now: Instant) -> Result<Self, Error> {
        match error {
            Error::Plugin(PluginFailure {
                code: NcclResult::SYSTEM_ERROR | NcclResult::REMOTE_ERROR,
                ..
            }) => Ok(Self { error, since: now }),
            _ => Err(error),
        }
    }

    /// The error, once the link has had its time and told of no other cause.
    pub(super) fn verdict(&self, now: Instant) -> Result<(), Error> {
        if now.saturating_duration_since(self.since) < SETTLES_IN {
            return Ok(());
        }
        Err(self.error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Phase;

    fn failure(code: NcclResult) -> Error {
        let (peer, channel, nic) = (Some("far".to_owned()), Some(0), None);
        Error::Plugin(PluginFailure { call: "test", code, phase: Phase::Send, peer, channel, nic })
    }

    #[test]
    fn an_error_of_sockets_waits_for_the_link_and_no_longer() {
        let now = Instant::now();
        for code in [NcclResult::SYSTEM_ERROR, NcclResult::REMOTE_ERROR] {
            let suspicion =
                DeferredFailure::of(failure(code), now).expect("the link may know more");
            assert!(suspicion.verdict(now).is_ok());
            assert!(suspicion.verdict(now + SETTLES_IN / 2).is_ok());
            let Err(Error::Plugin(failed)) = suspicion.verdict(now + SETTLES_IN) else {
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
            let back = DeferredFailure::of(error, now).expect_err("no dead peer looks like this");
            assert_eq!(back.to_string(), text);
        }
    }
}
