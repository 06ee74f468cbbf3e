//! Queue of peers that have come up or ended, until the program takes the entries out.
//!
//! For each name the newest state waits, and before it the last end, if a peer of that name is up
//! again by then. So the program learns why operations have ended, whatever their error. The queue
//! is bounded by the names. It has a lock of its own, which no thread holds for longer than it
//! takes to move an entry.
//!
//! The devices of a session share one queue, by the names of peers: there a peer is up from its
//! first connection until the last one has ended. A peer has one connection for each pair of
//! devices.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use tcpx_protocol::types::memory::Device;

use super::queue::CompletionQueue;
use super::{PeerState, SessionEvent};

/// PendingStates of one name that wait. There is at least one.
#[derive(Debug, Default)]
struct PendingStates {
    ended: Option<PeerState>,
    is_up: bool,
}

#[derive(Debug, Default)]
struct QueueState {
    /// Connections that are up, also while no program takes entries out.
    connected: ConnectedPeers,
    /// Names with waiting states, oldest first, each once.
    order: VecDeque<String>,
    states: HashMap<String, PendingStates>,
}

impl QueueState {
    fn change(&mut self, name: &str, change: impl FnOnce(&mut PendingStates)) {
        match self.states.get_mut(name) {
            Some(states) => change(states),
            None => {
                self.order.push_back(name.to_owned());
                change(self.states.entry(name.to_owned()).or_default());
            }
        }
    }
}

/// Queue of peer states of a session.
#[derive(Debug)]
pub(crate) struct PeerQueue {
    contents: Mutex<QueueState>,
    /// Whether the program takes entries out.
    is_reporting: AtomicBool,
    /// Completions, for their event.
    completions: Arc<CompletionQueue>,
}

impl PeerQueue {
    /// Makes an empty queue. New entries signal the event of these completions.
    pub(crate) fn new(completions: Arc<CompletionQueue>) -> Self {
        Self { contents: Mutex::default(), is_reporting: AtomicBool::new(false), completions }
    }

    /// Queues entries from now on, and first the peers that are up now.
    pub(crate) fn start_reporting(&self) {
        let mut contents = self.contents();
        if self.is_reporting.swap(true, Ordering::Relaxed) {
            return;
        }
        let up: Vec<_> = contents.connected.peers().map(str::to_owned).collect();
        up.iter().for_each(|name| contents.change(name, |states| states.is_up = true));
        drop(contents);
        self.completions.event().signal();
    }

    /// Records that a connection of a peer is up.
    pub(crate) fn up(&self, peer: &str, connection: DeviceConnection) {
        let mut contents = self.contents();
        if contents.connected.up(peer, connection) {
            self.enqueue(contents, peer, |states| states.is_up = true);
        }
    }

    /// Records that a connection of a peer has ended in the state `how`, or has not come up.
    pub(crate) fn ended(&self, peer: &str, connection: &DeviceConnection, how: PeerState) {
        let mut contents = self.contents();
        if contents.connected.ended(peer, connection) {
            self.enqueue(contents, peer, |it| {
                *it = PendingStates { ended: Some(how), is_up: false }
            });
        }
    }

    /// Records that the program itself leaves a connection of a peer. No entry is queued.
    pub(crate) fn left(&self, peer: &str, connection: &DeviceConnection) {
        self.contents().connected.ended(peer, connection);
    }

    fn enqueue(
        &self,
        mut contents: MutexGuard<'_, QueueState>,
        name: &str,
        change: impl FnOnce(&mut PendingStates),
    ) {
        if self.is_reporting.load(Ordering::Relaxed) {
            contents.change(name, change);
            drop(contents);
            self.completions.event().signal();
        }
    }

    /// Takes out at most `most` entries, those first that have waited longest, and appends them.
    /// The event is signalled again while others wait.
    pub(crate) fn take(&self, events: &mut Vec<SessionEvent>, most: usize) {
        let end = events.len().saturating_add(most);
        let is_empty = {
            let QueueState { order, states, .. } = &mut *self.contents();
            while events.len() < end
                && let Some(name) = order.pop_front()
            {
                let Some(PendingStates { ended, is_up }) = states.remove(&name) else { continue };
                if let Some(state) = ended {
                    events.push(SessionEvent::Peer { name: name.clone(), state });
                }
                if is_up && events.len() < end {
                    events.push(SessionEvent::Peer { name, state: PeerState::Up });
                } else if is_up {
                    states.insert(name.clone(), PendingStates { ended: None, is_up });
                    order.push_front(name);
                }
            }
            order.is_empty()
        };
        if !is_empty {
            self.completions.event().signal();
        }
    }

