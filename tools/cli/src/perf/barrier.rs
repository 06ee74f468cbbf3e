//! Barrier of the ends of a server's several clients, so that all send at once.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::deadline::Deadline;
use crate::failure::Failure;

/// Barrier that opens when all ends have arrived, and agrees on the smallest of their proposals.
#[derive(Debug)]
pub(super) struct Barrier {
    ends: usize,
    state: Mutex<BarrierState>,
    changed: Condvar,
}

#[derive(Debug)]
struct BarrierState {
    /// How often the barrier has opened.
    generation: u64,
    arrived: usize,
    /// Smallest proposal of the ends that have arrived.
    smallest: u32,
    /// Result of the last opening.
    agreed: u32,
    /// Whether one end has failed.
    is_aborted: bool,
}

impl Barrier {
    pub(super) fn new(ends: usize) -> Self {
        let state = BarrierState {
            generation: 0,
            arrived: 0,
            smallest: u32::MAX,
            agreed: 0,
            is_aborted: false,
        };
        Self { ends, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for all ends. Returns the smallest proposal.
    pub(super) fn wait(&self, proposal: u32, waited: Deadline) -> Result<u32, Failure> {
        let mut state = self.lock();
        state.arrived += 1;
        state.smallest = state.smallest.min(proposal);
        if state.arrived == self.ends {
            let agreed = std::mem::replace(&mut state.smallest, u32::MAX);
            (state.arrived, state.agreed) = (0, agreed);
            state.generation += 1;
            self.changed.notify_all();
            return Ok(agreed);
        }
        let generation = state.generation;
        loop {
            if state.generation != generation {
                return Ok(state.agreed);
            }
            if state.is_aborted {
                return Err(Failure::OtherClient(
                    "the measurement with another client failed".into(),
                ));
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

    /// Ends the wait of the others after the failure of one end.
    pub(super) fn abort(&self) {
        self.lock().is_aborted = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, BarrierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_barrier_opens_when_all_have_arrived_with_the_smallest_proposal() {
        let barrier = Barrier::new(3);
        let minute = Deadline::after(Duration::from_secs(60));
        let both = thread::scope(|scope| {
            let barrier = &barrier;
            let ends = [7, 5, 9].map(|own: u32| {
                scope.spawn(move || {
                    let first = barrier.wait(own, minute).unwrap();
                    (first, barrier.wait(own + first, minute).unwrap())
                })
            });
            ends.map(|end| end.join().unwrap())
        });
        assert_eq!(both, [(5, 10); 3]);
    }

    #[test]
    fn an_abort_and_a_deadline_end_the_wait() {
        let barrier = Barrier::new(2);
        let late = barrier.wait(1, Deadline::after(Duration::ZERO)).unwrap_err();
        assert!(matches!(late, Failure::OutOfTime { .. }), "{late}");
        let barrier = Barrier::new(2);
        thread::scope(|scope| {
            let other = scope.spawn(|| barrier.wait(1, Deadline::after(Duration::from_secs(60))));
            barrier.abort();
            assert!(matches!(other.join().unwrap(), Err(Failure::OtherClient(_))));
        });
    }
}
