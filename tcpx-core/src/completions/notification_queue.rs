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
use tcpx_protocol::types::kept_budget::KeptBudget;
use tcpx_protocol::types::{TELL_AFTER, note_cost};

use self::left_behind::LeftBehind;
use super::Notification;
use super::queue::CompletionQueue;
use crate::types::{PeerKey, PeerName};

mod left_behind;

#[derive(Debug)]
struct Waiting {
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
    /// Part of `taken` that the peer was notified of.
    told: u64,
}

#[derive(Debug)]
struct Contents {
    waiting: VecDeque<Waiting>,
    senders: HashMap<PeerKey, Sender>,
    /// Peers that are owed word of free room, each once.
    owed: Vec<PeerKey>,
    /// Notifications of senders that have ended.
    left_behind: LeftBehind,
}

/// Queue of notifications of a session.
#[derive(Debug)]
pub(crate) struct NotificationQueue {
    contents: Mutex<Contents>,
    /// Whether any peer is owed word of free room. A round reads this without the lock.
    owes: AtomicBool,
    /// Whether a notification has come since waiting threads were last notified.
    has_come: AtomicBool,
    /// Completions, for their event.
    completions: Arc<CompletionQueue>,
}

impl Sender {
    /// Returns whether enough has become free to tell the peer.
    fn is_owed(&self) -> bool {
        self.taken - self.told >= TELL_AFTER
    }
}

impl NotificationQueue {
    /// Makes an empty queue. New notifications signal the event of these completions. What ended
    /// peers leave counts in the budget.
    pub(crate) fn new(completions: Arc<CompletionQueue>, budget: &Arc<KeptBudget>) -> Self {
        let contents = Contents {
            waiting: VecDeque::new(),
            senders: HashMap::default(),
            owed: Vec::new(),
            left_behind: LeftBehind::new(budget),
        };
        Self {
            contents: Mutex::new(contents),
            owes: AtomicBool::new(false),
            has_come: AtomicBool::new(false),
            completions,
        }
    }

    /// Adds a peer that may send from now on.
    pub(crate) fn add_sender(&self, peer: PeerKey, name: PeerName) {
        let Contents { senders, owed, .. } = &mut *self.contents();
        senders.insert(peer, Sender { name, waiting: 0, count: 0, taken: 0, told: 0 });
        // Each peer is there once, so adding it later needs no memory.
        owed.reserve(senders.len() - owed.len());
    }

    /// Removes a peer that has ended. Its notifications stay, and it receives no more word of free
    /// room. Returns how many notifications of ended peers were dropped, because these have left
    /// too much.
    pub(crate) fn remove_sender(&self, peer: PeerKey) -> usize {
        let Contents { waiting, senders, owed, left_behind } = &mut *self.contents();
        let Some(sender) = senders.remove(&peer) else { return 0 };
        owed.retain(|other| *other != peer);
        left_behind.add(peer, sender.waiting);
        let dropped = left_behind.too_many();
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
            let Contents { waiting, senders, .. } = &mut *self.contents();
            let Some(sender) = senders.get_mut(&peer) else { return Ok(()) };
            waiting.try_reserve(1)?;
            sender.waiting += note_cost(bytes.len());
            sender.count += 1;
            waiting.push_back(Waiting { sender: peer, name: sender.name.clone(), bytes });
        }
        self.has_come.store(true, Ordering::Release);
        self.completions.notified();
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
                && let Some(Waiting { sender, name, bytes }) = contents.waiting.pop_front()
            {
                room -= bytes.len();
                contents.count_taken(sender, note_cost(bytes.len()));
                notifications.push(Notification { peer: name.as_str().to_owned(), bytes });
            }
            if !contents.owed.is_empty() {
                self.owes.store(true, Ordering::Release);
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
    pub(crate) fn take_come(&self) -> bool {
        // Mostly none has come, and this check costs nothing then.
        self.has_come.load(Ordering::Relaxed) && self.has_come.swap(false, Ordering::Acquire)
    }

    /// Returns whether a peer is to hear that room has become free: a round is due.
    pub(crate) fn owes(&self) -> bool {
        self.owes.load(Ordering::Acquire)
    }

    /// Appends the peers that are owed word, each with the cost of all that was taken out of its
    /// notifications. The peers count as notified.
    pub(crate) fn take_owed(&self, told: &mut Vec<(PeerKey, u64)>) {
        // A thread that takes something out later sets the flag again.
        if !self.owes.swap(false, Ordering::Acquire) {
            return;
        }
        let Contents { senders, owed, .. } = &mut *self.contents();
        for peer in owed.drain(..) {
            if let Some(sender) = senders.get_mut(&peer) {
                sender.told = sender.taken;
                told.push((peer, sender.taken));
            }
        }
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    fn count_taken(&mut self, peer: PeerKey, cost: u64) {
        let Some(sender) = self.senders.get_mut(&peer) else {
            return self.left_behind.take(peer, cost);
        };
        let was_owed = sender.is_owed();
        sender.waiting -= cost;
        sender.count -= 1;
        sender.taken += cost;
        if sender.is_owed() && !was_owed {
            self.owed.push(peer);
        }
    }
}

#[cfg(test)]
mod tests;
