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
//! - `accepting`: peers that come in, for this session or for another one of its group.
//!   `accept_queue`: accepts and peers that wait for each other. Pure.
//! - `departing`: peers that are left, that end, and that are forgotten; what a program hears of
//!   peers without asking; how a session ends.
//! - `listening`: the listener, connection info, and names that peers may have.
//!
//! Beside them, what makes several sessions one to their peers:
//!
//! - `membership`: a session's place in its group. `group_names`: what other groups are called.
//!   Pure.

pub(crate) mod accept_queue;
pub(crate) mod accepting;
mod attempting;
mod attempts;
mod connecting;
mod departing;
pub(crate) mod group_names;
mod listening;
pub(crate) mod membership;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_protocol::types::memory::Device;

use self::accept_queue::AcceptQueue;
use self::attempts::Attempts;
use self::membership::Membership;
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
    /// Of a session of a group.
    membership: Option<Membership>,
    /// How many are on their way to other sessions of the group.
    handed_over: Arc<AtomicUsize>,
    accept_queue: AcceptQueue<PeerKey>,
    /// How many accepts of anyone there have been.
    accepts_of_anyone: u64,
    /// How many names were made up.
    names_made_up: u64,
    attempts: Attempts,
    /// Where a program hears of peers.
    peer_events: Arc<PeerQueue>,
}

impl Meeting {
    pub(super) fn new(
        membership: Option<Membership>,
        listener: Option<ControlListener>,
        peer_events: Arc<PeerQueue>,
    ) -> Self {
        Self {
            infos: BTreeMap::new(),
            listener,
            is_listener_due: false,
            membership,
            handed_over: Arc::default(),
            accept_queue: AcceptQueue::default(),
            accepts_of_anyone: 0,
            names_made_up: 0,
            attempts: Attempts::default(),
            peer_events,
        }
    }

    /// The device whose session this is.
    pub(super) fn device(&self) -> Device {
        self.membership.as_ref().map_or(Device::Host, |group| group.device)
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

    /// How many are on their way to other sessions of the group.
    #[cfg(test)]
    pub(crate) fn handed_over(&self) -> usize {
        self.handed_over.load(std::sync::atomic::Ordering::Relaxed)
    }
}
