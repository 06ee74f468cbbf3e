//! Pace of the original: the few requests that each call of `test` puts on the sockets.
//!
//! A call takes up one new request, and hands the chunks of one request to the sockets. A request
//! is done some calls after it was taken up at the earliest, because others complete it meanwhile:
//! sixteen small messages take 22 calls.

use tcpx_sys::MAX_REQUESTS;

use crate::quirk::Quirk;
use crate::script::FaultScript;

/// Calls between the one that takes a request up and the first that may report it.
const CALLS_UNTIL_DONE: u64 = 6;

/// The pace of one comm. Pure: its callers say what happens.
#[derive(Debug)]
pub(crate) struct Pace {
    is_slow: bool,
    calls: u64,
    /// Requests that were taken up.
    taken: u64,
    /// By request, modulo sixteen: the call that took it up.
    taken_at: [u64; MAX_REQUESTS],
    /// Whether this call has handed a request to the sockets.
    has_queued: bool,
}

impl Pace {
    pub(crate) fn new(script: &FaultScript) -> Self {
        Self {
            is_slow: script.has(Quirk::Progress),
            calls: 0,
            taken: 0,
            taken_at: [0; MAX_REQUESTS],
            has_queued: false,
        }
    }

    /// Whether it is the original's.
    pub(crate) fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// Begins a call; `posted` requests were ever posted.
    pub(crate) fn begin_call(&mut self, posted: u64) {
        self.calls += 1;
        self.has_queued = false;
        if self.taken < posted {
            self.taken_at[slot(self.taken)] = self.calls;
            self.taken += 1;
        }
    }

    /// Whether this call may work on request `number`.
    pub(crate) fn admits(&self, number: u64) -> bool {
        !self.is_slow || number < self.taken && !self.has_queued
    }

    /// This call has handed a whole request to the sockets.
    pub(crate) fn queued(&mut self) {
        self.has_queued = true;
    }

    /// Whether request `number`, which is on the sockets, may be reported.
    pub(crate) fn reports(&self, number: u64) -> bool {
        !self.is_slow || self.calls >= self.taken_at[slot(number)] + CALLS_UNTIL_DONE
    }
}

fn slot(number: u64) -> usize {
    (number % MAX_REQUESTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_requests_take_22_calls() {
        let mut script = FaultScript::default();
        script.original = script.original.with(Quirk::Progress);
        let mut pace = Pace::new(&script);
        let (mut calls, mut queued, mut reported) = (0, 0, 0);
        while reported < 16 {
            pace.begin_call(16);
            calls += 1;
            while queued < 16 && pace.admits(queued) {
                queued += 1;
                pace.queued();
            }
            reported += u64::from(reported < queued && pace.reports(reported));
        }
        assert_eq!(calls, 22);
        let mut kind = Pace::new(&FaultScript::default());
        kind.begin_call(16);
        assert!((0..16).all(|number| kind.admits(number) && kind.reports(number)));
    }
}
