//! The requests of one comm: their order, and from which one on they have failed.
//!
//! Send and receive comms answer `test` alike. What differs is what becomes of a request that is
//! done.

use super::request_ring::{Ring, Turn};
use crate::failure::Failure;
use crate::log;

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
}

impl<T: Request> Requests<T> {
    pub(crate) const fn new() -> Self {
        Self { ring: Ring::new(), failed: FirstFailure(None) }
    }

    /// Adds a request and returns its number.
    pub(crate) fn post(&mut self, request: T) -> Result<u64, Failure> {
        self.ring.post(request).ok_or_else(|| {
            log::warn!("unable to allocate requests");
            Failure::Internal
        })
    }

    /// The next request to put on the sockets, unless it has failed.
    pub(crate) fn next(&self) -> Option<u64> {
        self.ring.next_to_queue().filter(|&number| self.failed.of(number).is_none())
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

    /// Whether request `number` is the oldest on the sockets and has finished: then `test` need not
    /// drive the comm.
    ///
    /// The next unfinished one drives it for all that were posted meanwhile. That is what makes
    /// many small messages cheap.
    pub(crate) fn is_done(&self, number: u64) -> bool {
        self.ring.turn(number) == Turn::Oldest
            && self.ring.get(number).is_some_and(Request::is_finished)
    }

    /// What `test` answers for request `number`.
    pub(crate) fn answer(&self, number: u64) -> Result<bool, Failure> {
        let turn = self.ring.turn(number);
        if let Some(oldest) = self.ring.oldest_unreported()
            && turn != Turn::Stale
            && let Some(failure) = self.failed.of(oldest)
        {
            return Err(failure);
        }
        match turn {
            Turn::NothingMoves => Ok(false),
            Turn::Oldest => Ok(self.ring.get(number).is_some_and(Request::is_finished)),
            Turn::OutOfOrder { expected } => {
                let name = T::NAME;
                log::warn!(
                    "test called with invalid request, {name} {number}, {expected} comes first"
                );
                Err(Failure::Internal)
            }
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
