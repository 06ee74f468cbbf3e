//! Queue of notifications that the program has not taken yet.
//!
//! No notification of a connected peer is dropped. Those of an ended peer are dropped only where
//! ended peers leave too much. The peer's protocol decides how much a peer may send. The protocol
//! is notified of what the program has taken out, each time when the amount makes this worthwhile.
//!
//! The queue has a lock of its own, which no thread holds for longer than it takes to move
//! notifications.

use std::collections::{TryReserveError, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use tcpx_protocol::types::peer_budget::PeerBudget;
use tcpx_protocol::types::{TELL_AFTER, note_cost};

use self::ended_senders::EndedSenders;
use super::Notification;
use super::queue::CompletionQueue;
use crate::types::{PeerKey, PeerName};

mod ended_senders;

#[derive(Debug)]
struct QueuedNotification {
    sender: PeerKey,
    name: PeerName,
    bytes: Vec<u8>,
}

/// A peer that may send.
#[derive(Debug)]
struct Sender {
    name: PeerName,
    /// Cost of the notifications that wait.
    waiting: u64,
    /// Number of notifications that wait.
    count: usize,
    /// Cost of all notifications taken out so far.
    taken: u64,
    /// Part of `taken` that was reported to the peer.
    reported: u64,
}

#[derive(Debug)]
struct QueueState {
    waiting: VecDeque<QueuedNotification>,
    senders: HashMap<PeerKey, Sender>,
    /// Peers that are to get a report of free room, each once.
    due: Vec<PeerKey>,
    /// Notifications of senders that have ended.
    ended_senders: EndedSenders,
}

/// Queue of notifications of a session.
#[derive(Debug)]
pub(crate) struct NotificationQueue {
    contents: Mutex<QueueState>,
    /// Whether a report of free room is due to any peer. A round reads this without the lock.
    has_due: AtomicBool,
    /// Whether a notification has come since waiting threads were last notified.
    has_arrived: AtomicBool,
    /// Completions, for their event.
    completions: Arc<CompletionQueue>,
}

impl Sender {
    /// Returns whether enough has become free to report it to the peer.
    fn is_report_due(&self) -> bool {
        self.taken - self.reported >= TELL_AFTER
    }
}

impl NotificationQueue {
    /// Makes an empty queue. New notifications signal the event of these completions. What ended
    /// peers leave counts in the budget.
    pub(crate) fn new(completions: Arc<CompletionQueue>, budget: &Arc<PeerBudget>) -> Self {
        let contents = QueueState {
            waiting: VecDeque::new(),
            senders: HashMap::default(),
            due: Vec::new(),
            ended_senders: EndedSenders::new(budget),
        };
        Self {
            contents: Mutex::new(contents),
            has_due: AtomicBool::new(false),
            has_arrived: AtomicBool::new(false),
            completions,
        }
    }

    /// Adds a peer that may send from now on.
    pub(crate) fn add_sender(&self, peer: PeerKey, name: PeerName) {
        let QueueState { senders, due, .. } = &mut *self.contents();
        senders.insert(peer, Sender { name, waiting: 0, count: 0, taken: 0, reported: 0 });
        // Each peer is there once, so adding it later needs no memory.
        due.reserve(senders.len() - due.len());
    }

    /// Removes a peer that has ended. Its notifications stay, and it gets no more reports of free
    /// room. Returns how many notifications of ended peers were dropped, because these have left
    /// too much.
    pub(crate) fn remove_sender(&self, peer: PeerKey) -> usize {
        let QueueState { waiting, senders, due, ended_senders } = &mut *self.contents();
        let Some(sender) = senders.remove(&peer) else { return 0 };
        due.retain(|other| *other != peer);
        ended_senders.add(peer, sender.waiting);
        let dropped = ended_senders.take_excess();
        if dropped.is_empty() {
            return 0;
        }
        let before = waiting.len();
        waiting.retain(|note| !dropped.contains(&note.sender));
        before - waiting.len()
    }

    /// Adds a notification of a peer that may send.
    ///
    /// # Errors
    /// The system has no memory for its entry.
    pub(crate) fn push(&self, peer: PeerKey, bytes: Vec<u8>) -> Result<(), TryReserveError> {
        {
            let QueueState { waiting, senders, .. } = &mut *self.contents();
            let Some(sender) = senders.get_mut(&peer) else { return Ok(()) };
            waiting.try_reserve(1)?;
            sender.waiting += note_cost(bytes.len());
            sender.count += 1;
            waiting.push_back(QueuedNotification {
                sender: peer,
                name: sender.name.clone(),
                bytes,
            });
        }
        self.has_arrived.store(true, Ordering::Release);
        self.completions.notification_arrived();
        Ok(())
    }

    /// Returns the number of notifications that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.contents().waiting.len()
    }

    /// Returns the number of waiting notifications of a peer that has not ended.
    pub(crate) fn waiting_of(&self, peer: PeerKey) -> usize {
        self.contents().senders.get(&peer).map_or(0, |sender| sender.count)
    }

    /// Takes out notifications in the order in which they came, up to the limits on their number
    /// and on their total bytes. Returns how many there were. The event is signalled again while
    /// others wait.
    pub(crate) fn take(
        &self,
        notifications: &mut Vec<Notification>,
        most: usize,
        most_bytes: usize,
    ) -> usize {
        let before = notifications.len();
        let mut room = most_bytes;
        let is_empty = {
            let contents = &mut *self.contents();
            while notifications.len() - before < most
                && contents.waiting.front().is_some_and(|next| next.bytes.len() <= room)
                && let Some(QueuedNotification { sender, name, bytes }) =
                    contents.waiting.pop_front()
            {
                room -= bytes.len();
                contents.count_taken(sender, note_cost(bytes.len()));
                notifications.push(Notification { peer: name.as_str().to_owned(), bytes });
            }
            if !contents.due.is_empty() {
                self.has_due.store(true, Ordering::Release);
            }
            contents.waiting.is_empty()
        };
        if !is_empty {
            self.completions.event().signal();
        }
        notifications.len() - before
    }

    /// Returns whether a notification has come since the last call: waiting threads are to be
    /// notified.
    pub(crate) fn take_arrived(&self) -> bool {
        // Mostly none has come, and this check costs nothing then.
        self.has_arrived.load(Ordering::Relaxed) && self.has_arrived.swap(false, Ordering::Acquire)
    }

    /// Returns whether a report of free room is due to any peer: a round is needed.
    pub(crate) fn has_due_reports(&self) -> bool {
        self.has_due.load(Ordering::Acquire)
    }

    /// Appends the peers to which a report is due, each with the cost of all that was taken out of
    /// its notifications. The peers count as notified.
    pub(crate) fn take_due_reports(&self, reports: &mut Vec<(PeerKey, u64)>) {
        // A thread that takes something out later sets the flag again.
        if !self.has_due.swap(false, Ordering::Acquire) {
            return;
        }
        let QueueState { senders, due, .. } = &mut *self.contents();
        for peer in due.drain(..) {
            if let Some(sender) = senders.get_mut(&peer) {
                sender.reported = sender.taken;
                reports.push((peer, sender.taken));
            }
        }
    }

    fn contents(&self) -> MutexGuard<'_, QueueState> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn count_taken(&mut self, peer: PeerKey, cost: u64) {
        let Some(sender) = self.senders.get_mut(&peer) else {
            return self.ended_senders.take(peer, cost);
        };
        let was_due = sender.is_report_due();
        sender.waiting -= cost;
        sender.count -= 1;
        sender.taken += cost;
        if sender.is_report_due() && !was_due {
            self.due.push(peer);
        }
    }
}

#[cfg(test)]
mod tests;
