//! Small types that every room uses, beside those of the protocol (`tcpx_protocol::types`): keys,
//! what a peer is called, and which session of the process something belongs to. The lowest room;
//! it imports nothing of this crate.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use slotmap::new_key_type;
use tcpx_sys::printable;

/// Longest name of a session or peer.
pub(crate) const MAX_NAME_BYTES: usize = 64;
/// Most threads of a session that copy.
pub(crate) const MAX_COPY_THREADS: u16 = 64;

new_key_type! {
    /// A peer of a session.
    pub(crate) struct PeerKey;
}

/// A comm's place in the table of handles. Reused after the comm has closed, so the table stays
/// short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CommId(pub(crate) u32);

/// A session's number in its process. No two have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionNumber(u64);

impl SessionNumber {
    /// The number of a new session.
    pub(crate) fn next() -> Self {
        static USED: AtomicU64 = AtomicU64::new(0);
        Self(USED.fetch_add(1, Ordering::Relaxed))
    }
}

/// A peer's name, shared by everything that speaks of the peer.
#[derive(Clone)]
pub(crate) struct PeerName(Arc<Inner>);

struct Inner {
    provisional: String,
    bound: OnceLock<String>,
}

impl PeerName {
    /// A name that the program chose.
    pub(crate) fn bound(name: &str) -> Self {
        Self(Arc::new(Inner { provisional: String::new(), bound: OnceLock::from(name.to_owned()) }))
    }

    /// Somebody who came in and calls itself `given`, or nothing. These are a stranger's words,
    /// which go into logs.
    pub(crate) fn unclaimed(given: &str, address: &str) -> Self {
        let provisional = match given {
            "" => format!("(not accepted, from {address})"),
            given => format!("{} (not accepted, from {address})", printable(given)),
        };
        Self(Arc::new(Inner { provisional, bound: OnceLock::new() }))
    }

    /// Gives it the name that it keeps. A second name is ignored.
    pub(crate) fn bind(&self, name: &str) {
        self.0.bound.get_or_init(|| name.to_owned());
    }

    /// Whether the program knows it by name.
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
    fn everybody_who_holds_the_name_sees_it_bound_once() {
        let name = PeerName::unclaimed("left", "10.0.0.1:9");
        let held = name.clone();
        assert!(!held.is_bound());
        assert_eq!(held.to_string(), "left (not accepted, from 10.0.0.1:9)");
        name.bind("client");
        name.bind("somebody else");
        assert!(held.is_bound());
        assert_eq!(held.as_str(), "client");
    }

    #[test]
    fn a_strangers_name_for_itself_is_one_line() {
        let name = PeerName::unclaimed("a\nb\u{1b}[1m", "10.0.0.1:9");
        assert_eq!(name.to_string(), "a\\nb\\u{1b}[1m (not accepted, from 10.0.0.1:9)");
    }
}
