//! Tag matching between one peer's posted sends and the receives that the other end announced. Pure.
//!
//! Equal tags match in the order in which they were posted. Each end runs one [`Matcher`] for the direction in which it
//! sends; the receiving end only announces.

use std::collections::hash_map::Entry;

use foldhash::HashMap;

use crate::peer::protocol::coalescer::Delivery;

/// First-in-first-out queues by tag, in one slab: no allocation once the slab has grown to the largest backlog.
#[derive(Debug)]
struct TagQueues<T> {
    queues: HashMap<i32, Ends>,
    nodes: Vec<Node<T>>,
    free: Option<u32>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
}

#[derive(Debug)]
struct Node<T> {
    item: Option<T>,
    next: Option<u32>,
}

impl<T> Default for TagQueues<T> {
    fn default() -> Self {
        Self { queues: HashMap::default(), nodes: Vec::new(), free: None, len: 0 }
    }
}

impl<T> TagQueues<T> {
    fn push(&mut self, tag: i32, item: T) {
        let node = Node { item: Some(item), next: None };
        let index = match self.free {
            Some(index) => {
                self.free = std::mem::replace(&mut self.nodes[index as usize], node).next;
                index
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.len += 1;
        match self.queues.entry(tag) {
            Entry::Vacant(entry) => {
                entry.insert(Ends { head: index, tail: index });
            }
            Entry::Occupied(mut entry) => {
                let tail = std::mem::replace(&mut entry.get_mut().tail, index);
                self.nodes[tail as usize].next = Some(index);
            }
        }
    }

    fn pop(&mut self, tag: i32) -> Option<T> {
        let Entry::Occupied(mut entry) = self.queues.entry(tag) else { return None };
        let index = entry.get().head;
        match self.nodes[index as usize].next {
            Some(next) => entry.get_mut().head = next,
            None => {
                entry.remove();
            }
        }
        self.len -= 1;
        self.release(index)
    }

    /// Takes out the first item of a tag that `is_wanted`.
    fn remove(&mut self, tag: i32, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
        let ends = *self.queues.get(&tag)?;
        let mut before = None;
        let mut index = ends.head;
        while !self.nodes[index as usize].item.as_ref().is_some_and(&is_wanted) {
            before = Some(index);
            index = self.nodes[index as usize].next?;
        }
        let next = self.nodes[index as usize].next;
        match before {
            Some(before) => self.nodes[before as usize].next = next,
            None => match next {
                Some(next) => {
                    self.queues.insert(tag, Ends { head: next, ..ends });
                }
                None => {
                    self.queues.remove(&tag);
                }
            },
        }
        if let (Some(before), None) = (before, next) {
            self.queues.insert(tag, Ends { tail: before, ..ends });
        }
        self.len -= 1;
        self.release(index)
    }

    fn release(&mut self, index: u32) -> Option<T> {
        let node = &mut self.nodes[index as usize];
        node.next = self.free.replace(index);
        node.item.take()
    }

    fn drain(&mut self) -> impl Iterator<Item = T> + use<'_, T> {
        self.queues.clear();
        self.free = None;
        self.len = 0;
        self.nodes.drain(..).filter_map(|node| node.item)
    }
}

/// A receive that the peer announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    /// The peer's name for it.
    pub(crate) recv: u64,
    pub(crate) bytes: u64,
    pub(crate) landing: Delivery,
    /// Its place among everything that the peer announced.
    pub(crate) number: u64,
}

/// A posted send that waits for its receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting<K> {
    pub(crate) send: K,
    pub(crate) bytes: u64,
}

/// A send and a receive with one tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matched<K> {
    pub(crate) send: K,
    pub(crate) send_bytes: u64,
    pub(crate) announced: Announced,
}

/// Sends here, announced receives there.
#[derive(Debug)]
pub(crate) struct Matcher<K> {
    sends: TagQueues<Waiting<K>>,
    receives: TagQueues<Announced>,
    /// Tag of each announced receive, so that it can be withdrawn by name.
    tags: HashMap<u64, i32>,
}

impl<K> Default for Matcher<K> {
    fn default() -> Self {
        Self {
            sends: TagQueues::default(),
            receives: TagQueues::default(),
            tags: HashMap::default(),
        }
    }
}

/// The peer used one name for two receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DuplicateName;

impl<K: Copy + PartialEq> Matcher<K> {
    /// Sends that no receive was announced for.
    pub(crate) fn waiting_sends(&self) -> usize {
        self.sends.len
    }

    /// A send was posted here.
    pub(crate) fn post_send(&mut self, tag: i32, send: K, bytes: u64) -> Option<Matched<K>> {
        match self.receives.pop(tag) {
            Some(announced) => {
                self.tags.remove(&announced.recv);
                Some(Matched { send, send_bytes: bytes, announced })
            }
            None => {
                self.sends.push(tag, Waiting { send, bytes });
                None
            }
        }
    }

