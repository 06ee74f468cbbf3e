//! Lane of a channel that is lost: what it was given and has not finished.

use tcpx_protocol::plans::stripe_queue::{Finished, StripeQueue};

use crate::stats::ChannelStats;

/// Chunks of one direction of a lost channel.
#[derive(Debug)]
pub(crate) struct LostLane {
    pub(crate) stripes: StripeQueue,
    pub(crate) stats: ChannelStats,
    /// Chunks that have finished; of sends no more than were posted may.
    pub(crate) finished: u64,
    /// Chunks that the other end has unpacked, of a lane that sends; chunks that it may send, of
    /// one that receives.
    pub(crate) limit: Option<u64>,
}

impl LostLane {
    /// Ends the sends that the other end has unpacked.
    pub(crate) fn finish_sends(&mut self, done: &mut Vec<Finished>) {
        let until = self.stats.posts.min(self.limit.unwrap_or(0));
        while self.finished < until {
            self.finished += 1;
            self.stripes.finish(done);
        }
    }
}
