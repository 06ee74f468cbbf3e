//! Who a session is to its peers: what it says of itself on a link, and the secret that proves it.

use std::time::Duration;

use tcpx_protocol::frames::conn_info::{Secret, SessionId};
use tcpx_protocol::frames::eager_terms::EagerOffer;
use tcpx_protocol::frames::hello::{Hello, Nonce};
use tcpx_protocol::frames::link_frame::PROTOCOL_VERSION;
use tcpx_protocol::types::device::Device;
use tcpx_sys::UNPACK_VERSION;

use super::approach::dial_timeout;
use super::channel_offer::{ChannelClaim, ChannelOffer};
use crate::error::{Error, Result};
use crate::settings::SessionOptions;

/// One session as its peers see it. It never changes.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) session: SessionId,
    /// The secret in the session's connection info.
    pub(crate) secret: Secret,
    /// How long an address may take to answer a connection request.
    pub(crate) dial_timeout: Duration,
    /// How long a peer's host may acknowledge nothing. `None`: for ever.
    pub(crate) host_timeout: Option<Duration>,
    name: String,
    plugin: String,
    chunk_bytes: u32,
    channels: ChannelOffer,
    gpu: Option<u32>,
    progress_thread: bool,
    accept_all: bool,
    on_demand: bool,
    eager: EagerOffer,
    note_bytes: u32,
    authenticates: bool,
}

impl Identity {
    /// The identity of a new session, with an id and a secret that nobody can guess. `chunk_bytes`
    /// is the largest chunk that it takes.
    ///
    /// # Errors
    /// [`Error::Io`] when the system has no random bytes.
    pub(crate) fn new(
        options: &SessionOptions,
        plugin: &str,
        chunk_bytes: u32,
        channels: ChannelOffer,
    ) -> Result<Self> {
        let (session, secret) = new_id()?;
        Ok(Self::with_id(session, secret, options, plugin, chunk_bytes, channels))
    }

    /// The identity of a session with this id and secret.
    pub(crate) fn with_id(
        session: SessionId,
        secret: Secret,
        options: &SessionOptions,
        plugin: &str,
        chunk_bytes: u32,
        channels: ChannelOffer,
    ) -> Self {
        Self {
            session,
            secret,
            dial_timeout: dial_timeout(options.connect_timeout),
            host_timeout: options.peer_timeout,
            name: options.name.clone(),
            plugin: plugin.to_owned(),
            chunk_bytes,
            channels,
            gpu: options.gpu,
            progress_thread: options.progress_thread,
            accept_all: options.accept_all,
            on_demand: channels.may_wait() && options.eager_bytes > 0 && !options.connect_channels,
            eager: eager_offer(options),
            note_bytes: options.notification_bytes,
            authenticates: options.authenticate_link,
        }
    }

    /// Takes the channels to one more peer, which the hello to it offers.
    pub(crate) fn claim_channels(&self) -> ChannelClaim {
        self.channels.claim()
    }

    /// What this end says of itself on a new link, and so many channels that it offers.
    pub(crate) fn hello(&self, nonce: Nonce, channels: u16) -> Hello {
        Hello {
            protocol: PROTOCOL_VERSION,
            session: self.session,
            name: self.name.clone(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            plugin: self.plugin.clone(),
            unpack_version: UNPACK_VERSION,
            chunk_bytes: self.chunk_bytes,
            channels,
            gpu: self.gpu,
            progress_thread: self.progress_thread,
            accept_all: self.accept_all,
            on_demand: self.on_demand,
            eager: self.eager,
            note_bytes: self.note_bytes,
            authenticates: self.authenticates,
            to: 0,
            connection: 0,
            instead_of: None,
            nonce,
        }
    }
}

/// Which small messages a session takes on its links. Memory of a GPU is out of the CPU's reach: a
/// copy by the driver would have to be waited for.
fn eager_offer(options: &SessionOptions) -> EagerOffer {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    EagerOffer {
        bytes: options.eager_bytes,
        buffer_bytes: options.eager_buffer_bytes,
        reaches_device: options.gpu.is_none(),
        access_bytes: options.link_bytes.bytes(processors),
    }
}

/// The id of a new session or group, and its secret.
///
/// # Errors
/// [`Error::Io`] when the system has no random bytes.
pub(crate) fn new_id() -> Result<(SessionId, Secret)> {
    Ok((Device::Host.session_of(random()?), Secret(random()?)))
}

/// Unpredictable bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::io("reading random bytes", &std::io::Error::from(error)))?;
    Ok(bytes)
}
