//! Context that a session gives to an engine: its device, and the state that it shares with the
//! engines of the session's other devices.

use std::fmt;
use std::sync::Arc;

use tcpx_protocol::frames::conn_info::Secret;
use tcpx_protocol::types::memory::Device;

use super::peer_names::PeerNames;
use crate::completions::peer_queue::PeerQueue;
use crate::completions::queue::CompletionQueue;
use crate::control::identity::{ChannelOffer, Identity, new_id};
use crate::control::inbound_handshake::InboundHandshake;
use crate::control::listener::ControlListener;
use crate::control::tls::Credentials;
use crate::error::Result;
use crate::peer::session_context::SessionContext;
use crate::settings::SessionOptions;

/// Hand-over of an accepted peer to the engine of another device. It may block.
pub(crate) type HandOverPeer = Arc<dyn Fn(Device, InboundHandshake) + Send + Sync>;

/// Device of a session, and what all devices of the session share.
#[derive(Clone)]
pub(crate) struct DeviceContext {
    /// What the session proves itself with.
    credentials: Credentials,
    secret: Secret,
    /// Device of the engine; the host, for an engine that listens.
    pub(in crate::engine) device: Device,
    /// Queue of ended rounds.
    pub(crate) completions: Arc<CompletionQueue>,
    /// Queue of peers that have come up or ended.
    pub(crate) peers: Arc<PeerQueue>,
    /// Names of peers, in a session of all devices.
    pub(crate) names: Option<Arc<PeerNames>>,
    /// Hand-over of the engine that listens for all devices.
    pub(crate) hand_over: Option<HandOverPeer>,
}

impl DeviceContext {
    /// Returns the context of a new session's own device.
    pub(crate) fn new(options: &SessionOptions) -> Result<Self> {
        let (credentials, secret) = new_id(options)?;
        let completions = Arc::default();
        let peers = Arc::new(PeerQueue::new(Arc::clone(&completions)));
        let (names, hand_over) = (None, None);
        Ok(Self { credentials, secret, device: Device::Host, completions, peers, names, hand_over })
    }

    /// Returns the context of another device of the same session.
    pub(crate) fn of(&self, device: Device) -> Self {
        Self { device, hand_over: None, ..self.clone() }
    }

    /// Returns the identity of the engine for its peers.
    pub(in crate::engine) fn identity(
        &self,
        options: &SessionOptions,
        plugin: &str,
        chunk_bytes: u32,
        channels: ChannelOffer,
    ) -> Identity {
        let id = (self.device, self.credentials.clone(), self.secret.clone());
        Identity::new(id, options, plugin, chunk_bytes, channels)
    }

    /// Returns the listener where handed-over peers arrive, in an engine that does not listen
    /// itself.
    pub(in crate::engine) fn listener(
        &self,
        session: &SessionContext,
    ) -> Result<Option<ControlListener>> {
        if self.device == Device::Host {
            return Ok(None);
        }
        let mut listener = ControlListener::without_socket()?;
        listener.watch(&session.poller);
        Ok(Some(listener))
    }
}

impl fmt::Debug for DeviceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceContext").field("device", &self.device).finish_non_exhaustive()
    }
}
