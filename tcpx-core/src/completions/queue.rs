//! Queue of transfers that have ended a round, until the program takes them out.
//!
//! A transfer waits here once, however many of its rounds end meanwhile. So the queue is bounded by
//! the transfers that report. It has a lock of its own, which no thread holds for longer than it
//! takes to move an entry.

use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use slotmap::{SlotMap, new_key_type};

use super::TransferCompletion;
use super::signals::{EventCount, EventDescriptor, EventListener};
use crate::error::Error;

/// Maximum ratio of places of transfers that are gone to transfers that report.
const MAX_GONE_RATIO: usize = 2;

new_key_type! {
    /// Key of a transfer that reports.
    pub(crate) struct ReporterKey;
}

/// Transfer that reports, and what it has to report.
#[derive(Debug)]
struct Reporter {
    context: u64,
    /// Number of rounds that have ended. The transfer waits in the queue when this is not 0.
    rounds: u64,
    /// First error of those rounds.
    error: Option<Error>,
}

#[derive(Debug, Default)]
struct Reporters {
    all: SlotMap<ReporterKey, Reporter>,
    /// Transfers that wait, and some that are gone.
    waiting: VecDeque<ReporterKey>,
}

/// Queue, and the descriptor that is readable when the queue has entries.
#[derive(Debug, Default)]
pub(crate) struct CompletionQueue {
    reporters: Mutex<Reporters>,
    event: EventDescriptor,
    /// Signal for threads that wait for notifications of any session that has this queue.
    notifications: EventCount,
}

impl CompletionQueue {
    /// Returns the event that is signalled when something has changed, here or at a transfer or
    /// peer.
    pub(crate) fn event(&self) -> &EventDescriptor {
        &self.event
    }

    /// Signals that a notification has come.
    pub(super) fn notification_arrived(&self) {
        self.event.signal();
        self.notify_waiters();
    }

    /// Makes threads that wait for notifications check again.
    pub(crate) fn notify_waiters(&self) {
        // Either the listening thread is counted, or it checks after this.
        fence(Ordering::SeqCst);
        self.notifications.notify();
    }

