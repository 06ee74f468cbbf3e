//! Peers that have come up or ended, until the program takes that out.
//!
//! Of each name the newest state waits, and before it the last end, if a peer of that name is up
//! again by then: whatever its operations have ended with, the program hears why. So the queue is
//! bounded by the names. It has a lock of its own, which nobody holds for longer than it takes to
//! move an entry.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;

use super::peer_state::PeerState;
use super::queue::CompletionQueue;
use super::session_event::SessionEvent;

/// What waits of one name. There is something.
#[derive(Debug, Default)]
struct States {
    ended: Option<PeerState>,
    is_up: bool,
}

#[derive(Debug, Default)]
struct Contents {
    /// Those of whom something waits, oldest first, each once.
    order: VecDeque<String>,
    states: HashMap<String, States>,
}

/// The queue of a session.
#[derive(Debug)]
pub(crate) struct PeerQueue {
    contents: Mutex<Contents>,
    /// Somebody takes out what is put in.
    is_wanted: AtomicBool,
    /// For its event.
    completions: Arc<CompletionQueue>,
}

impl PeerQueue {
    /// What comes is signalled to the event of these completions.
    pub(crate) fn new(completions: Arc<CompletionQueue>) -> Self {
        Self { contents: Mutex::default(), is_wanted: AtomicBool::new(false), completions }
    }

    /// The program takes out what comes from now on. Returns whether it did so before.
    pub(crate) fn want(&self) -> bool {
        self.is_wanted.swap(true, Ordering::Relaxed)
    }

    /// Whether the program takes anything out.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// A peer of this name is up.
    pub(crate) fn up(&self, name: &str) {
        self.change(name, |states| states.is_up = true);
    }

    /// The peer of this name has ended, so.
    pub(crate) fn ended(&self, name: &str, how: PeerState) {
        self.change(name, |states| *states = States { ended: Some(how), is_up: false });
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut States)) {
        if !self.is_wanted() {
            return;
        }
        {
            let Contents { order, states } = &mut *self.contents();
            match states.get_mut(name) {
                Some(states) => change(states),
                None => {
                    order.push_back(name.to_owned());
                    change(states.entry(name.to_owned()).or_default());
                }
            }
        }
        self.completions.event().signal();
    }

    /// Takes out at most so many, those first that have waited longest, and appends them. The event
    /// is signalled again while others wait.
    pub(crate) fn take(&self, events: &mut Vec<SessionEvent>, most: usize) {
        let end = events.len().saturating_add(most);
        let is_empty = {
            let Contents { order, states } = &mut *self.contents();
            while events.len() < end
                && let Some(name) = order.pop_front()
            {
                let Some(States { ended, is_up }) = states.remove(&name) else { continue };
                if let Some(state) = ended {
                    events.push(SessionEvent::Peer { name: name.clone(), state });
                }
                if is_up && events.len() < end {
                    events.push(SessionEvent::Peer { name, state: PeerState::Up });
                } else if is_up {
                    states.insert(name.clone(), States { ended: None, is_up });
                    order.push_front(name);
                }
            }
            order.is_empty()
        };
        if !is_empty {
            self.completions.event().signal();
        }
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn queue() -> PeerQueue {
        PeerQueue::new(Arc::default())
    }

    fn take(queue: &PeerQueue, most: usize) -> Vec<String> {
        let mut events = Vec::new();
        queue.take(&mut events, most);
        let words = |event: &SessionEvent| match event {
            SessionEvent::Peer { name, state } => format!("{name} {state:?}"),
            SessionEvent::Completed(_) => panic!("no transfer"),
        };
        events.iter().map(words).collect()
    }

    #[test]
    fn nothing_waits_for_a_program_that_does_not_look() {
        let queue = queue();
        queue.up("a");
        assert!(!queue.want() && queue.want());
        assert!(take(&queue, 9).is_empty());
        queue.up("a");
        assert_eq!(take(&queue, 9), ["a Up"]);
    }

    #[test]
    fn an_end_is_told_also_when_a_peer_of_that_name_is_up_again() {
        let queue = queue();
        queue.want();
        queue.up("a");
        queue.up("b");
        queue.ended("a", PeerState::Failed(Error::Cancelled));
        queue.up("a");
        assert_eq!(take(&queue, 1), ["a Failed(Cancelled)"]);
        assert_eq!(take(&queue, 1), ["a Up"]);
        assert_eq!(take(&queue, 1), ["b Up"]);
        for round in 0..1000 {
            queue.up("a");
            queue.ended("a", PeerState::Parted);
            queue.up("a");
            assert_eq!(queue.contents().order.len(), 1, "{round}");
        }
        queue.ended("a", PeerState::Failed(Error::Cancelled));
        assert_eq!(take(&queue, 9), ["a Failed(Cancelled)"], "the last end");
        assert!(take(&queue, 9).is_empty() && queue.contents().states.is_empty());
    }
}
