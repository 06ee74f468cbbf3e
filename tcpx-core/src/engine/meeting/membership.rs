//! What makes a session one of a group.

use std::fmt;
use std::sync::Arc;

use tcpx_protocol::frames::conn_info::{Secret, SessionId};
use tcpx_protocol::types::memory::Device;

use super::group_names::GroupNames;
use crate::completions::peer_queue::PeerQueue;
use crate::completions::queue::CompletionQueue;
use crate::control::identity::{ChannelOffer, Identity};
use crate::control::inbound_handshake::InboundHandshake;
use crate::control::listener::ControlListener;
use crate::error::Result;
use crate::peer::session_context::SessionContext;
use crate::settings::SessionOptions;

/// Who takes in those that have come for another session of the group. It may take its time.
pub(crate) type HandOver = Arc<dyn Fn(Device, InboundHandshake) + Send + Sync>;

/// A session's place in its group.
#[derive(Clone)]
pub(crate) struct Membership {
    /// The id of the group, which is also that of the session that listens for all.
    pub(crate) group: SessionId,
    /// All have the same.
    pub(crate) secret: Secret,
    pub(crate) device: Device,
    /// What other groups are called.
    pub(crate) names: Arc<GroupNames>,
    /// Where the ends of rounds wait for the program.
    pub(crate) completions: Arc<CompletionQueue>,
    /// Where peers that have come up or ended do.
    pub(crate) peers: Arc<PeerQueue>,
    /// Of the session that listens.
    pub(crate) hand_over: Option<HandOver>,
}

impl Membership {
    /// Who the session is to its peers.
    pub(in crate::engine) fn identity(
        &self,
        options: &SessionOptions,
        plugin: &str,
        chunk_bytes: u32,
        channels: ChannelOffer,
    ) -> Identity {
        let session = self.device.session_of(self.group);
        Identity::with_id(session, self.secret.clone(), options, plugin, chunk_bytes, channels)
    }

    /// What those come to who are handed over, in a session that does not listen itself.
    pub(in crate::engine) fn listener(
        &self,
        session: &SessionContext,
    ) -> Result<Option<ControlListener>> {
        if self.hand_over.is_some() {
            return Ok(None);
        }
        let mut listener = ControlListener::without_socket()?;
        listener.watch(&session.poller);
        Ok(Some(listener))
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership").field("device", &self.device).finish_non_exhaustive()
    }
}
