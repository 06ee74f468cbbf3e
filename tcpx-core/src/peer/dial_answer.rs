//! When this end says that it could not connect a peer's data channels. Pure.
//!
//! Where a peer alone says that an address is its own, it may want to know what is there: how soon
//! a dial fails tells a closed port from an open one, and from a host that is not there. So the
//! failure is kept until a time that no outcome changes, and a dial that is still under way then
//! has failed, too. What is said is the same in any case ([`Error::told_to_peer`]).

use std::time::{Duration, Instant};

use crate::error::{Departure, Error, Phase, Result};
use crate::types::peer_name::PeerName;

/// Longer than a plugin tries to connect to one who does not answer.
const ANSWER_AFTER: Duration = Duration::from_secs(25);

/// What has come of dialling a peer's channels, until it may be said.
#[derive(Debug, Default)]
pub(super) struct DialAnswer {
    /// `None`: a failure is said at once.
    due: Option<Instant>,
    failure: Option<Error>,
}

impl DialAnswer {
    /// The channels are dialled from now on, at addresses for which only the peer speaks.
    pub(super) fn claimed(now: Instant) -> Self {
        Self { due: Some(now + ANSWER_AFTER), failure: None }
    }

    /// A dial has failed.
    ///
    /// # Errors
    /// The failure, if it may be said at once.
    pub(super) fn failed(&mut self, error: Error) -> Result<()> {
        if self.due.is_none() {
            return Err(error);
        }
        self.failure.get_or_insert(error);
        Ok(())
    }

    /// # Errors
    /// What has failed, or not come to an end, once it is time to say so.
    pub(super) fn check(
        &mut self,
        peer: &PeerName,
        is_connected: bool,
        now: Instant,
    ) -> Result<()> {
        if is_connected || self.due.is_none_or(|due| now < due) {
            return Ok(());
        }
        let (waited, state) = (ANSWER_AFTER, Departure::DIAL_UNANSWERED);
        Err(self.failure.take().unwrap_or_else(|| Error::PeerGone {
            peer: peer.to_string(),
            phase: Phase::Connect,
            how: Departure::NeverUp { waited, state },
        }))
    }
}

#[cfg(test)]
mod tests {
    use tcpx_sys::NcclResult;

    use super::*;
    use crate::error::PluginFailure;

    fn failure(call: &'static str, code: NcclResult) -> Error {
        Error::Plugin(PluginFailure {
            call,
            code,
            phase: Phase::Connect,
            peer: Some("p".to_owned()),
            channel: Some(1),
            nic: None,
            cause: None,
        })
    }

    /// What the peer hears of each outcome, and when: of a closed port, of a host that is not there
    /// and of an open port that says nothing.
    #[test]
    fn a_peer_that_has_us_dial_elsewhere_learns_nothing_from_text_or_time() {
        let (peer, start) = (PeerName::bound("p"), Instant::now());
        let seconds = |seconds| start + Duration::from_secs_f64(seconds);
        let outcomes =
            [Some((0.8, NcclResult::SYSTEM_ERROR)), Some((3.9, NcclResult::INTERNAL_ERROR)), None];
        let heard = outcomes.map(|outcome| {
            let mut answer = DialAnswer::claimed(start);
            let mut said = None;
            for step in 0..400 {
                let now = seconds(f64::from(step) / 10.0);
                if let Some((at, code)) = outcome
                    && seconds(at) <= now
                {
                    assert!(answer.failed(failure("connect", code)).is_ok(), "it is kept");
                }
                if let Err(error) = answer.check(&peer, false, now) {
                    said = Some((step, error.told_to_peer()));
                    break;
                }
            }
            said.expect("it is said in the end")
        });
        assert_eq!(heard[0].0, 250);
        assert!(heard.iter().all(|one| *one == heard[0]), "{heard:?}");
    }

    #[test]
    fn who_is_dialled_at_its_own_address_is_told_at_once() {
        let mut answer = DialAnswer::default();
        let error = failure("connect", NcclResult::SYSTEM_ERROR);
        assert!(answer.failed(error).is_err());
        let later = Instant::now() + 2 * ANSWER_AFTER;
        assert!(answer.check(&PeerName::bound("p"), false, later).is_ok(), "nor given up");
        let mut connected = DialAnswer::claimed(Instant::now());
        assert!(connected.check(&PeerName::bound("p"), true, later).is_ok());
    }

    #[test]
    fn what_is_said_of_a_failed_dial_names_no_outcome() {
        let said = failure("connect", NcclResult::SYSTEM_ERROR).told_to_peer();
        assert!(said.ends_with("[TCPX-717]") && !said.contains("returned"), "{said}");
        assert_eq!(said, failure("connect", NcclResult::INTERNAL_ERROR).told_to_peer());
        let other = failure("accept", NcclResult::INTERNAL_ERROR);
        assert_eq!(other.told_to_peer(), other.to_string(), "its cause is at this end");
    }
}
