//! What the counters say is wrong, about once a second.

use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::Engine;
use super::session_watch::SessionWatch;
use crate::error::Error;
use crate::peer::Peer;
use crate::peer::watch::WatchInput;
use crate::stats::alarm::Alarm;
use crate::stats::channel::ChannelStats;
use crate::stats::watch::Round;
use crate::stats::watch::backend::is_slow;
use crate::types::PeerKey;

impl Engine {
    /// Looks at everything that was not idle when it was last looked at, if it is time.
    pub(super) fn look(&mut self, now: Instant) {
        let SessionWatch { rounds, troubles, alarms } = &mut self.watch;
        let round = rounds.next(now);
        if round == Round::Early {
            return;
        }
        let stall_after = self.commons.session.options.stall_after.unwrap_or(Duration::MAX);
        let pages = &self.commons.batch.pages;
        let look = WatchInput { round, now, stall_after, pages };
        let watched = self.agenda.take_watched();
        for key in &watched {
            if let Some(peer) = self.peers.get_mut(*key) {
                peer.watch(&look, alarms);
            }
        }
        let (memory, backend) = (self.commons.session.memory.kind(), self.unpack.backend());
        let received = || {
            let mut received = ChannelStats::default();
            self.peers.values().for_each(|peer| peer.add_received(&mut received));
            received
        };
        let is_slow = is_slow(memory, backend, received);
        troubles.set(Alarm::SlowBackend, is_slow, alarms, None, || {
            format!("backend {backend}, chosen because {}", self.unpack_why)
        });
        self.check_data_paths(&watched, now);
        let Self { agenda, peers, .. } = self;
        agenda.watch_on(watched, |key| peers.get(key).is_none_or(Peer::is_idle));
        self.check_calls(now);
    }

    /// Ends those of these peers whose data path is cut.
    fn check_data_paths(&mut self, watched: &[PeerKey], now: Instant) {
        let mut cut = SmallVec::<[(PeerKey, Error); 1]>::new();
        for key in watched.iter().copied() {
            let Some(peer) = self.peers.get_mut(key) else { continue };
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
