//! First-in-first-out queues by tag. Pure.

use std::collections::TryReserveError;
use std::collections::hash_map::Entry;

use foldhash::HashMap;
use slotmap::{Key, SlotMap, new_key_type};

/// Number of items whose room is kept when none is left.
const KEPT_ITEMS: usize = 4096;

new_key_type! {
    /// Place of an item in the queues, until it is taken out. The null key stands for no place.
    pub struct QueuePlace;
}

/// First-in-first-out queues by tag, and one through all of them, as lists through one storage: no
/// allocation once that has grown to the largest backlog, and an item is taken out of the middle of
/// its queue without a search. What a large backlog took is given back with its last item.
#[derive(Debug)]
pub(in super::super) struct TagQueues<T> {
    queues: HashMap<i64, QueueEnds>,
    /// The queue of all items, whatever their tag.
    all: QueueEnds,
    nodes: SlotMap<QueuePlace, Node<T>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct QueueEnds {
    first: QueuePlace,
    last: QueuePlace,
}

/// Places of neighbours in one queue.
#[derive(Clone, Copy, Debug, Default)]
struct Neighbours {
    before: QueuePlace,
    behind: QueuePlace,
}

#[derive(Debug)]
struct Node<T> {
    item: T,
    tag: i64,
    of_tag: Neighbours,
    of_all: Neighbours,
}

impl<T> Default for TagQueues<T> {
    fn default() -> Self {
        Self { queues: HashMap::default(), all: QueueEnds::default(), nodes: SlotMap::with_key() }
    }
}

impl<T> TagQueues<T> {
    /// Bytes that an item takes, if each has a tag of its own and no storage has grown beyond it.
    #[cfg(test)]
    pub(in super::super) const ITEM_BYTES: usize =
        size_of::<Node<T>>() + size_of::<u32>() + size_of::<(i64, QueueEnds)>() + 1;

    pub(in super::super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the item that came before all others that are there.
    pub(in super::super) fn oldest(&self) -> Option<&T> {
        self.nodes.get(self.all.first).map(|node| &node.item)
    }

    /// Makes room for `count` more items, of any tags.
    pub(in super::super) fn make_room(&mut self, count: usize) -> Result<(), TryReserveError> {
        self.nodes.try_reserve(count)?;
        self.queues.try_reserve(count)
    }

    pub(in super::super) fn give_room_back(&mut self) {
        if self.nodes.is_empty() && self.nodes.capacity().max(self.queues.capacity()) > KEPT_ITEMS {
            *self = Self::default();
        }
    }

    /// Puts an item behind those of its tag. Returns its place, which stays until it is taken out.
    pub(in super::super) fn push(&mut self, tag: i64, item: T) -> QueuePlace {
        let alone = Neighbours::default();
        let of_all = Neighbours { before: self.all.last, ..alone };
        let place = self.nodes.insert(Node { item, tag, of_tag: alone, of_all });
        match self.nodes.get_mut(of_all.before) {
            Some(node) => node.of_all.behind = place,
            None => self.all.first = place,
        }
        self.all.last = place;
        match self.queues.entry(tag) {
            Entry::Vacant(entry) => {
                entry.insert(QueueEnds { first: place, last: place });
            }
            Entry::Occupied(mut entry) => {
                let before = std::mem::replace(&mut entry.get_mut().last, place);
                self.nodes[before].of_tag.behind = place;
                self.nodes[place].of_tag.before = before;
            }
        }
        place
    }

    /// Takes the oldest item of a tag out.
    pub(in super::super) fn pop(&mut self, tag: i64) -> Option<T> {
        let first = self.queues.get(&tag)?.first;
        self.remove(first)
    }

    /// Takes the oldest item of all out, and says its tag.
    pub(in super::super) fn pop_oldest(&mut self) -> Option<(i64, T)> {
        let oldest = self.all.first;
        let tag = self.nodes.get(oldest)?.tag;
        self.remove(oldest).map(|item| (tag, item))
    }

    /// Returns whether there is an item of a tag.
    pub(in super::super) fn has(&self, tag: i64) -> bool {
        self.queues.contains_key(&tag)
    }

    /// Takes out the item at a place that `push` returned.
    pub(in super::super) fn remove(&mut self, place: QueuePlace) -> Option<T> {
        let Node { item, tag, of_tag, of_all } = self.nodes.remove(place)?;
        match self.nodes.get_mut(of_all.before) {
            Some(node) => node.of_all.behind = of_all.behind,
            None => self.all.first = of_all.behind,
        }
        match self.nodes.get_mut(of_all.behind) {
            Some(node) => node.of_all.before = of_all.before,
            None => self.all.last = of_all.before,
        }
        if let Some(node) = self.nodes.get_mut(of_tag.before) {
            node.of_tag.behind = of_tag.behind;
        }
        if let Some(node) = self.nodes.get_mut(of_tag.behind) {
            node.of_tag.before = of_tag.before;
        }
        if let Entry::Occupied(mut entry) = self.queues.entry(tag) {
            match (of_tag.before.is_null(), of_tag.behind.is_null()) {
                (true, true) => {
                    entry.remove();
                }
                (true, false) => entry.get_mut().first = of_tag.behind,
                (false, true) => entry.get_mut().last = of_tag.before,
                (false, false) => {}
            }
        }
        self.give_room_back();
        Some(item)
    }

    /// Returns how many items there is room for.
    #[cfg(test)]
    pub(in super::super) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// Returns how many tags have items.
    #[cfg(test)]
    pub(in super::super) fn tags(&self) -> usize {
        self.queues.len()
    }
}
