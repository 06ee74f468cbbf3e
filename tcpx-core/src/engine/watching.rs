//! Checks made about once a second: problems that the counters show, overdue transfers and
//! operations, and calls of the plugin that do not return.
//!
//! Only counters that are kept anyway are checked, of peers that were driven since they came to
//! rest. A silent peer starts all waiting times anew, and so does a pause in which no thread made
//! progress.

use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tcpx_protocol::types::TransferKey;

use super::super::stats::watch::SessionWatch;
use super::Engine;
use super::deadlines::Overdue;
use super::hung_calls::HungCalls;
use super::report::LONG;
use crate::error::{Error, Result};
use crate::peer::Peer;
use crate::peer::watch::WatchContext;
use crate::stats::ChannelStats;
use crate::stats::alarm::Alarm;
use crate::stats::watch::CheckTiming;
use crate::stats::watch::checks::is_slow;
use crate::stats::watch::speed::{NicSample, SlowBlock, SpeedSample};
use crate::transfer::transfer_cell::TransferCell;
use crate::types::PeerKey;

impl Engine {
    /// Checks everything that was not idle at the last check, if it is time.
    pub(super) fn look(&mut self, now: Instant) {
        let SessionWatch { schedule, alarms, .. } = &mut self.watch;
        let timing = schedule.next(now);
        if timing == CheckTiming::NotDue {
            return;
        }
        let stall_after = self.resources.session.options.stall_after.unwrap_or(Duration::MAX);
        let pages = &self.resources.batch.pages;
        let look = WatchContext { timing, now, stall_after, pages };
        let watched = self.agenda.take_watched();
        for key in &watched {
            if let Some(peer) = self.peers.get_mut(*key) {
                peer.watch(&look, alarms);
            }
        }
        self.check_speed();
        self.check_data_paths(&watched, now);
        let Self { agenda, peers, .. } = self;
        agenda.watch_on(watched, |key| peers.get(key).is_none_or(Peer::is_idle));
        self.check_calls(now);
    }

    /// Checks how fast the bytes of all peers are unpacked, and move.
    fn check_speed(&mut self) {
        let SessionWatch { troubles, alarms, speed, nic_reading, .. } = &mut self.watch;
        let (memory, backend) = (self.resources.session.memory.kind(), self.unpacking.backend());
        let mut moved = [ChannelStats::default(); 2];
        self.peers.values().for_each(|peer| peer.add_moved(&mut moved));
        let is_slow = is_slow(memory, backend, &moved[1]);
        troubles.set(Alarm::SlowBackend, is_slow, alarms, None, || {
            format!("backend {backend}, chosen because {}", self.unpacking.why())
        });
        let sample = SpeedSample { moved: moved.map(|sum| sum.bytes), stages: self.stages.times() };
        if let Some(nics) = nic_reading.take_if(|task| task.is_done()).and_then(|it| it.take()) {
            speed.read(nics);
        }
        if speed.check(sample) {
            let names = self.peers.values().flat_map(Peer::nics).cloned().collect();
            let read = move || NicSample::of(&names);
            *nic_reading = Some(self.resources.workers.call(read));
        }
        let below = speed.slow();
        let seen = || below.map_or_else(String::new, SlowBlock::to_string);
        troubles.set(Alarm::BelowNic, below.is_some(), alarms, None, seen);
    }

    /// Ends peers whose data path is cut, of these.
    fn check_data_paths(&mut self, watched: &[PeerKey], now: Instant) {
        let mut cut = SmallVec::<[(PeerKey, Error); 1]>::new();
        for key in watched.iter().copied() {
            let Some(peer) = self.peers.get_mut(key) else { continue };
            match peer.check_data_path(now, &mut self.resources) {
                Ok(()) => self.agenda.reschedule(key, peer.attention()),
                Err(error) => cut.push((key, error)),
            }
        }
        for (key, error) in cut {
            self.fail_peer(key, error);
        }
    }
}

/// Time between two expectations, while the program awaits notifications. The keepalive pings a
/// silent peer after a longer time, so no peer comes to rest in between.
const ASK_INTERVAL: Duration = Duration::from_secs(1);

impl Engine {
    /// Asks every peer for a sign of life, unless it did so a moment ago: a thread of the program
    /// waits for notifications, which no operation awaits.
    pub(crate) fn ask_peers(&mut self, now: Instant) {
        if self.asked_at.is_some_and(|at| now < at + ASK_INTERVAL) {
            return;
        }
        self.asked_at = Some(now);
        for (key, peer) in &mut self.peers {
            if peer.expect_if_up(now) {
                self.agenda.mark(key);
            }
        }
    }
}

/// Largest number of rounds that a round of progress gives up: other threads wait for the lock.
const MOST_AT_ONCE: usize = 64;

impl Engine {
    /// Sets the limit of rounds of a transfer that begin from now on.
    pub(crate) fn set_timeout(&mut self, key: TransferKey, limit: Option<Duration>) -> Result<()> {
        self.resources.ledger.transfers.get(key)?;
        self.deadlines.set_limit(key, limit);
        Ok(())
    }

    /// Takes note of a post to a transfer, which perhaps began a round. `limit`: its limit, if not
    /// that of the whole transfer.
    pub(super) fn begin_time(
        &mut self,
        key: TransferKey,
        cell: &TransferCell,
        limit: Option<Duration>,
    ) {
        let Some(limit) = limit.or_else(|| self.deadlines.limit_of(key)) else { return };
        self.deadlines.in_round(key, cell.round(), limit, Instant::now());
    }

    /// Gives up what has taken too long. Returns whether anything has.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let mut has_expired = false;
        for _ in 0..MOST_AT_ONCE {
            let Some(overdue) = self.deadlines.take_overdue(now) else { break };
            has_expired |= self.expire_round(overdue);
        }
        has_expired
    }

    /// Gives up an overdue round. Returns whether the round had not ended before.
    fn expire_round(&mut self, overdue: Overdue) -> bool {
        let Overdue { transfer, round, limit } = overdue;
        let Ok(state) = self.resources.ledger.transfers.get(transfer) else { return false };
        let key = state.peer;
        let expired = || Error::Expired { peer: self.name_of(key), after: limit };
        if !state.overdue(round, expired) {
            return false;
        }
        let Some(peer) = self.peers.get_mut(key) else { return true };
        let given_up = peer.overdue(transfer, &mut self.resources);
        self.agenda.mark(key);
        let _ = self.end_on_error(key, given_up);
        true
    }
}

impl Engine {
    /// Ends the peers of hung calls, if there are any.
    pub(super) fn check_calls(&mut self, now: Instant) {
        let mut long = self.calls_longer_than(LONG, now);
        if self.resources.session.plugin.is_hardware() {
            // Each of these accepts waits for a thread of the plugin, and no call of it is long.
            long.extend(self.peers.values().filter_map(|peer| peer.pending_accept(LONG, now)));
        }
        if long.is_empty() {
            self.hung_calls = HungCalls::default();
            return;
        }
        let session = &self.resources.session;
        if session.plugin.is_hardware() {
            let was_there = session.options.preflight;
            self.hung_calls.ask_daemon(now, &self.resources.workers, was_there);
        }
        for call in long {
            if let Some((peer, error)) = self.hung_calls.news(call) {
                tracing::error!(%error, "a call of the plugin hangs");
                self.fail_peer(peer, error);
            }
        }
    }
}
