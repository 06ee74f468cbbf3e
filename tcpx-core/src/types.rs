//! Small types that every room uses, beside those of the protocol (`tcpx_protocol::types`): keys,
//! names of peers, and session numbers in the process. The lowest room; it imports nothing of this
//! crate.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

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
}