    /// Listens for notifications that come from now on.
    pub(crate) fn listen_for_notifications(&self) -> EventListener<'_> {
        self.notifications.listen()
    }

    /// Adds a transfer that reports from now on.
    pub(crate) fn add(&self, context: u64) -> ReporterKey {
        let Reporters { all, waiting } = &mut *self.reporters();
        let key = all.insert(Reporter { context, rounds: 0, error: None });
        // The end of a round needs no memory: all may wait, behind as many as `remove` leaves.
        waiting.reserve(((MAX_GONE_RATIO + 1) * all.len()).saturating_sub(waiting.len()));
        key
    }

    /// Reports the ends of a transfer's rounds from now on, with this context.
    pub(crate) fn report(&self, reporter: &OnceLock<ReporterKey>, context: u64) {
        if reporter.get().is_none() {
            let key = self.add(context);
            match reporter.set(key) {
                Ok(()) => return,
                // Another thread was faster.
                Err(key) => self.remove(key),
            }
        }
        if let Some(key) = reporter.get() {
            self.set_context(*key, context);
        }
    }

    /// Changes what a transfer reports with its next entry.
    fn set_context(&self, key: ReporterKey, context: u64) {
        if let Some(reporter) = self.reporters().all.get_mut(key) {
            reporter.context = context;
        }
    }

    /// Removes a transfer that is gone, and its entry.
    pub(crate) fn remove(&self, key: ReporterKey) {
        let Reporters { all, waiting } = &mut *self.reporters();
        all.remove(key);
        // Entries of many gone transfers are swept out at once.
        if waiting.len() > MAX_GONE_RATIO * all.len() {
            waiting.retain(|key| all.contains_key(*key));
        }
    }

    /// Records that a round of a transfer has ended.
    pub(crate) fn ended(&self, key: ReporterKey, outcome: Result<(), Error>) {
        {
            let Reporters { all, waiting } = &mut *self.reporters();
            let Some(reporter) = all.get_mut(key) else { return };
            if reporter.rounds == 0 {
                waiting.push_back(key);
            }
            reporter.rounds += 1;
            if let Err(error) = outcome {
                reporter.error.get_or_insert(error);
            }
        }
        self.event.signal();
    }

    /// Takes out at most `most` entries, in the order in which they came. Returns how many there
    /// were. The event stays signalled while others wait.
    pub(crate) fn take(&self, completions: &mut Vec<TransferCompletion>, most: usize) -> usize {
        self.event.drain();
        let before = completions.len();
        self.take_each(most, |completion| completions.push(completion));
        completions.len() - before
    }

    /// Takes out at most `most` entries and hands each to `take`. The caller has drained the event.
    pub(crate) fn take_each(&self, most: usize, mut take: impl FnMut(TransferCompletion)) {
        let mut taken = 0;
        let is_empty = {
            let Reporters { all, waiting } = &mut *self.reporters();
            while taken < most
                && let Some(key) = waiting.pop_front()
            {
                let Some(reporter) = all.get_mut(key) else { continue };
                let rounds = std::mem::take(&mut reporter.rounds);
                let result = reporter.error.take().map_or(Ok(()), Err);
                taken += 1;
                take(TransferCompletion { context: reporter.context, rounds, result });
            }
            waiting.is_empty()
        };
        if !is_empty {
            self.event.signal();
        }
    }

    fn reporters(&self) -> MutexGuard<'_, Reporters> {
        self.reporters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(queue: &CompletionQueue, most: usize) -> Vec<(u64, u64, bool)> {
        let mut taken = Vec::new();
        assert_eq!(queue.take(&mut taken, most), taken.len());
        taken.iter().map(|entry| (entry.context, entry.rounds, entry.result.is_ok())).collect()
    }

    #[test]
    fn the_round_that_ended_first_is_taken_first() {
        let queue = CompletionQueue::default();
        let keys = [1, 2, 3].map(|context| queue.add(context));
        assert!(take(&queue, 9).is_empty(), "no round has ended");
        for index in [2, 0, 1] {
            queue.ended(keys[index], Ok(()));
        }
        assert_eq!(take(&queue, 0), []);
        assert_eq!(take(&queue, 2), [(3, 1, true), (1, 1, true)]);
        assert_eq!(take(&queue, 2), [(2, 1, true)]);
        assert_eq!(take(&queue, 2), []);
    }

    #[test]
    fn untaken_rounds_are_one_entry_with_the_first_error() {
        let queue = CompletionQueue::default();
        let key = queue.add(1);
        queue.ended(key, Ok(()));
        queue.ended(key, Err(Error::Cancelled));
        queue.ended(key, Err(Error::Closed));
        queue.set_context(key, 2);
        let mut taken = Vec::new();
        queue.take(&mut taken, 9);
        let [TransferCompletion { context: 2, rounds: 3, result: Err(Error::Cancelled) }] =
            &taken[..]
        else {
            panic!("{taken:?}");
        };
        queue.ended(key, Ok(()));
        assert_eq!(take(&queue, 9), [(2, 1, true)], "what was reported is forgotten");
    }

    #[test]
    fn the_end_of_a_round_needs_no_memory() {
        for stay in 1..20 {
            let queue = CompletionQueue::default();
            let stays: Vec<_> = (0..stay).map(|context| queue.add(context)).collect();
            // As many as are not swept out.
            while (queue.reporters().waiting.len() as u64) < MAX_GONE_RATIO as u64 * stay {
                let goes = queue.add(99);
                queue.ended(goes, Ok(()));
                queue.remove(goes);
            }
            let room = queue.reporters().waiting.capacity();
            stays.iter().for_each(|key| queue.ended(*key, Ok(())));
            assert_eq!(queue.reporters().waiting.capacity(), room, "{stay}");
            assert_eq!(take(&queue, usize::MAX).len() as u64, stay);
        }
    }

    #[test]
    fn a_transfer_that_is_gone_reports_nothing_and_leaves_nothing() {
        let queue = CompletionQueue::default();
        let stays = queue.add(7);
        queue.ended(stays, Ok(()));
        for _ in 0..1000 {
            let goes = queue.add(8);
            queue.ended(goes, Ok(()));
            queue.remove(goes);
            queue.ended(goes, Ok(()));
        }
        assert!(queue.reporters().waiting.len() <= 2);
        assert_eq!(take(&queue, 9), [(7, 1, true)]);
    }
}
