//! The requests of one comm: their order, and from which one on they have failed.
//!
//! Send and receive comms answer `test` alike. What differs is what becomes of a request that is
//! done.

use std::fmt;

use super::request_ring::{NUMBER_BITS, Ring, SLOT_BITS, Turn};
use crate::failure::Failure;
use crate::faults::{FaultScript, Pace};
use crate::log;
use crate::quirk::Quirk;

/// What the comms' requests have in common.
pub(crate) trait Request {
    /// What the log calls it.
    const NAME: &'static str;

    /// Whether all its bytes were moved.
    fn is_finished(&self) -> bool;
}

/// From which request on a comm has failed. Requests are served in order, so one that fails takes
/// all later ones with it; earlier ones still complete.
#[derive(Clone, Copy, Debug, Default)]
struct FirstFailure(Option<(u64, Failure)>);

impl FirstFailure {
    /// Request `from` cannot complete.
    fn note(&mut self, from: u64, failure: Failure) {
        if self.0.is_none_or(|(known, _)| from < known) {
            self.0 = Some((from, failure));
        }
    }

    /// Why request `number` cannot complete, if it cannot.
    fn of(self, number: u64) -> Option<Failure> {
        self.0.filter(|&(from, _)| from <= number).map(|(_, failure)| failure)
    }
}

/// The requests of a send or receive comm.
#[derive(Debug)]
pub(crate) struct Requests<T> {
    pub(crate) ring: Ring<T>,
    failed: FirstFailure,
    pace: Pace,
    /// Whether a failed control socket fails single calls of `test` instead of requests.
    forgets: bool,
    /// What the next answer of `test` is, whatever is asked.
    passing: Option<Failure>,
    has_told: bool,
    /// The first request that never gets on the sockets.
    stuck_at: Option<u64>,
}

impl<T: Request> Requests<T> {
    pub(crate) fn new(script: &FaultScript) -> Self {
        let id_bits = if script.has(Quirk::Pointers) { SLOT_BITS } else { NUMBER_BITS };
        Self {
            ring: Ring::new(id_bits),
            failed: FirstFailure(None),
            pace: Pace::new(script),
            forgets: script.has(Quirk::Silence),
            passing: None,
            has_told: false,
            stuck_at: None,
        }
    }

    /// Whether they are put on the sockets, and answered for, as the original does.
    pub(crate) fn is_slow(&self) -> bool {
        self.pace.is_slow()
    }

    /// `test` drives the comm.
    pub(crate) fn begin_call(&mut self) {
        self.pace.begin_call(self.ring.posted());
    }

    /// Adds a request and returns its number.
    pub(crate) fn post(&mut self, request: T) -> Result<u64, Failure> {
        self.ring.post(request).ok_or_else(|| {
            log::warn!("unable to allocate requests");
            Failure::Internal
        })
    }

    /// This request never gets done, and nothing behind it: a thread of the original has ended over
    /// it.
    pub(crate) fn stick(&mut self, number: u64) {
        self.stuck_at.get_or_insert(number);
    }

    /// The next request to put on the sockets, unless it has failed.
    pub(crate) fn next(&self) -> Option<u64> {
        let may_move = |&number: &u64| {
            self.failed.of(number).is_none()
                && self.stuck_at.is_none_or(|at| number < at)
                && self.pace.admits(number)
        };
        self.ring.next_to_queue().filter(may_move)
    }

    /// The request that [`Self::next`] names is wholly on the sockets now.
    pub(crate) fn mark_queued(&mut self) {
        self.ring.mark_queued();
        self.pace.queued();
    }

    /// Request `from` cannot complete.
    pub(crate) fn fail(&mut self, from: u64, failure: Failure) {
        self.failed.note(from, failure);
    }

    /// As [`Self::fail`], for a reason that is found, and would be logged, time and again.
    pub(crate) fn fail_once(&mut self, from: Option<u64>, failure: impl FnOnce() -> Failure) {
        if let Some(from) = from
            && self.failed.of(from).is_none()
        {
            self.fail(from, failure());
        }
    }

    /// The control socket has failed, which request `from` and all later ones need.
    pub(crate) fn lose_control(&mut self, from: u64, failure: Failure, why: &dyn fmt::Display) {
        if !self.forgets {
            return self.fail_once(Some(from), || {
                log::warn!("control socket failed: {why}");
                failure
            });
        }
        if !self.has_told {
            log::warn!("control socket failed: {why}");
        }
        self.has_told = true;
        self.passing = Some(failure);
    }

    /// Whether request `number` is the oldest on the sockets and has finished: then `test` need not
    /// drive the comm.
    ///
    /// The next unfinished one drives it for all that were posted meanwhile. That is what makes
    /// many small messages cheap.
    pub(crate) fn is_done(&self, number: u64) -> bool {
        let drives_always = self.forgets || self.pace.is_slow();
        !drives_always
            && self.ring.turn(number) == Turn::Oldest
            && self.ring.get(number).is_some_and(Request::is_finished)
    }

    /// What `test` answers for request `number`.
    pub(crate) fn answer(&mut self, number: u64) -> Result<bool, Failure> {
        if let Some(failure) = self.passing.take() {
            return Err(failure);
        }
        let turn = self.ring.turn(number);
        if let Some(oldest) = self.ring.oldest_unreported()
            && turn != Turn::Stale
            && let Some(failure) = self.failed.of(oldest)
        {
            return Err(failure);
        }
        match turn {
            Turn::NothingMoves => Ok(false),
            Turn::Oldest => {
                let is_finished = self.ring.get(number).is_some_and(Request::is_finished);
                Ok(is_finished && self.pace.reports(number))
            }
            Turn::OutOfOrder { expected } => {
                let name = T::NAME;
                log::warn!(
                    "test called with invalid request, {name} {number}, {expected} comes first"
                );
                Err(Failure::Internal)
            }
            // Of nothing that moves the original says that it is not done.
            Turn::Stale if self.pace.is_slow() && !self.ring.is_moving() => Ok(false),
            Turn::Stale => {
                log::warn!("test called with invalid request: it is done already");
                Err(Failure::Internal)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_failure_counts_from_its_request_on() {
        let mut broken = FirstFailure::default();
        assert_eq!(broken.of(u64::MAX), None);
        broken.note(7, Failure::System);
        broken.note(9, Failure::Internal);
        assert_eq!(
            (broken.of(6), broken.of(7), broken.of(9)),
            (None, Some(Failure::System), Some(Failure::System))
        );
        broken.note(3, Failure::Internal);
        assert_eq!((broken.of(2), broken.of(7)), (None, Some(Failure::Internal)));
    }
}
