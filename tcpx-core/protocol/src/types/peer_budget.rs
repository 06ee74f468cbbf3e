//! Memory that peers make a session keep for them, all together. Pure.
//!
//! Each peer has a *share*. The first bytes of it are its own, whatever others hold, so that no
//! peer keeps another from being served. The bytes beyond them belong to the session's budget. One
//! peer may have most of what no other peer needs, but not the last of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Divisor of the budget that gives a large share. A peer that holds one leaves a part of the
/// budget to others.
const LARGE: u64 = 8;
/// Divisor of the budget that gives this part.
const LEFT_TO_OTHERS: u64 = 4;

/// Memory that peers of one session may make it keep, beside what is each one's own.
#[derive(Debug)]
pub struct PeerBudget {
    limit: u64,
    used: AtomicU64,
}

impl PeerBudget {
    /// Makes one.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicU64::new(0) })
    }

    /// Returns the number of bytes that peers hold, beside what is each one's own.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that they may hold.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    fn free(&self) -> u64 {
        self.limit.saturating_sub(self.used())
    }
}

/// Memory that one peer holds, for one purpose. Dropping the share gives the memory back.
#[derive(Debug)]
pub struct BudgetShare {
    budget: Arc<PeerBudget>,
    /// Bytes that are its own.
    own: u64,
    held: u64,
}

impl BudgetShare {
    /// Makes one.
    pub fn new(budget: &Arc<PeerBudget>, own: u64) -> Self {
        Self { budget: Arc::clone(budget), own, held: 0 }
    }

    /// Takes room for up to `things` things of `thing_bytes` bytes, but no more than one in `part`
    /// of what is free. Returns the number of things that there is room for.
    pub fn take(&mut self, things: u64, thing_bytes: u64, part: u64) -> u64 {
        let PeerBudget { limit, .. } = *self.budget;
        let is_large = self.beyond_own(self.held) > limit / LARGE;
        let kept = if is_large { limit / LEFT_TO_OTHERS } else { 0 };
        let shared = self.budget.free().saturating_sub(kept) / part;
        let most = self.own.saturating_sub(self.held).saturating_add(shared);
        let things = things.min(most / thing_bytes);
        self.hold(self.held + things * thing_bytes);
        things
    }

    /// Holds this many bytes from now on.
    pub fn hold(&mut self, bytes: u64) {
        let (before, now) = (self.beyond_own(self.held), self.beyond_own(bytes));
        self.held = bytes;
        if now >= before {
            self.budget.used.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.budget.used.fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    /// Returns the number of bytes that it holds.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Returns whether more is held of the budget than there is.
    pub fn is_overdrawn(&self) -> bool {
        self.budget.used() > self.budget.limit
    }

    /// Gives this many bytes back.
    pub fn give_back(&mut self, bytes: u64) {
        self.hold(self.held.saturating_sub(bytes));
    }

    fn beyond_own(&self, held: u64) -> u64 {
        held.saturating_sub(self.own)
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.hold(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_peers_own_is_there_whatever_others_hold() {
        let budget = PeerBudget::new(1000);
        let mut greedy = BudgetShare::new(&budget, 100);
        while greedy.take(u64::MAX, 1, 2) > 0 {}
        let taken = budget.used();
        assert!((700..=750).contains(&taken), "{taken}: most of it, but the last is for others");
        let mut others: Vec<_> = (0..100).map(|_| BudgetShare::new(&budget, 100)).collect();
        assert!(others.iter_mut().all(|other| other.take(10, 10, 2) == 10));
        assert_eq!(budget.used(), taken);
        assert!(others[0].take(1000, 1, 2) > 0);
        drop(others);
        greedy.give_back(500);
        assert_eq!(budget.used(), taken - 500);
        drop(greedy);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn together_they_hold_no_more_than_there_is() {
        let budget = PeerBudget::new(1000);
        let mut all: Vec<_> = (0..50).map(|_| BudgetShare::new(&budget, 10)).collect();
        for turn in 0..2000u64 {
            let share = &mut all[turn as usize * 7 % 50];
            match turn % 5 {
                0 => share.give_back(turn % 30),
                _ => drop(share.take(turn % 90, 1 + turn % 3, 1 + turn % 4)),
            }
            assert!(budget.used() <= 1000);
        }
    }
}
