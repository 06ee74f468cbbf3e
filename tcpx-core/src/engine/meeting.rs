//! Meeting of peers: their arrival in this session, and their departure. Every peer is made here,
//! by a connect or by a hello that has come in; gets its name here; and is taken out here. The rest
//! of the engine handles the peer in between.
//!
//! [`Meeting`] owns the state for this, and nothing outside the room changes it. The room's methods
//! of the [`Engine`](super::Engine) are in five files one above the other. Each calls those below
//! it, and none above:
//!
//! - `attempting`: connects, accepts and goodbyes that no call waits for; and peers that operations
//!   and notifications go to, connected if need be. `attempts`: their deadlines and results. Pure.
//! - `connecting`: connects of this session, and peers that come in from their targets; which of
//!   two crossing dials stays. `given_up`: hellos that other ends have given up. Pure.
//! - `accepting`: peers that come in, for this session or for an engine of another device.
//!   `accept_queue`: accepts and peers that wait for each other. Pure.
//! - `departing`: peers that are left, that end, and that are forgotten; events of peers for the
//!   program; how a session ends.
//! - `listening`: the listener, connection info, and names that peers may have.
//!
//! Two more files make the engines of several devices one session to their peers:
//!
//! - `device_context`: what a session gives to an engine. `peer_names`: names of peers with several
//!   devices. Pure.

pub(crate) mod accept_queue;
pub(crate) mod accepting;
mod attempting;
mod attempts;
mod connecting;
mod departing;
pub(crate) mod device_context;
mod given_up;
mod listening;
pub(crate) mod peer_names;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use tcpx_protocol::frames::conn_info::{ConnInfo, SessionId};
use tcpx_protocol::frames::hello::Nonce;
use tcpx_protocol::types::memory::Device;

use self::accept_queue::AcceptQueue;
use self::attempts::Attempts;
use self::device_context::DeviceContext;
use self::given_up::GivenUpHellos;
use self::peer_names::PeerNames;
use crate::completions::peer_queue::PeerQueue;
use crate::control::listener::ControlListener;
use crate::reactor::Attention;
use crate::types::PeerKey;

/// Accepts and connects that wait for peers, and the ways to reach sessions.
pub(crate) struct Meeting {
    /// Loaded connection info, by the names of peers.
    infos: BTreeMap<String, ConnInfo>,
    listener: Option<ControlListener>,
    /// Whether something has happened to the listener, or to a session that waits for it.
    is_listener_due: bool,
    given_up: GivenUpHellos,
    context: DeviceContext,
    /// Number of peers on their way to engines of other devices.
    handed_over: Arc<AtomicUsize>,
    accept_queue: AcceptQueue<PeerKey>,
    /// Number of accepts of any peer so far.
    accepts_of_anyone: u64,
    /// Number of made-up names.
    names_made_up: u64,
    attempts: Attempts,
}

impl Meeting {
    pub(super) fn new(context: DeviceContext, listener: Option<ControlListener>) -> Self {
        Self {
            infos: BTreeMap::new(),
            listener,
            is_listener_due: false,
            given_up: GivenUpHellos::default(),
            context,
            handed_over: Arc::default(),
            accept_queue: AcceptQueue::default(),
            accepts_of_anyone: 0,
            names_made_up: 0,
            attempts: Attempts::default(),
        }
    }

    /// Returns the device of the engine.
    pub(super) fn device(&self) -> Device {
        self.context.device
    }

    /// Returns the names of peers, in a session of all devices.
    fn names(&self) -> Option<&PeerNames> {
        self.context.names.as_deref()
    }

    /// Returns whether the connection info of this name leads to a session.
    fn leads_to(&self, name: &str, session: &SessionId) -> bool {
        self.infos.get(name).is_some_and(|info| info.session == *session)
    }

    /// Returns the queue of peers that have come up or ended.
    fn peer_events(&self) -> &PeerQueue {
        &self.context.peers
    }

    /// Has the next round look at the listener.
    #[inline]
    pub(super) fn poll_listener(&mut self) {
        self.is_listener_due = true;
    }

    /// Remembers a hello that the other end has given up. It may have arrived, and wait.
    pub(super) fn note_given_up(&mut self, hello: Nonce) {
        self.given_up.add(hello);
        self.is_listener_due = true;
    }

    /// Returns whether the next round looks at the listener.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.is_listener_due
    }

    /// Returns what the listener waits for.
    #[inline]
    pub(super) fn attention(&self) -> Attention {
        self.listener.as_ref().map(ControlListener::attention).unwrap_or_default()
    }

    /// Returns the time at which the next attempt is overdue.
    #[inline]
    pub(super) fn next_overdue(&self) -> Option<Instant> {
        self.attempts.next_overdue()
    }

    /// Returns the number of peers on their way to engines of other devices.
    #[cfg(test)]
    pub(crate) fn handed_over(&self) -> usize {
        self.handed_over.load(std::sync::atomic::Ordering::Relaxed)
    }
}
