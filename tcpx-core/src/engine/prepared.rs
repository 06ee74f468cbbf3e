//! An operation that a program has prepared.

use std::sync::Arc;

use tcpx_protocol::frames::conn_info::SessionId;
use tcpx_protocol::peer::one_sided::prepared::PreparedList;
use tcpx_protocol::types::memory_id::MemoryId;

use crate::types::PeerKey;

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
