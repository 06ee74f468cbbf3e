//! What the counters say is wrong, about once a second.

use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::Engine;
use super::session_watch::SessionWatch;
use crate::error::Error;
use crate::peer::watch::WatchInput;
use crate::stats::alarm::Alarm;
use crate::stats::channel::ChannelStats;
use crate::stats::watch::Round;
use crate::stats::watch::backend::is_slow;
use crate::types::PeerKey;

impl Engine {
    /// Looks at everything, if it is time.
    pub(super) fn look(&mut self, now: Instant) {
        let SessionWatch { rounds, troubles, alarms } = &mut self.watch;
        let round = rounds.next(now);
        if round == Round::Early {
            return;
        }
        let stall_after = self.commons.session.options.stall_after.unwrap_or(Duration::MAX);
        let pages = &self.commons.batch.pages;
        let look = WatchInput { round, now, stall_after, pages };
        let mut received = ChannelStats::default();
        for peer in self.peers.values_mut() {
            peer.watch(&look, alarms);
            peer.add_received(&mut received);
        }
        let backend = self.unpack.backend();
        let is_slow = is_slow(self.commons.session.memory.kind(), backend, &received);
        troubles.set(Alarm::SlowBackend, is_slow, alarms, None, || {
            format!("backend {backend}, chosen because {}", self.unpack_why)
        });
        self.check_data_paths(now);
        self.check_calls(now);
    }

    /// Ends peers whose data path is cut.
    fn check_data_paths(&mut self, now: Instant) {
        let mut cut = SmallVec::<[(PeerKey, Error); 1]>::new();
        for (key, peer) in &mut self.peers {
            match peer.check_data_path(now, &mut self.commons) {
                Ok(()) => self.agenda.settle(key, peer.attention()),
                Err(error) => cut.push((key, error)),
            }
        }
        for (key, error) in cut {
            self.fail_peer(key, error);
        }
    }
}