    /// The peer announced a receive.
    pub(crate) fn announce(
        &mut self,
        tag: i32,
        announced: Announced,
    ) -> Result<Option<Matched<K>>, DuplicateName> {
        if self.tags.contains_key(&announced.recv) {
            return Err(DuplicateName);
        }
        Ok(match self.sends.pop(tag) {
            Some(Waiting { send, bytes }) => Some(Matched { send, send_bytes: bytes, announced }),
            None => {
                self.tags.insert(announced.recv, tag);
                self.receives.push(tag, announced);
                None
            }
        })
    }

    /// Withdraws a send that waits. False when it does not wait (any more).
    pub(crate) fn withdraw_send(&mut self, tag: i32, send: K) -> bool {
        self.sends.remove(tag, |waiting| waiting.send == send).is_some()
    }

    /// Withdraws a receive that the peer announced. False when it was matched already.
    pub(crate) fn withdraw_receive(&mut self, recv: u64) -> bool {
        let Some(tag) = self.tags.remove(&recv) else { return false };
        self.receives.remove(tag, |announced| announced.recv == recv).is_some()
    }

    /// Announced receives that wait for a send.
    pub(crate) fn announced(&self) -> usize {
        self.receives.len
    }

    /// Takes out every send that waits.
    pub(crate) fn drain_sends(&mut self) -> impl Iterator<Item = K> + use<'_, K> {
        self.sends.drain().map(|waiting| waiting.send)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Send(i32),
        Announce(i32),
        WithdrawSend(usize),
        WithdrawReceive(usize),
    }

    fn announced(recv: u64) -> Announced {
        Announced { recv, bytes: 1, landing: Delivery::Unpacked, number: recv }
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let tag = 0i32..4;
        proptest::collection::vec(
            prop_oneof![
                4 => tag.clone().prop_map(Step::Send),
                4 => tag.prop_map(Step::Announce),
                1 => any::<usize>().prop_map(Step::WithdrawSend),
                1 => any::<usize>().prop_map(Step::WithdrawReceive),
            ],
            0..200,
        )
    }

    proptest! {
        /// Against the plainest model there is: two lists that are searched from the front.
        #[test]
        fn agrees_with_two_lists(steps in steps()) {
            let mut matcher = Matcher::<u64>::default();
            let mut sends: Vec<(i32, u64)> = Vec::new();
            let mut receives: Vec<(i32, u64)> = Vec::new();
            for (name, step) in (100u64..).zip(steps) {
                match step {
                    Step::Send(tag) => {
                        let model = receives.iter().position(|r| r.0 == tag).map(|at| receives.remove(at).1);
                        if model.is_none() {
                            sends.push((tag, name));
                        }
                        prop_assert_eq!(matcher.post_send(tag, name, 1).map(|met| met.announced.recv), model);
                    }
                    Step::Announce(tag) => {
                        let model = sends.iter().position(|s| s.0 == tag).map(|at| sends.remove(at).1);
                        if model.is_none() {
                            receives.push((tag, name));
                        }
                        let met = matcher.announce(tag, announced(name)).unwrap();
                        prop_assert_eq!(met.map(|met| met.send), model);
                    }
                    Step::WithdrawSend(pick) if !sends.is_empty() => {
                        let (tag, send) = sends.remove(pick % sends.len());
                        prop_assert!(matcher.withdraw_send(tag, send));
                        prop_assert!(!matcher.withdraw_send(tag, send));
                    }
                    Step::WithdrawReceive(pick) if !receives.is_empty() => {
                        let (_, recv) = receives.remove(pick % receives.len());
                        prop_assert!(matcher.withdraw_receive(recv));
                        prop_assert!(!matcher.withdraw_receive(recv));
                    }
                    Step::WithdrawSend(_) | Step::WithdrawReceive(_) => {}
                }
                prop_assert_eq!(matcher.announced(), receives.len());
                prop_assert_eq!(matcher.sends.len, sends.len());
            }
            let mut left: Vec<u64> = matcher.drain_sends().collect();
            left.sort_unstable();
            prop_assert_eq!(left, sends.iter().map(|s| s.1).collect::<Vec<_>>());
        }
    }

    #[test]
    fn backlog_reuses_its_storage() {
        let mut matcher = Matcher::<u32>::default();
        for round in 0..1000 {
            for send in 0..10 {
                assert_eq!(matcher.post_send(round * 10 + send, send as u32, 1), None);
            }
            for send in 0..10 {
                let announced = announced(send as u64);
                assert!(matcher.announce(round * 10 + send, announced).unwrap().is_some());
            }
        }
        assert_eq!(matcher.sends.nodes.len(), 10);
    }

    #[test]
    fn one_name_for_two_receives_is_refused() {
        let mut matcher = Matcher::<u32>::default();
        assert_eq!(matcher.announce(1, announced(5)), Ok(None));
        assert_eq!(matcher.announce(2, announced(5)), Err(DuplicateName));
    }
}
