//! Requests of one comm: their order, and the first request that has failed.
//!
//! Send and receive comms answer `test` alike. They differ in what becomes of a request that is
//! done.

use std::fmt;
use std::net::TcpStream;

use super::request_ring::{Ring, TestOrder};
use crate::failure::Failure;
use crate::hooks::{CommHooks, Hook};
use crate::log;

/// Properties that the comms' requests have in common.
pub(crate) trait Request {
    /// Name of the request in the log.
    const NAME: &'static str;

    /// Returns whether all its bytes were moved.
    fn is_finished(&self) -> bool;
}

/// First request of a comm that has failed. Requests are served in order, so a request that fails
/// takes all later ones with it; earlier ones still complete.
#[derive(Clone, Copy, Debug, Default)]
struct FirstFailure(Option<(u64, Failure)>);

impl FirstFailure {
    /// Notes that request `from` cannot complete.
    fn note(&mut self, from: u64, failure: Failure) {
        if self.0.is_none_or(|(known, _)| from < known) {
            self.0 = Some((from, failure));
        }
    }

    /// Returns why request `number` cannot complete, if it cannot.
    fn of(self, number: u64) -> Option<Failure> {
        self.0.filter(|&(from, _)| from <= number).map(|(_, failure)| failure)
    }
}

/// The requests of a send or receive comm.
#[derive(Debug)]
pub(crate) struct Requests<T> {
    pub(crate) ring: Ring<T>,
    failed: FirstFailure,
    /// Next answer of `test`, for whatever request.
    passing: Option<Failure>,
    /// Hook of the comm.
    pub(crate) hook: Hook<dyn CommHooks>,
}

impl<T: Request> Requests<T> {
    pub(crate) fn new(hook: Hook<dyn CommHooks>) -> Self {
        Self { ring: Ring::new(), failed: FirstFailure(None), passing: None, hook }
    }

    /// Begins a call of `test`, which drives the comm over these sockets.
    pub(crate) fn begin_call<'a>(&mut self, mut sockets: impl Iterator<Item = &'a TcpStream>) {
        if let Some(hook) = self.hook.get_mut() {
            hook.drive(self.ring.posted(), &mut sockets);
        }
    }

    /// Adds a request and returns its number.
    pub(crate) fn post(&mut self, request: T) -> Result<u64, Failure> {
        self.ring.post(request).ok_or_else(|| {
            log::warn!("unable to allocate requests");
            Failure::Internal
        })
    }

    /// Makes this request, and all behind it, never get done.
    pub(crate) fn stick(&mut self, number: u64) {
        if let Some(hook) = self.hook.get_mut() {
            hook.posted_stuck(number);
        }
    }

    /// Returns the next request to put on the sockets, unless it has failed.
    pub(crate) fn next(&self) -> Option<u64> {
        let may_move = |&number: &u64| {
            self.failed.of(number).is_none()
                && self.hook.get().is_none_or(|hook| hook.admits(number))
        };
        self.ring.next_to_queue().filter(may_move)
    }

    /// Marks the request that [`Self::next`] names as wholly on the sockets.
    pub(crate) fn mark_queued(&mut self) {
        self.ring.mark_queued();
        if let Some(hook) = self.hook.get_mut() {
            hook.queued();
        }
    }

    /// Fails request `from` and all later ones.
    pub(crate) fn fail(&mut self, from: u64, failure: Failure) {
        self.failed.note(from, failure);
    }

    /// Does the same as [`Self::fail`], for a reason that is found, and would be logged, time and
    /// again.
    pub(crate) fn fail_once(&mut self, from: Option<u64>, failure: impl FnOnce() -> Failure) {
        if let Some(from) = from
            && self.failed.of(from).is_none()
        {
            self.fail(from, failure());
        }
    }

    /// Notes that the control socket has failed, which request `from` and all later ones need.
    pub(crate) fn lose_control(&mut self, from: u64, failure: Failure, why: &dyn fmt::Display) {
        if self.hook.get_mut().is_some_and(|hook| hook.control_lost(why)) {
            self.passing = Some(failure);
            return;
        }
        self.fail_once(Some(from), || {
            log::warn!("control socket failed: {why}");
            failure
        });
    }

    /// Returns whether request `number` is the oldest on the sockets and has finished: then `test`
    /// need not drive the comm.
    ///
    /// The next unfinished request drives the comm for all that were posted meanwhile. This makes
    /// many small messages cheap.
    pub(crate) fn is_done(&self, number: u64) -> bool {
        !self.hook.says(|hook| hook.drives_always())
            && self.ring.test_order(number) == TestOrder::Oldest
            && self.ring.get(number).is_some_and(Request::is_finished)
    }

    /// Returns the answer of `test` for request `number`.
    pub(crate) fn answer(&mut self, number: u64) -> Result<bool, Failure> {
        if let Some(failure) = self.passing.take() {
            return Err(failure);
        }
        let test_order = self.ring.test_order(number);
        if let Some(oldest) = self.ring.oldest_unreported()
            && test_order != TestOrder::Stale
            && let Some(failure) = self.failed.of(oldest)
        {
            return Err(failure);
        }
        match test_order {
            TestOrder::NothingMoves => Ok(false),
            TestOrder::Oldest => {
                let is_finished = self.ring.get(number).is_some_and(Request::is_finished);
                Ok(is_finished && self.hook.get().is_none_or(|hook| hook.reports(number)))
            }
            TestOrder::OutOfOrder { expected } => {
                let name = T::NAME;
                log::warn!(
                    "test called with invalid request, {name} {number}, {expected} comes first"
                );
                Err(Failure::Internal)
            }
            TestOrder::Stale => {
                if !self.ring.is_moving() && self.hook.says(|hook| hook.forgives_stale()) {
                    return Ok(false);
                }
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
