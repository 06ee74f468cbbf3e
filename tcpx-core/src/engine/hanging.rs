//! Calls of the plugin that do not return: their peers end, and the others go on.

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
        let long = self.calls_longer_than(LONG, now);
        if long.is_empty() {
            self.hung_calls = HungCalls::default();
            return;
        }
        if self.commons.session.plugin.is_hardware() {
            self.hung_calls.ask_daemon(&self.commons.workers);
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

    /// A call for this peer that takes long.
    pub(super) fn long_call_of(&self, key: PeerKey, now: Instant) -> Option<PluginHang> {
        let mut long = self.calls_longer_than(LONG, now).into_iter();
        let of_peer = long.find(|call| call.peer == key)?;
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
