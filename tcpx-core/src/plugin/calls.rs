//! Blocking calls of the plugin: the calls in progress, their times, and their turns.
//!
//! The original asks another process in some of its calls, without a time limit. A call that has
//! been [seen](ObservedTime) to last for [`CALL_TIMEOUT`] is *hung*: its peer is given up, and the
//! call is abandoned with whatever it uses. Calls that must not run twice at once in a process take
//! turns. A hung call loses its turn, because no other call would ever get one.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use slotmap::{SlotMap, new_key_type};
use smallvec::SmallVec;

use super::comm_label::{BlockingCall, CommLabel};
use crate::error::PluginHang;
use crate::types::{LONGEST_STEP, ObservedTime, PeerKey, SessionNumber};

/// Time after which a call is hung. The original's accept may sleep for 5 s when a connection is
/// there.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

new_key_type! {
    struct CallKey;
}

/// Call in progress.
#[derive(Debug)]
struct CallInProgress {
    call: BlockingCall,
    label: CommLabel,
    lasts: ObservedTime,
}

/// Call that has been in progress for long, and the peer for which it is made.
#[derive(Debug)]
pub(crate) struct LongCall {
    pub(crate) peer: PeerKey,
    pub(crate) call: BlockingCall,
    pub(crate) hang: PluginHang,
}

#[derive(Debug, Default)]
struct CallState {
    in_progress: SlotMap<CallKey, CallInProgress>,
    /// Call that has the turn.
    turn: Option<CallKey>,
}

impl CallState {
    /// Returns how long the call that has the turn keeps it at least. `None`: no call has the turn.
    fn turn_ends_in(&mut self, now: Instant) -> Option<Duration> {
        let holder = self.in_progress.get_mut(self.turn?)?;
        let left = CALL_TIMEOUT.checked_sub(holder.lasts.look(now))?;
        (!left.is_zero()).then_some(left.min(LONGEST_STEP))
    }
}

/// Calls of all sessions of the process.
#[derive(Debug, Default)]
pub(super) struct Calls {
    state: Mutex<CallState>,
    /// Condition that a turn is over.
    turn_over: Condvar,
}

impl Calls {
    /// Waits for the turn of a call, and makes it.
    pub(super) fn make<T>(
        &self,
        call: BlockingCall,
        label: &CommLabel,
        make: impl FnOnce() -> T,
    ) -> T {
        let mut state = self.state();
        while call.takes_turns()
            && let Some(left) = state.turn_ends_in(Instant::now())
        {
            let woken = self.turn_over.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        let lasts = ObservedTime::since(Instant::now());
        let in_progress = CallInProgress { call, label: label.clone(), lasts };
        let key = state.in_progress.insert(in_progress);
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
        let Some(CallInProgress { call, label, mut lasts }) = state.in_progress.remove(key) else {
            return;
        };
        drop(state);
        let waited = lasts.look(Instant::now());
        if waited >= CALL_TIMEOUT {
            tracing::warn!(peer = %label.peer, channel = label.channel, call = call.name(), ?waited, "a call of the plugin that was given up has returned");
        }
    }

    /// Returns the calls of a session that have been in progress for at least this time.
    pub(super) fn longer_than(
        &self,
        time: Duration,
        session: SessionNumber,
        now: Instant,
    ) -> SmallVec<[LongCall; 1]> {
        let mut state = self.state();
        let of_session = state.in_progress.values_mut().filter(|it| it.label.session == session);
        of_session
            .map(|CallInProgress { call, label, lasts }| (call, label, lasts.look(now)))
            .filter(|(.., waited)| *waited >= time)
            .map(|(call, label, waited)| LongCall {
                peer: label.peer_key,
                call: *call,
                hang: label.hang(*call, waited),
            })
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, CallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::memory::device_memory::DeviceMemory;
    use crate::types::PeerName;

    #[test]
    fn a_call_hangs_after_ten_seconds_in_which_the_process_ran() {
        let session = SessionNumber::next();
        let label = CommLabel {
            session,
            peer_key: PeerKey::default(),
            peer: PeerName::bound("far"),
            channel: 0,
            nic: "eth1".into(),
            nic_index: 0,
            memory: DeviceMemory::Emulated,
        };
        let calls = Calls::default();
        let (began, begun) = channel();
        let (end, ended) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(|| {
                calls.make(BlockingCall::Accept, &label, move || {
                    began.send(()).unwrap();
                    // The other thread ends it, also by a panic.
                    let _ = ended.recv();
                });
            });
            begun.recv().unwrap();
            let now = Instant::now();
            let hung_at = |seconds| {
                let hung =
                    calls.longer_than(CALL_TIMEOUT, session, now + Duration::from_secs(seconds));
                hung.len()
            };
            assert_eq!(hung_at(3600), 0, "it stood still");
            assert!((3601..3609).all(|seconds| hung_at(seconds) == 0));
            assert_eq!(hung_at(3609), 1);
            drop(end);
        });
        assert!(calls.longer_than(Duration::ZERO, session, Instant::now()).is_empty());
    }
}
