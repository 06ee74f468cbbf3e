//! Calls of the plugin that may block: which are under way, since when, and whose turn it is.
//!
//! The original asks another process in some of its calls, without a limit of time. A call that has
//! not returned for [`CALL_TIMEOUT`] is *hung*: its peer is given up, and it is left behind with
//! whatever it uses. Calls that must not run twice at once in a process take turns. A hung one
//! loses its turn, because nobody else would ever have one.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use slotmap::{SlotMap, new_key_type};
use smallvec::SmallVec;

use super::comm_label::{BlockingCall, CommLabel};
use crate::error::PluginHang;
use crate::types::{PeerKey, SessionNumber};

/// How long a call may take. The original's accept may sleep for 5 s when a connection is there.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

new_key_type! {
    struct CallKey;
}

/// A call that is under way.
#[derive(Debug)]
struct UnderWay {
    call: BlockingCall,
    place: CommLabel,
    since: Instant,
}

/// A call that has been under way for long, and the peer for which it is made.
#[derive(Debug)]
pub(crate) struct LongCall {
    pub(crate) peer: PeerKey,
    pub(crate) call: BlockingCall,
    pub(crate) hang: PluginHang,
}

#[derive(Debug, Default)]
struct State {
    under_way: SlotMap<CallKey, UnderWay>,
    /// The call whose turn it is.
    turn: Option<CallKey>,
}

impl State {
    /// How long it is still the turn of the call that has it. `None`: it is nobody's.
    fn turn_ends_in(&self, now: Instant) -> Option<Duration> {
        let holder = self.under_way.get(self.turn?)?;
        let left = CALL_TIMEOUT.checked_sub(now.saturating_duration_since(holder.since))?;
        (!left.is_zero()).then_some(left)
    }
}

/// The calls of all sessions of the process.
#[derive(Debug, Default)]
pub(super) struct Calls {
    state: Mutex<State>,
    /// A turn is over.
    turn_over: Condvar,
}

impl Calls {
    /// Makes a call, when it is its turn.
    pub(super) fn make<T>(
        &self,
        call: BlockingCall,
        place: &CommLabel,
        make: impl FnOnce() -> T,
    ) -> T {
        let mut state = self.state();
        while call.takes_turns()
            && let Some(left) = state.turn_ends_in(Instant::now())
        {
            let woken = self.turn_over.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        let under_way = UnderWay { call, place: place.clone(), since: Instant::now() };
        let key = state.under_way.insert(under_way);
        if call.takes_turns() {
            state.turn = Some(key);
        }
        drop(state);
        let returned = make();
        self.returned(key);
        returned
    }

    fn returned(&self, key: CallKey) {
        let mut state = self.state();
        if state.turn == Some(key) {
            state.turn = None;
            self.turn_over.notify_one();
        }
        let Some(UnderWay { call, place, since }) = state.under_way.remove(key) else { return };
        drop(state);
        let waited = since.elapsed();
        if waited >= CALL_TIMEOUT {
            tracing::warn!(peer = %place.peer, channel = place.channel, call = call.name(), ?waited, "a call of the plugin that was given up has returned");
        }
    }

    /// Calls of a session that have been under way for at least this time.
    pub(super) fn longer_than(
        &self,
        time: Duration,
        session: SessionNumber,
        now: Instant,
    ) -> SmallVec<[LongCall; 1]> {
        let state = self.state();
        let of_session = state.under_way.values().filter(|call| call.place.session == session);
        of_session
            .map(|under_way| (under_way, now.saturating_duration_since(under_way.since)))
            .filter(|(_, waited)| *waited >= time)
            .map(|(UnderWay { call, place, .. }, waited)| LongCall {
                peer: place.peer_key,
                call: *call,
                hang: place.hang(*call, waited),
            })
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
