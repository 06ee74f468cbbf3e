//! An operation that a program has prepared.

use std::sync::Arc;

use crate::control::conn_info::SessionId;
use crate::peer::protocol::one_sided::prepared::PreparedList;
use crate::types::PeerKey;
use crate::types::memory_id::MemoryId;

/// What it is about, and with whom.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) list: Arc<PreparedList>,
    /// The name of its peer, and the session whose memory it is about; `None`: it is about none.
    pub(super) peer_name: Box<str>,
    pub(super) session: Option<SessionId>,
    /// The peer that it was posted to last, or would be now; null: it is to be connected first.
    pub(super) peer: PeerKey,
    /// The registrations that it uses.
    pub(super) memory: Box<[MemoryId]>,
}
