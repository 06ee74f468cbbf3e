//! Notifications that ended peers have left and the program has not taken out. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use tcpx_protocol::types::peer_budget::{BudgetShare, PeerBudget};

use crate::types::PeerKey;

/// Cost that they may have together, whatever connected peers hold.
const RESERVED_BYTES: u64 = 1 << 20;
/// Divisor of the budget: beyond `RESERVED_BYTES`, they may cost at most this part of it. Otherwise
/// a peer that comes and goes would fill the memory of a program that takes nothing out.
const BUDGET_DIVISOR: u64 = 4;

/// Costs by peer; none is 0.
#[derive(Debug)]
pub(super) struct EndedSenders {
    /// Share of the budget for their total cost.
    share: BudgetShare,
    most: u64,
    costs: HashMap<PeerKey, u64>,
    /// The same costs in ascending order.
    order: BTreeSet<(u64, PeerKey)>,
}

impl EndedSenders {
    pub(super) fn new(budget: &Arc<PeerBudget>) -> Self {
        Self {
            share: BudgetShare::new(budget, RESERVED_BYTES),
            most: RESERVED_BYTES.max(budget.limit() / BUDGET_DIVISOR),
            costs: HashMap::default(),
            order: BTreeSet::new(),
        }
    }

    /// Returns whether the total takes memory that the budget does not have.
    fn is_beyond(&self) -> bool {
        self.share.held() > RESERVED_BYTES && self.share.is_overdrawn()
    }

    /// Adds an ended peer, which leaves notifications of this cost.
    pub(super) fn add(&mut self, peer: PeerKey, cost: u64) {
        self.share.hold(self.share.held() + cost);
        self.set(peer, cost);
    }

    /// Subtracts the cost of what the program has taken out of a peer's notifications.
    pub(super) fn take(&mut self, peer: PeerKey, cost: u64) {
        let left = self.costs.get(&peer).copied().unwrap_or_default();
        self.share.give_back(cost.min(left));
        self.set(peer, left.saturating_sub(cost));
    }

    /// Takes out the peers whose notifications are to be dropped, because there is too much. These
    /// are the peers that have left most, since a well-behaved peer leaves little.
    pub(super) fn take_excess(&mut self) -> HashSet<PeerKey> {
        let mut dropped = HashSet::default();
        if self.share.held() <= self.most && !self.is_beyond() {
            return dropped;
        }
        // So much less that each time is paid for by many notifications.
        let less = self.most.min(self.share.held()) / 4 * 3;
        while (self.share.held() > less || self.is_beyond())
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
        self.share.held()
    }
}
