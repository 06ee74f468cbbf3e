//! Calls of the plugin that do not return, or that wait for a daemon which does not answer: their
//! peers end, and the others go on.

use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::Engine;
use super::hung_calls::HungCalls;
use super::parked::UNPACK_TIMEOUT;
use crate::error::PluginHang;
use crate::plugin::calls::{CALL_TIMEOUT, LongCall};
use crate::types::PeerKey;

/// After this time a call is worth a word where its peer's deadline passes, and a question to the
/// daemon that the hardware plugin asks.
const LONG: Duration = Duration::from_secs(2);

impl Engine {
    /// Ends the peers of calls that hang, if there are such.
    pub(super) fn check_calls(&mut self, now: Instant) {
        let mut long = self.calls_longer_than(LONG, now);
        if self.commons.session.plugin.is_hardware() {
            // Each of these waits by a thread of the plugin, and no call of it is long.
            long.extend(self.peers.values().filter_map(|peer| peer.pending_accept(LONG, now)));
        }
        if long.is_empty() {
            self.hung_calls = HungCalls::default();
            return;
        }
        let session = &self.commons.session;
        if session.plugin.is_hardware() {
            let was_there = session.options.preflight;
            self.hung_calls.ask_daemon(now, &self.commons.workers, was_there);
        }
        for call in long {
            if let Some((peer, error)) = self.hung_calls.news(call) {
                tracing::error!(%error, "a call of the plugin hangs");
                self.fail_peer(peer, error);
            }
        }
    }

    /// Calls that hang.
    pub(super) fn hung_calls(&self, now: Instant) -> SmallVec<[LongCall; 1]> {
        self.calls_longer_than(CALL_TIMEOUT, now)
    }

    /// A call for this peer that takes long, or that is not ready for a reason that was found.
    pub(super) fn long_call_of(&self, key: PeerKey, now: Instant) -> Option<PluginHang> {
        let pending = self.peers.get(key).and_then(|peer| peer.pending_accept(LONG, now));
        let mut long = self.calls_longer_than(LONG, now).into_iter().chain(pending);
        let of_peer = long.find(|call| call.peer == key && self.hung_calls.is_cause(call))?;
        Some(self.hung_calls.explain(of_peer))
    }

    /// How long to wait for the workers at the end: not at all, if one of them hangs.
    pub(crate) fn patience_with_workers(&self) -> Duration {
        if self.has_long_calls() { Duration::ZERO } else { UNPACK_TIMEOUT }
    }

    /// Whether a call takes so long that what it may use had better stay.
    pub(super) fn has_long_calls(&self) -> bool {
        !self.calls_longer_than(LONG, Instant::now()).is_empty()
    }

    fn calls_longer_than(&self, time: Duration, now: Instant) -> SmallVec<[LongCall; 1]> {
        let session = &self.commons.session;
        session.plugin.calls_longer_than(time, session.number, now)
    }
}
