//! The notifications that have come, until the program takes them out.
//!
//! Nothing of a peer is dropped while it is there, and of those that have ended only where they
//! leave too much. What a peer may send is its protocol's to say, which is told what the program
//! has taken out, each time when that is so much that it pays.
//!
//! The queue has a lock of its own, which nobody holds for longer than it takes to move
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
    /// What those cost that wait.
    waiting: u64,
    /// Of how many.
    count: usize,
    /// What was taken out, all in all.
    taken: u64,
    /// What it was told of that.
    told: u64,
}

#[derive(Debug)]
struct Contents {
    waiting: VecDeque<Waiting>,
    senders: HashMap<PeerKey, Sender>,
    /// Those that are to be told, each once.
    owed: Vec<PeerKey>,
    /// Of those whose sender has ended.
    left_behind: LeftBehind,
}

/// The queue of a session.
#[derive(Debug)]
pub(crate) struct NotificationQueue {
    contents: Mutex<Contents>,
    /// Whether anybody is to be told. So a round asks without the lock.
    owes: AtomicBool,
    /// Whether one has come since threads that wait were told.
    has_come: AtomicBool,
    /// For its event.
    completions: Arc<CompletionQueue>,
}

impl Sender {
    /// Whether so much has become free that it is to be told.
    fn is_owed(&self) -> bool {
        self.taken - self.told >= TELL_AFTER
    }
}

impl NotificationQueue {
    /// No notification yet. What comes is signalled to the event of these completions. What ended
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

    /// A peer may send from now on.
    pub(crate) fn add_sender(&self, peer: PeerKey, name: PeerName) {
        let Contents { senders, owed, .. } = &mut *self.contents();
        senders.insert(peer, Sender { name, waiting: 0, count: 0, taken: 0, told: 0 });
        // Each is there once, and nothing is needed for that when it comes to it.
        owed.reserve(senders.len() - owed.len());
    }

    /// A peer has ended. What has come of it stays, and it is told nothing any more. Returns how
    /// many notifications of peers that have ended were dropped, because they have left too much.
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

    /// A notification has come of a peer that may send.
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

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.contents().waiting.len()
    }

    /// How many of a peer wait, which has not ended.
    pub(crate) fn waiting_of(&self, peer: PeerKey) -> usize {
        self.contents().senders.get(&peer).map_or(0, |sender| sender.count)
    }

    /// Takes out at most so many, of at most so many bytes in all, those first that came first.
    /// Returns how many there were. The event is signalled again while others wait.
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

    /// Whether one has come since this was asked last: threads that wait for one are to be told.
    pub(crate) fn take_come(&self) -> bool {
        // Mostly none has, and asking costs nothing then.
        self.has_come.load(Ordering::Relaxed) && self.has_come.swap(false, Ordering::Acquire)
    }

    /// Whether a peer is to be told that room has become free: a round is due.
    pub(crate) fn owes(&self) -> bool {
        self.owes.load(Ordering::Acquire)
    }

    /// Appends those that are to be told, and what was taken out of what each has sent, all in all.
    /// They count as told.
    pub(crate) fn take_owed(&self, told: &mut Vec<(PeerKey, u64)>) {
        // Whoever takes something out later sets it again.
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
