//! The bounce buffer of one end: what its peer may have in it, and others that share it. A chunk
//! takes one page.

use std::sync::Arc;

use tcpx_testkit::Random;

use super::driver::{Check, ensure};
use crate::frames::frame::ChunkCounts;
use crate::peer::bounce_pool::{BounceCredit, BouncePool};

/// A channel of somebody else, who has sent whatever may be sent.
#[derive(Debug)]
struct Other {
    credit: BounceCredit,
    consumed: u64,
}

#[derive(Debug)]
pub(super) struct Bounce {
    pool: Arc<BouncePool>,
    pages: u64,
    /// Of each channel of the peer.
    credits: Vec<BounceCredit>,
    consumed: Vec<u64>,
    others: Vec<Other>,
}

impl Bounce {
    /// A buffer with at least a page for each channel. In one that is crowded somebody else has
    /// more than one already, if there are any to spare.
    pub(super) fn new(pages: u64, channels: u16, is_crowded: bool) -> Self {
        let pool = BouncePool::new(pages);
        let mut others = Vec::new();
        if is_crowded && pages > u64::from(channels) {
            others.extend(pool.admit(1).map(|credit| Other { credit, consumed: 0 }));
        }
        for other in &mut others {
            other.credit.expect(pages);
            other.credit.renew(0);
        }
        let credits: Vec<_> = (0..channels).filter_map(|_| pool.admit(1)).collect();
        assert_eq!(credits.len(), usize::from(channels), "{pages} pages are too few");
        let consumed = vec![0; credits.len()];
        Self { pool, pages, credits, consumed, others }
    }

    /// How many chunks the peer may send on each channel.
    pub(super) fn limits(&self) -> ChunkCounts {
        self.credits.iter().map(BounceCredit::limit).collect()
    }

    pub(super) fn expect(&mut self, channel: u16, chunks: u64) {
        self.credits[usize::from(channel)].expect(chunks);
    }

    pub(super) fn consume(&mut self, channel: usize) {
        self.consumed[channel] += 1;
    }

    /// New limits, if there are any.
    pub(super) fn renew(&mut self) -> Option<ChunkCounts> {
        let mut is_more = false;
        for (credit, consumed) in self.credits.iter_mut().zip(&self.consumed) {
            is_more |= credit.renew(*consumed);
        }
        is_more.then(|| self.limits())
    }

    /// Others come, expect, consume and go.
    pub(super) fn disturb(&mut self, random: &mut Random) {
        let count = self.others.len();
        match (random.below(4), count) {
            (0, _) | (_, 0) => {
                let others = self.pool.admit(1).map(|credit| Other { credit, consumed: 0 });
                self.others.extend(others);
            }
            (1, _) => drop(self.others.swap_remove(random.below(count))),
            (2, _) => self.others[random.below(count)].credit.expect(random.below(9) as u64),
            _ => {
                let other = &mut self.others[random.below(count)];
                other.consumed = other.credit.limit();
                other.credit.renew(other.consumed);
            }
        }
    }

    /// Everybody else goes.
    pub(super) fn leave_alone(&mut self) {
        self.others.clear();
    }

    /// What the peer has sent, of which this end has consumed some, has a place.
    pub(super) fn check(&self, sent: &[u64]) -> Check {
        let limits = self.limits();
        let is_allowed = sent.iter().zip(&limits).all(|(sent, limit)| sent <= limit);
        ensure!(is_allowed, "{sent:?} chunks are sent, credit is {limits:?}");
        let unconsumed = sent.iter().sum::<u64>() - self.consumed.iter().sum::<u64>();
        let of_others =
            self.others.iter().map(|other| other.credit.limit() - other.consumed).sum::<u64>();
        let (all, pages) = (unconsumed + of_others, self.pages);
        ensure!(all <= pages, "{unconsumed} chunks and {of_others} of others in {pages} pages");
        Ok(())
    }
}
