//! The notifications that have come, until the program takes them out.
//!
//! Nothing of a peer is dropped while it is there, and of those that have ended only where they
//! leave too much. Each peer has a buffer here of a size that both ends know. It counts
//! what it sends, and is told what the program has taken out; so it sends no more than fits, and
//! what does not fit was not sent by a correct peer. A peer is told when a quarter of its buffer
//! has become free since it was told last: with an empty queue it knows of three quarters, which
//! must be enough for the longest notification.
//!
//! The queue has a lock of its own, which nobody holds for longer than it takes to move
//! notifications.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;

use self::left_behind::LeftBehind;
use super::notification::Notification;
use super::queue::CompletionQueue;
use crate::types::PeerKey;
use crate::types::peer_name::PeerName;

mod left_behind;

/// What a notification takes of its sender's buffer beside its bytes. It bounds the number of empty
/// ones.
const COST: u64 = 64;
/// A peer is told when one part of so many has become free.
const PARTS: u64 = 4;

/// What a notification of so many bytes takes of its sender's buffer.
pub(crate) fn note_cost(bytes: usize) -> u64 {
    COST.saturating_add(bytes as u64)
}

/// Why a notification was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotTakenIn {
    /// It does not fit into its sender's buffer: no correct peer has sent it.
    NoRoom,
    /// The system has no memory for its entry.
    NoMemory,
}

#[derive(Debug)]
struct Waiting {
    sender: PeerKey,
    name: PeerName,
    bytes: Vec<u8>,
}

/// A peer that may send, and its buffer.
#[derive(Debug)]
struct Sender {
    name: PeerName,
    buffer: u64,
    /// What of the buffer is full.
    waiting: u64,
    /// Of how many.
    count: usize,
    /// What was taken out, all in all.
    taken: u64,
    /// What it was told of that.
    told: u64,
}

#[derive(Debug, Default)]
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
        self.taken - self.told >= (self.buffer / PARTS).max(1)
    }
}

impl NotificationQueue {
    /// No notification yet. What comes is signalled to the event of these completions.
    pub(crate) fn new(completions: Arc<CompletionQueue>) -> Self {
        Self {
            contents: Mutex::default(),
            owes: AtomicBool::new(false),
            has_come: AtomicBool::new(false),
            completions,
        }
    }

    /// A peer may send from now on, as much as fits into a buffer of so many bytes.
    pub(crate) fn add_sender(&self, peer: PeerKey, name: PeerName, buffer: u64) {
        let Contents { senders, owed, .. } = &mut *self.contents();
        senders.insert(peer, Sender { name, buffer, waiting: 0, count: 0, taken: 0, told: 0 });
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

    /// A notification has come.
    ///
    /// # Errors
    /// It was not taken in.
    pub(crate) fn push(&self, peer: PeerKey, bytes: Vec<u8>) -> Result<(), NotTakenIn> {
        {
            let Contents { waiting, senders, .. } = &mut *self.contents();
            let sender = senders.get_mut(&peer).ok_or(NotTakenIn::NoRoom)?;
            let full = sender.waiting.saturating_add(note_cost(bytes.len()));
            if full > sender.buffer {
                return Err(NotTakenIn::NoRoom);
            }
            waiting.try_reserve(1).map_err(|_| NotTakenIn::NoMemory)?;
            sender.waiting = full;
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
