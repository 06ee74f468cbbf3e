//! How peers meet this session, and how they leave it. Every peer is made here, by a connect or by
//! a hello that has come in; gets its name here; and is taken out here. What it does in between is
//! for the rest of the engine.
//!
//! [`Meeting`] owns what that takes, and nothing outside the room changes it. What the room does to
//! the [`Engine`](super::Engine) is in five files one above the other. Each calls those below it,
//! and none above:
//!
//! - `attempting`: connects, accepts and goodbyes that no call waits for, and peers that operations
//!   and notifications go to, connected if need be. `attempts`: until when each may go on, and how
//!   it ended. Pure.
//! - `connecting`: connects of this session, and peers that come in from where they lead; which of
//!   two dials stays that cross.
//! - `accepting`: peers that come in, for this session or for an engine of another device.
//!   `accept_queue`: accepts and peers that wait for each other. Pure.
//! - `departing`: peers that are left, that end, and that are forgotten; what a program hears of
//!   peers without asking; how a session ends.
//! - `listening`: the listener, connection info, and names that peers may have.
//!
//! Beside them, what makes the engines of several devices one session to their peers:
//!
//! - `device_context`: what an engine is given by its session. `peer_names`: what peers are called
//!   that have several devices. Pure.

pub(crate) mod accept_queue;
pub(crate) mod accepting;
mod attempting;
mod attempts;
mod connecting;
mod departing;
pub(crate) mod device_context;
mod listening;
pub(crate) mod peer_names;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_protocol::types::memory::Device;

use self::accept_queue::AcceptQueue;
use self::attempts::Attempts;
use self::device_context::DeviceContext;
use self::peer_names::PeerNames;
use crate::completions::peer_queue::PeerQueue;
use crate::control::listener::ControlListener;
use crate::reactor::Attention;
use crate::types::PeerKey;

/// Who waits for whom, and how sessions are reached.
pub(crate) struct Meeting {
    /// Connection info that was loaded, by the names of peers.
    infos: BTreeMap<String, ConnInfo>,
    listener: Option<ControlListener>,
    /// Something has happened to the listener, or to a session that waits for it.
    is_listener_due: bool,
    context: DeviceContext,
    /// How many are on their way to engines of other devices.
    handed_over: Arc<AtomicUsize>,
    accept_queue: AcceptQueue<PeerKey>,
    /// How many accepts of anyone there have been.
    accepts_of_anyone: u64,
    /// How many names were made up.
    names_made_up: u64,
    attempts: Attempts,
}

impl Meeting {
    pub(super) fn new(context: DeviceContext, listener: Option<ControlListener>) -> Self {
        Self {
            infos: BTreeMap::new(),
            listener,
            is_listener_due: false,
            context,
            handed_over: Arc::default(),
            accept_queue: AcceptQueue::default(),
            accepts_of_anyone: 0,
            names_made_up: 0,
            attempts: Attempts::default(),
        }
    }

    /// The device that the engine is for.
    pub(super) fn device(&self) -> Device {
        self.context.device
    }

    /// The names of peers, in a session of all devices.
    fn names(&self) -> Option<&PeerNames> {
        self.context.names.as_deref()
    }

    /// The queue of peers that have come up or ended.
    fn peer_events(&self) -> &PeerQueue {
        &self.context.peers
    }

    /// Has the next round look at the listener.
    #[inline]
    pub(super) fn look_at_listener(&mut self) {
        self.is_listener_due = true;
    }

    /// Whether the next round looks at the listener.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.is_listener_due
    }

    /// What the listener waits for.
    #[inline]
    pub(super) fn attention(&self) -> Attention {
        self.listener.as_ref().map(ControlListener::attention).unwrap_or_default()
    }

    /// When an attempt has taken too long next.
    #[inline]
    pub(super) fn next_overdue(&self) -> Option<Instant> {
        self.attempts.next_overdue()
    }

    /// How many are on their way to engines of other devices.
    #[cfg(test)]
    pub(crate) fn handed_over(&self) -> usize {
        self.handed_over.load(std::sync::atomic::Ordering::Relaxed)
    }
}