    fn contents(&self) -> MutexGuard<'_, QueueState> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection of a peer: the device here, and what the session there is called.
pub(crate) type DeviceConnection = (Device, String);

/// Connections that are up, by the name that the program uses for the peer.
#[derive(Debug, Default)]
pub(super) struct ConnectedPeers(BTreeMap<String, HashSet<DeviceConnection>>);

impl ConnectedPeers {
    /// Adds a connection. Returns whether it is the peer's first.
    pub(super) fn up(&mut self, peer: &str, connection: DeviceConnection) -> bool {
        let Some(connections) = self.0.get_mut(peer) else {
            self.0.insert(peer.to_owned(), HashSet::from([connection]));
            return true;
        };
        connections.insert(connection);
        false
    }

    /// Removes a connection that has ended, or never came up. Returns whether the peer has none
    /// now.
    pub(super) fn ended(&mut self, peer: &str, connection: &DeviceConnection) -> bool {
        let Some(connections) = self.0.get_mut(peer) else { return true };
        connections.remove(connection);
        let was_last = connections.is_empty();
        if was_last {
            self.0.remove(peer);
        }
        was_last
    }

    /// Returns the peers that are up.
    pub(super) fn peers(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use tcpx_protocol::types::memory::Device;

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

    fn only(name: &str) -> DeviceConnection {
        (Device::Host, name.to_owned())
    }

    fn up(queue: &PeerQueue, name: &str) {
        queue.up(name, only(name));
    }

    fn ended(queue: &PeerQueue, name: &str, how: PeerState) {
        queue.ended(name, &only(name), how);
    }

    fn failed() -> PeerState {
        PeerState::Failed(Error::Cancelled)
    }

    #[test]
    fn nothing_is_queued_before_reporting_starts() {
        let queue = queue();
        ["a", "b", "c"].iter().for_each(|name| up(&queue, name));
        ended(&queue, "b", failed());
        assert!(take(&queue, 9).is_empty());
        // Peers that are up are reported once reporting starts.
        queue.start_reporting();
        queue.start_reporting();
        assert_eq!(take(&queue, 9), ["a Up", "c Up"]);
        queue.start_reporting();
        assert!(take(&queue, 9).is_empty());
    }

    #[test]
    fn an_end_is_reported_also_when_a_peer_of_that_name_is_up_again() {
        let queue = queue();
        queue.start_reporting();
        up(&queue, "a");
        up(&queue, "b");
        ended(&queue, "a", failed());
        up(&queue, "a");
        assert_eq!(take(&queue, 1), ["a Failed(Cancelled)"]);
        assert_eq!(take(&queue, 1), ["a Up"]);
        assert_eq!(take(&queue, 1), ["b Up"]);
        for round in 0..1000 {
            ended(&queue, "a", PeerState::Parted);
            up(&queue, "a");
            assert_eq!(queue.contents().order.len(), 1, "{round}");
        }
        ended(&queue, "a", failed());
        assert_eq!(take(&queue, 9), ["a Failed(Cancelled)"], "the last end");
        assert!(take(&queue, 9).is_empty() && queue.contents().states.is_empty());
    }

    #[test]
    fn a_peer_of_several_devices_ends_with_its_last_connection_unless_the_program_leaves_it() {
        let queue = queue();
        queue.start_reporting();
        let (hosts, gpus) = (only("a"), (Device::Gpu(0), "a/gpu1".to_owned()));
        for _ in 0..2 {
            queue.up("a", gpus.clone());
            queue.up("a", hosts.clone());
            assert_eq!(take(&queue, 9), ["a Up"]);
            queue.ended("a", &gpus, failed());
            assert!(take(&queue, 9).is_empty(), "the other is up");
            queue.ended("a", &hosts, PeerState::Parted);
            assert_eq!(take(&queue, 9), ["a Parted"]);
            queue.up("a", hosts.clone());
            assert_eq!(take(&queue, 9), ["a Up"]);
            queue.left("a", &hosts);
        }
        assert!(take(&queue, 9).is_empty());
    }

    #[test]
    fn a_peer_is_up_from_its_first_connection_to_the_end_of_its_last() {
        let mut connected = ConnectedPeers::default();
        let of = |here, name: &str| (here, name.to_owned());
        let (host, gpu) = (Device::Host, Device::Gpu(0));
        assert!(connected.up("a", of(gpu, "a/gpu1")));
        assert!(!connected.up("a", of(host, "a/gpu1")) && !connected.up("a", of(host, "a/gpu1")));
        assert!(connected.up("b", of(host, "b")));
        assert!(connected.peers().eq(["a", "b"]));
        // One that never came up.
        assert!(!connected.ended("a", &of(host, "a")));
        assert!(!connected.ended("a", &of(gpu, "a/gpu1")));
        assert!(connected.ended("a", &of(host, "a/gpu1")));
        assert!(connected.ended("a", &of(host, "a")), "an attempt of a peer that is not there");
        assert!(connected.peers().eq(["b"]));
        assert!(connected.up("a", of(host, "a")));
    }
}
