//! Small types that every room uses, beside those of the protocol (`tcpx_protocol::types`): keys,
//! names of peers, session numbers in the process, and time without its pauses. The lowest room; it
//! imports nothing of this crate.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use slotmap::new_key_type;
use tcpx_sys::printable;

/// Longest name of a session or peer.
pub(crate) const MAX_NAME_BYTES: usize = 64;
/// Largest number of copying threads of a session.
pub(crate) const MAX_COPY_THREADS: u16 = 64;

new_key_type! {
    /// Key of a peer of a session.
    pub(crate) struct PeerKey;
}

/// Place of a comm in the table of handles. A place is reused after its comm has closed, so the
/// table stays short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CommId(pub(crate) u32);

/// Number of a session in its process. No two sessions have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionNumber(u64);

impl SessionNumber {
    /// Returns the number of a new session.
    pub(crate) fn next() -> Self {
        static USED: AtomicU64 = AtomicU64::new(0);
        Self(USED.fetch_add(1, Ordering::Relaxed))
    }
}

/// Name of a peer, shared by all code that names the peer.
#[derive(Clone)]
pub(crate) struct PeerName(Arc<NameState>);

struct NameState {
    provisional: String,
    bound: OnceLock<String>,
}

impl PeerName {
    /// Makes a name that the program chose.
    pub(crate) fn bound(name: &str) -> Self {
        Self(Arc::new(NameState {
            provisional: String::new(),
            bound: OnceLock::from(name.to_owned()),
        }))
    }

    /// Makes the name of an accepted peer that calls itself `given`, or nothing. The text comes
    /// from an unauthenticated connection, and goes into logs.
    pub(crate) fn provisional(given: &str, address: &str) -> Self {
        let provisional = match given {
            "" => format!("(not accepted, from {address})"),
            given => format!("{} (not accepted, from {address})", printable(given)),
        };
        Self(Arc::new(NameState { provisional, bound: OnceLock::new() }))
    }

    /// Gives the peer its permanent name. A second name is ignored.
    pub(crate) fn bind(&self, name: &str) {
        self.0.bound.get_or_init(|| name.to_owned());
    }

    /// Returns whether the program knows the peer by name.
    pub(crate) fn is_bound(&self) -> bool {
        self.0.bound.get().is_some()
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.bound.get().unwrap_or(&self.0.provisional)
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// Most that the time between two looks counts.
pub(crate) const LONGEST_STEP: Duration = Duration::from_secs(1);

/// Time since a start for which something has been seen to last. While a process or its machine
/// stands still (a stopped process, a migrated machine), no call can return, and no call is to
/// blame: such a pause counts as a moment, however long it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedTime {
    observed: Duration,
    last_look: Instant,
}

impl ObservedTime {
    pub(crate) fn since(start: Instant) -> Self {
        Self { observed: Duration::ZERO, last_look: start }
    }

    /// Returns the time when to look next, for a limit of the observed time.
    pub(crate) fn next_look(&self, limit: Duration) -> Instant {
        self.last_look + limit.saturating_sub(self.observed).min(LONGEST_STEP)
    }

    /// Returns the time up to the last look.
    pub(crate) fn so_far(&self) -> Duration {
        self.observed
    }

    /// Looks, and returns the time up to now.
    pub(crate) fn look(&mut self, now: Instant) -> Duration {
        self.observed += now.saturating_duration_since(self.last_look).min(LONGEST_STEP);
        self.last_look = now;
        self.observed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_holder_of_the_name_sees_it_bound_once() {
        let name = PeerName::provisional("left", "10.0.0.1:9");
        let held = name.clone();
        assert!(!held.is_bound());
        assert_eq!(held.to_string(), "left (not accepted, from 10.0.0.1:9)");
        name.bind("client");
        name.bind("another");
        assert!(held.is_bound());
        assert_eq!(held.as_str(), "client");
    }

    #[test]
    fn a_name_from_an_unauthenticated_connection_is_one_line() {
        let name = PeerName::provisional("a\nb\u{1b}[1m", "10.0.0.1:9");
        assert_eq!(name.to_string(), "a\\nb\\u{1b}[1m (not accepted, from 10.0.0.1:9)");
    }

    #[test]
    fn a_pause_counts_as_a_moment() {
        let start = Instant::now();
        let mut time = ObservedTime::since(start);
        let mut at = |ms| time.look(start + Duration::from_millis(ms)).as_millis();
        assert_eq!(at(0), 0);
        assert_eq!(at(700), 700);
        assert_eq!(at(699), 700, "another thread has read the time earlier");
        assert_eq!(at(1699), 1700);
        assert_eq!(at(60_000), 2700);
        assert_eq!(at(61_000), 3700);
        let next = |ms| time.next_look(Duration::from_millis(ms)) - start;
        assert_eq!(
            [0, 3700, 3900, 9000].map(|ms| next(ms).as_millis()),
            [61_000, 61_000, 61_200, 62_000]
        );
    }
}
