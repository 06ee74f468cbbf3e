//! Barrier of the ends of a server's several clients, so that all send at once.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::deadline::Deadline;
use crate::failure::Failure;

/// Barrier that opens when all ends are there.
#[derive(Debug)]
pub(super) struct Together {
    members: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Times that all have met.
    meetings: u64,
    here: usize,
    /// Smallest proposal of the ends that are here.
    least: u32,
    /// Value that the last meeting agreed on.
    agreed: u32,
    /// Whether one of them came to an end.
    is_over: bool,
}

impl Together {
    pub(super) fn new(members: usize) -> Self {
        let state = State { meetings: 0, here: 0, least: u32::MAX, agreed: 0, is_over: false };
        Self { members, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for all. Returns the smallest proposal.
    pub(super) fn meet(&self, proposal: u32, waited: Deadline) -> Result<u32, Failure> {
        let mut state = self.lock();
        state.here += 1;
        state.least = state.least.min(proposal);
        if state.here == self.members {
            let agreed = std::mem::replace(&mut state.least, u32::MAX);
            (state.here, state.agreed) = (0, agreed);
            state.meetings += 1;
            self.changed.notify_all();
            return Ok(agreed);
        }
        let meeting = state.meetings;
        loop {
            if state.meetings != meeting {
                return Ok(state.agreed);
            }
            if state.is_over {
                return Err(Failure::Others("the measurement with another client failed".into()));
            }
            let left = waited.left();
            if left.is_zero() {
                let doing = "waiting until all clients are ready".to_owned();
                return Err(Failure::OutOfTime { doing, waited });
            }
            let waiting = self.changed.wait_timeout(state, left);
            (state, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes that one end has ended, so that the others need not wait any more.
    pub(super) fn leave(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn nobody_passes_before_all_are_there_and_the_least_counts() {
        let together = Together::new(3);
        let minute = Deadline::after(Duration::from_secs(60));
        let both = thread::scope(|scope| {
            let together = &together;
            let ends = [7, 5, 9].map(|own: u32| {
                scope.spawn(move || {
                    let first = together.meet(own, minute).unwrap();
                    (first, together.meet(own + first, minute).unwrap())
                })
            });
            ends.map(|end| end.join().unwrap())
        });
        assert_eq!(both, [(5, 10); 3]);
    }

    #[test]
    fn who_leaves_ends_the_wait_of_the_others_and_so_does_time() {
        let together = Together::new(2);
        let late = together.meet(1, Deadline::after(Duration::ZERO)).unwrap_err();
        assert!(matches!(late, Failure::OutOfTime { .. }), "{late}");
        let together = Together::new(2);
        thread::scope(|scope| {
            let other = scope.spawn(|| together.meet(1, Deadline::after(Duration::from_secs(60))));
            together.leave();
            assert!(matches!(other.join().unwrap(), Err(Failure::Others(_))));
        });
    }
}
