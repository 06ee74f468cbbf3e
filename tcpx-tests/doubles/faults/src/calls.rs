#![allow(unsafe_code)]
//! Faults of calls: codes that are returned, a call that is late or never returns, a process that
//! freezes or dies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tcpx_sys::NcclResult;

use crate::fault::Fault;
use crate::script::FaultScript;
use tcpx_softnet::Entry;

/// What the script wants of one call instead of, or before, what the call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptedCall {
    /// Return this code and do nothing.
    Return(i32),
    /// Stop the process, then do the call.
    Freeze,
    /// Wait this many milliseconds, then do the call.
    Delay(u64),
    /// Never return.
    Block,
    /// End the process.
    Die,
}

impl ScriptedCall {
    /// Stops or ends the process, if that is what is asked for. Gives the code to return instead of
    /// doing the call, if there is one.
    pub(crate) fn play(self) -> Option<NcclResult> {
        let signal = match self {
            Self::Return(code) => return Some(NcclResult(code)),
            Self::Delay(ms) => {
                std::thread::sleep(Duration::from_millis(ms));
                return None;
            }
            // The caller holds no lock, so no other thread waits for it.
            Self::Block => loop {
                std::thread::park();
            },
            Self::Freeze => libc::SIGSTOP,
            Self::Die => libc::SIGKILL,
        };
        // SAFETY: raise touches no memory. It is this thread that gets the signal, so nothing
        // runs in it before the effect.
        unsafe { libc::raise(signal) };
        None
    }
}

/// How often every entry was called. Calls are counted only when there is a script.
#[derive(Debug)]
pub(crate) struct CallCounter {
    calls: [AtomicU64; Entry::ALL.len()],
}

impl CallCounter {
    pub(crate) const fn new() -> Self {
        Self { calls: [const { AtomicU64::new(0) }; Entry::ALL.len()] }
    }

    /// Counts a call, and says what the script wants of it, if anything.
    #[inline]
    pub(crate) fn count(&self, entry: Entry, script: &FaultScript) -> Option<ScriptedCall> {
        if script.faults.is_empty() { None } else { self.look_up(entry, script) }
    }

    fn look_up(&self, entry: Entry, script: &FaultScript) -> Option<ScriptedCall> {
        let call = 1 + self.calls[entry as usize].fetch_add(1, Ordering::Relaxed);
        script.faults.iter().find_map(|fault| {
            let (e, c, scripted) = match *fault {
                Fault::Return { entry, call, code } => (entry, call, ScriptedCall::Return(code)),
                Fault::Freeze { entry, call } => (entry, call, ScriptedCall::Freeze),
                Fault::Delay { entry, call, ms } => (entry, call, ScriptedCall::Delay(ms)),
                Fault::Block { entry, call } => (entry, call, ScriptedCall::Block),
                Fault::Die { entry, call } => (entry, call, ScriptedCall::Die),
                _ => return None,
            };
            ((e, c) == (entry, call)).then_some(scripted)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_is_counted_by_itself() {
        let faults =
            ["rc:test@2=6", "freeze:isend@1", "die:test@3", "delay:isend@2=7", "block:listen@1"]
                .map(|text| text.parse().expect("a fault"))
                .to_vec();
        let script = FaultScript { faults, ..FaultScript::default() };
        let counter = CallCounter::new();
        let count = |entry| counter.count(entry, &script);
        assert_eq!(count(Entry::Test), None);
        assert_eq!(count(Entry::Isend), Some(ScriptedCall::Freeze));
        assert_eq!(count(Entry::Test), Some(ScriptedCall::Return(6)));
        assert_eq!(count(Entry::Test), Some(ScriptedCall::Die));
        assert_eq!(count(Entry::Isend), Some(ScriptedCall::Delay(7)));
        assert_eq!(count(Entry::Listen), Some(ScriptedCall::Block));
        assert_eq!((count(Entry::Test), count(Entry::Isend)), (None, None));
    }
}
