//! What peers that have ended have left, as far as the program has not taken it out. Pure.

use std::collections::BTreeSet;

use foldhash::{HashMap, HashSet};

use crate::types::PeerKey;

/// What it may cost together. Otherwise one who comes and goes would fill the memory of a program
/// that does not look.
pub(super) const MOST: u64 = 64 << 20;
/// What is left of it once it was too much, so that each time is paid for by many notifications.
const LESS: u64 = MOST / 4 * 3;

/// Costs by peer, none of which is 0.
#[derive(Debug, Default)]
pub(super) struct LeftBehind {
    total: u64,
    costs: HashMap<PeerKey, u64>,
    /// The same in the order of the costs.
    order: BTreeSet<(u64, PeerKey)>,
}

impl LeftBehind {
    /// A peer has ended, and leaves so much.
    pub(super) fn add(&mut self, peer: PeerKey, cost: u64) {
        self.total += cost;
        self.set(peer, cost);
    }

    /// The program has taken out so much that a peer has left.
    pub(super) fn take(&mut self, peer: PeerKey, cost: u64) {
        let left = self.costs.get(&peer).copied().unwrap_or_default();
        self.total -= cost.min(left);
        self.set(peer, left.saturating_sub(cost));
    }

    /// Takes out the peers whose notifications are to be dropped, because there is too much: those
    /// that have left most, since a peer that means well leaves little.
    pub(super) fn too_many(&mut self) -> HashSet<PeerKey> {
        let mut dropped = HashSet::default();
        if self.total <= MOST {
            return dropped;
        }
        while self.total > LESS
            && let Some((_, peer)) = self.order.last().copied()
        {
            self.take(peer, u64::MAX);
            dropped.insert(peer);
        }
        dropped
    }

    fn set(&mut self, peer: PeerKey, cost: u64) {
        if let Some(before) = self.costs.remove(&peer) {
            self.order.remove(&(before, peer));
        }
        if cost > 0 {
            self.costs.insert(peer, cost);
            self.order.insert((cost, peer));
        }
    }

    #[cfg(test)]
    pub(super) fn total(&self) -> u64 {
        self.total
    }
}
