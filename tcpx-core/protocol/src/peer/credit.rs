//! Credit for chunks: the number of chunks that peers may have in a bounce buffer. The module calls
//! no plugin.
//!
//! The plugin takes pages as packets come, whether a receive is posted or not, and gives them back
//! only with whole requests. Parts of many chunks can hold every page, and then nothing moves any
//! more. So a peer sends a chunk only if the whole of it has a place here, which is its *credit*.
//!
//! All sessions of a process that receive into one buffer share its pool. It is divided so:
//!
//! - Pages for one chunk are kept for each channel while its comm is open. A channel for which that
//!   is not possible is refused.
//! - A channel gets more for chunks that were matched, as much as is left free. Ten busy channels
//!   have an eleventh each, and one that is busy alone has half.
//! - Nothing is taken back before it is used. A new channel may have to wait for its first chunk,
//!   until others have consumed of what they have more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Pools of the bounce buffers of this process that comms receive into, by address.
static POOLS: Mutex<Vec<(u64, Weak<BouncePool>)>> = Mutex::new(Vec::new());

/// Account of the credit that was promised of one bounce buffer.
#[derive(Debug)]
pub struct BouncePool(Mutex<Account>);

/// Pages that are kept for channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedPages {
    /// Number of channels.
    pub channels: usize,
    /// Number of pages.
    pub pages: u64,
}

/// Counts in pages.
#[derive(Debug)]
struct Account {
    pages: u64,
    /// Pages of chunks that peers may have in it now.
    promised: u64,
    /// Pages of channels that have nothing promised: one chunk of each.
    owed: u64,
    /// Pages of one chunk of each channel.
    kept: u64,
    channels: usize,
}

impl BouncePool {
    /// Makes a pool of this many pages.
    pub fn new(pages: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Account { pages, promised: 0, owed: 0, kept: 0, channels: 0 })))
    }

    /// Returns the pool of the bounce buffer at an address. What the system says of its size
    /// changes while other memory is mapped beside it: the least is true.
    pub fn of(address: u64, pages: u64) -> Arc<Self> {
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|(_, pool)| pool.strong_count() > 0);
        let mut known = pools.iter().filter(|(known, _)| *known == address);
        if let Some(pool) = known.find_map(|(_, pool)| pool.upgrade()) {
            let mut account = pool.lock();
            account.pages = account.pages.min(pages);
            drop(account);
            return pool;
        }
        let pool = Self::new(pages);
        pools.push((address, Arc::downgrade(&pool)));
        pool
    }

    /// Admits a channel whose chunks take `chunk_pages` pages each. `None`: there is no place for
    /// one chunk of each channel.
    pub fn admit(self: &Arc<Self>, chunk_pages: u64) -> Option<BounceCredit> {
        let mut account = self.lock();
        if account.kept + chunk_pages > account.pages {
            return None;
        }
        account.kept += chunk_pages;
        account.owed += chunk_pages;
        account.channels += 1;
        drop(account);
        let pool = Arc::clone(self);
        let mut credit = BounceCredit { pool, chunk_pages, held: 0, scheduled: 0, consumed: 0 };
        credit.renew(0);
        Some(credit)
    }

    /// Returns the pages that are kept for the channels that are there.
    pub fn kept(&self) -> ReservedPages {
        let account = self.lock();
        ReservedPages { channels: account.channels, pages: account.kept }
    }

    /// Locks the account. No code that runs under the lock can panic half way.
    fn lock(&self) -> MutexGuard<'_, Account> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// Takes pages for one more chunk of a channel that has `held`. Returns false if the channel
    /// has to wait.
    fn take(&mut self, held: u64, chunk_pages: u64) -> bool {
        if held == 0 {
            let fits = self.promised + chunk_pages <= self.pages;
            self.owed -= if fits { chunk_pages } else { 0 };
            self.promised += if fits { chunk_pages } else { 0 };
            return fits;
        }
        let free = self.pages.saturating_sub(self.promised + self.owed);
        let fits = (held + 2) * chunk_pages <= free;
        self.promised += if fits { chunk_pages } else { 0 };
        fits
    }

    /// Puts back pages of a channel that has `held`: this many chunks are consumed.
    fn put_back(&mut self, held: u64, chunks: u64, chunk_pages: u64) {
        self.promised -= chunks * chunk_pages;
        if chunks > 0 && chunks == held {
            self.owed += chunk_pages;
        }
    }
}

/// Share of one channel in a pool. Dropping it gives everything back. Drop it when the comm is
/// closed and holds no page any more.
#[derive(Debug)]
pub struct BounceCredit {
    pool: Arc<BouncePool>,
    chunk_pages: u64,
    /// Chunks that the peer may send or has sent, and that are not consumed.
    held: u64,
    /// Chunks that were matched so far.
    scheduled: u64,
    /// Chunks that were consumed so far.
    consumed: u64,
}

impl BounceCredit {
    /// Expects this many more chunks on the channel.
    pub fn expect(&mut self, chunks: u64) {
        self.scheduled += chunks;
    }

    /// Gives back what was consumed, `consumed` chunks since the comm was opened, and takes what
    /// there is for those that are expected. Returns whether the peer may send more than before.
    pub fn renew(&mut self, consumed: u64) -> bool {
        let back = consumed.saturating_sub(self.consumed).min(self.held);
        // The first chunks may come before their match.
        let wanted = self.scheduled.saturating_sub(consumed).max(1);
        if back == 0 && self.held >= wanted {
            return false;
        }
        let before = self.limit();
        let mut account = self.pool.lock();
        account.put_back(self.held, back, self.chunk_pages);
        self.consumed += back;
        self.held -= back;
        while self.held < wanted && account.take(self.held, self.chunk_pages) {
            self.held += 1;
        }
        drop(account);
        self.limit() > before
    }

    /// Returns how many chunks the peer may send, counted from the first one on the channel.
    pub fn limit(&self) -> u64 {
        self.consumed + self.held
    }

    /// Returns whether the peer may send nothing, because others have what this channel needs.
    pub fn is_withheld(&self) -> bool {
        self.held == 0
    }
}

impl Drop for BounceCredit {
    fn drop(&mut self) {
        let mut account = self.pool.lock();
        account.put_back(self.held, self.held, self.chunk_pages);
        account.owed -= self.chunk_pages;
        account.kept -= self.chunk_pages;
        account.channels -= 1;
    }
}

#[cfg(test)]
mod tests;
