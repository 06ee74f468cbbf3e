//! What the counters say is wrong, about once a second.

use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::peer::WatchInput;
use crate::stats::alarm::{Alarm, Alarms, Troubles};
use crate::stats::channel::ChannelStats;
use crate::stats::watch::backend::is_slow;
use crate::stats::watch::{Round, Rounds};

/// What a session remembers of earlier looks; each peer has its own memory besides.
#[derive(Debug, Default)]
pub(super) struct Watch {
    rounds: Rounds,
    troubles: Troubles,
    pub(super) alarms: Alarms,
}

impl Engine {
    /// Looks at everything, if it is time.
    pub(super) fn look(&mut self, now: Instant) {
        let Watch { rounds, troubles, alarms } = &mut self.watch;
        let round = rounds.next(now);
        if round == Round::Early {
            return;
        }
        let stall_after = self.env.options.stall_after.unwrap_or(Duration::MAX);
        let (ledger, pages) = (&self.ledger, &self.batch.pages);
        let look = WatchInput { round, now, stall_after, ledger, pages };
        let mut received = ChannelStats::default();
        for peer in self.peers.values_mut() {
            peer.watch(&look, alarms);
            peer.add_received(&mut received);
        }
        let backend = self.unpack.backend();
        let is_slow = is_slow(self.env.memory.kind(), backend, &received);
        troubles.set(Alarm::SlowBackend, is_slow, alarms, None, || {
            format!("backend {backend}, chosen because {}", self.unpack_why)
        });
    }
}
