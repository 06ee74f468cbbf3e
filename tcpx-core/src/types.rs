//! Small types that every room uses, beside those of the protocol (`tcpx_protocol::types`). The
//! lowest room; it imports nothing of this crate.
//!
//! - `peer_name`: what a peer is called in logs and errors.
//! - `session_number`: which session of the process something belongs to.

pub(crate) mod peer_name;
pub(crate) mod session_number;

use slotmap::new_key_type;

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
