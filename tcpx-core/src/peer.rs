//! Peer of a session: its name, the stage of its life, and its end.
//!
//! The protocol (`tcpx_protocol::peer`) decides what two peers say to each other, and does nothing
//! itself.
//!
//! - `connection`: a proven link, its comms and its lanes. `posting`: operations of a program on
//!   it. `driving`: a step of it. Both call `actions`, which executes the protocol's actions, and
//!   `messages`, which moves the bytes on the link. `link_copy`: those of a GPU's memory.
//! - `wakeups`: wake-ups of a connection, the time of its next drive, and its counts.
//! - `resources`: state that every peer of a session reads and writes, and the gate that shows
//!   threads without the engine whether operations may be posted.
//! - `comm_setup`, `comm_opening`: set-up of the comms, both ways at once, by a worker, with credit
//!   so that bounce buffers have room.
//! - `deferred_failure`: a plugin call that failed as calls do when the other end has died, or the
//!   way to it.
//! - `dial_policy`: addresses at which a peer's channels may be dialled, and the time at which this
//!   end says that it could not. Pure.
//! - `lanes`: lanes by channel. `losing`: channels that are lost while work goes on over others,
//!   each a `lost_channel`. `reporting`: reports to the protocol on chunks and channels.
//! - `ending`: end of a peer, and what cannot be freed yet then.
//! - `message_buffers`: unexpected messages, and unread answers.
//! - `session_context`: settings, plugin and identity of the session.
//! - `pending_posts`: operations and notifications that wait for a peer's link, and the connection
//!   and session that it is.
//! - `watch`: checks of a peer's counters.

mod actions;
mod comm_opening;
mod comm_setup;
pub(crate) mod connection;
mod deferred_failure;
mod dial_policy;
mod driving;
pub(crate) mod ending;
mod lanes;
mod link_copy;
mod losing;
mod lost_channel;
mod message_buffers;
mod messages;
mod pending_posts;
mod posting;
mod reporting;
pub(crate) mod resources;
pub(crate) mod session_context;
mod wakeups;
pub(crate) mod watch;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tcpx_protocol::frames::conn_info::{ConnInfo, SessionId};
use tcpx_protocol::frames::handshake_frame::Introduction;
use tcpx_protocol::frames::hello::{Agreement, Nonce};
use tcpx_protocol::peer::lifecycle::stage::PeerStage;
use tcpx_protocol::stats::MessageStats;
use tcpx_protocol::types::Direction;

use self::connection::{ChannelRecord, Connection};
use self::dial_policy::DialPolicy;
use self::pending_posts::{PeerOrigin, PendingPosts};
use self::resources::{MAX_QUEUED_POSTS, PostGate, Resources};
use self::watch::{PeerWatch, WatchContext};
use crate::control::connector::Connector;
use crate::control::identity::ProvenLink;
use crate::error::{Departure, Error, Result};
use crate::plugin::calls::LongCall;
use crate::plugin::nics;
use crate::reactor::Attention;
use crate::stats::alarm::Alarms;
use crate::stats::stages::Activity;
use crate::types::{PeerKey, PeerName};

/// Stage of a peer's life.
#[derive(Debug)]
enum ConnectionState {
    /// The control listener is being reached, and the secret proven.
    Dialling(Box<Connector>),
    /// The peer came in and has proven itself.
    Welcomed,
    /// The link is proven.
    Linked(Box<Connection>),
    /// The peer is over.
    Gone(Box<EndedPeer>),
}

/// Peer that has ended: its error and its counters.
#[derive(Debug)]
struct EndedPeer {
    why: Error,
    agreement: Option<Agreement>,
    messages: MessageStats,
    record: ChannelRecord,
}

/// Peer of a session, from its dial or its hello to its end.
#[derive(Debug)]
pub(crate) struct Peer {
    key: PeerKey,
    name: PeerName,
    origin: PeerOrigin,
    state: ConnectionState,
    /// Whether the program has disconnected it, or closed the session.
    is_left: bool,
    /// Gate that shows others whether operations may be posted to it.
    gate: Arc<PostGate>,
    watch: PeerWatch,
    /// Operations that were posted before it had a link.
    pending: PendingPosts,
}

/// Stage of a peer's life, for threads that wait for it.
#[derive(Debug)]
pub(crate) enum PeerStatus<'a> {
    /// Not up yet.
    Connecting,
    /// Up, or saying goodbye after it was.
    Up,
    /// Both ends said goodbye.
    Parted,
    /// The peer ended with an error.
    Failed(&'a Error),
}

impl Peer {
    fn new(key: PeerKey, name: PeerName, origin: PeerOrigin, state: ConnectionState) -> Self {
        let (gate, watch, pending) =
            (Arc::default(), PeerWatch::default(), PendingPosts::default());
        Self { key, name, origin, state, is_left: false, gate, watch, pending }
    }

    /// Returns a peer that is to be reached.
    pub(crate) fn dial(key: PeerKey, name: PeerName, connector: Connector) -> Self {
        let origin = PeerOrigin::outbound(&connector);
        Self::new(key, name, origin, ConnectionState::Dialling(Box::new(connector)))
    }

    /// Returns a peer that came in and has proven itself: [`link_up`](Self::link_up) is next.
    pub(crate) fn welcome(key: PeerKey, name: PeerName, introduction: Box<Introduction>) -> Self {
        Self::new(key, name, PeerOrigin::inbound(introduction), ConnectionState::Welcomed)
    }

    /// Takes the proven link. The connection info that the program has for the peer lists the
    /// addresses `loaded`. A dial that is under way ends.
    pub(crate) fn link_up(
        &mut self,
        proven: ProvenLink,
        loaded: Vec<IpAddr>,
        now: Instant,
        cx: &Resources,
    ) {
        let (key, name, session) = (self.key, &self.name, &cx.session);
        let uses_other_nics = session.plugin.is_hardware() || !session.options.nics.is_empty();
        let ends = [proven.link.local_ip(), proven.link.peer_ip()];
        let policy = DialPolicy::new(ends, loaded, nics::interfaces, uses_other_nics);
        cx.ledger.notifications.add_sender(key, name.clone());
        let is_up = proven.agreement.on_demand;
        let mut connection = Connection::new(key, name, proven, policy, now, session);
        connection.watch(&session.poller);
        if is_up {
            connection.log_up("peer is up");
        }
        self.pending.hand_over(&mut connection);
        self.state = ConnectionState::Linked(Box::new(connection));
    }

    pub(crate) fn name(&self) -> &PeerName {
        &self.name
    }

    /// Returns the introduction with which it came in, if it has come in.
    pub(crate) fn introduction(&self) -> Option<&Introduction> {
        self.origin.introduction()
    }

    pub(crate) fn status(&self) -> PeerStatus<'_> {
        match &self.state {
            ConnectionState::Dialling(_) | ConnectionState::Welcomed => PeerStatus::Connecting,
            ConnectionState::Linked(connection) => match connection.protocol.stage() {
                PeerStage::Connecting => PeerStatus::Connecting,
                PeerStage::Up | PeerStage::Closing { .. } | PeerStage::Over => PeerStatus::Up,
            },
            ConnectionState::Gone(gone) => match &gone.why {
                Error::PeerGone { how: Departure::Goodbye, .. } => PeerStatus::Parted,
                why => PeerStatus::Failed(why),
            },
        }
    }

    /// Returns the number of this connection with this session, if it is one, and neither end is
    /// leaving.
    pub(crate) fn connection_with(&self, session: &SessionId) -> Option<u16> {
        let PeerOrigin { session: other, connection, .. } = &self.origin;
        (session == other && !self.is_leaving()).then_some(*connection)
    }

    /// Returns the session at its other end.
    pub(crate) fn session(&self) -> &SessionId {
        &self.origin.session
    }

    /// Returns whether it has come in from the session that this connection info leads to, and
    /// stays.
    pub(crate) fn came_from(&self, info: &ConnInfo) -> bool {
        !self.is_leaving() && self.origin.came_from(info)
    }

    /// Returns the hello that the other end has given up for this peer's link, once.
    pub(crate) fn take_given_up(&mut self) -> Option<Nonce> {
        self.origin.given_up.take()
    }

    /// Asks the peer whether it has lost this connection: its session begins the connection anew.
    pub(crate) fn doubt(&mut self, now: Instant) {
        if let ConnectionState::Linked(connection) = &mut self.state {
            connection.protocol.handle_doubt(now);
        }
    }

    /// Awaits a sign of life of the peer if it is up. One with a progress thread ends if it gives
    /// none. Returns whether the peer is up.
    pub(crate) fn expect_if_up(&mut self, now: Instant) -> bool {
        match &mut self.state {
            ConnectionState::Linked(connection) if connection.protocol.stage() == PeerStage::Up => {
                connection.protocol.handle_expectation(now);
                true
            }
            _ => false,
        }
    }

    /// Returns whether it is over, or one of the ends is leaving.
    pub(crate) fn is_leaving(&self) -> bool {
        match &self.state {
            ConnectionState::Dialling(_) | ConnectionState::Welcomed => false,
            ConnectionState::Linked(connection) => connection.protocol.is_leaving(),
            ConnectionState::Gone(_) => true,
        }
    }

    /// Returns the dial that is under way.
    pub(crate) fn connector(&self) -> Option<&Connector> {
        if let ConnectionState::Dialling(connector) = &self.state { Some(connector) } else { None }
    }

    /// Returns the dial that is under way, to be changed.
    pub(crate) fn connector_mut(&mut self) -> Option<&mut Connector> {
        if let ConnectionState::Dialling(connector) = &mut self.state {
            Some(connector)
        } else {
            None
        }
    }

    /// Returns whether it is over.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.state, ConnectionState::Gone(_))
    }

    /// Returns whether the program has left it.
    pub(crate) fn is_left(&self) -> bool {
        self.is_left
    }

    /// Returns the reason why it is over, if it is.
    pub(crate) fn why_gone(&self) -> Option<&Error> {
        match &self.state {
            ConnectionState::Gone(gone) => Some(&gone.why),
            ConnectionState::Dialling(_)
            | ConnectionState::Welcomed
            | ConnectionState::Linked(_) => None,
        }
    }

    /// Returns the state in words, for reports and errors.
    pub(crate) fn state(&self) -> &'static str {
        match (&self.state, self.status()) {
            (ConnectionState::Dialling(connector), _) => connector.state(),
            (ConnectionState::Welcomed, _) => "welcomed",
            (ConnectionState::Linked(connection), _) => connection.protocol.state(),
            (ConnectionState::Gone(_), PeerStatus::Parted) => "closed",
            (ConnectionState::Gone(_), _) => "gone",
        }
    }

    /// Returns how long the peer has been silent, without the time in which no answer was awaited.
    pub(crate) fn silence(&self, now: Instant) -> Option<Duration> {
        self.connection().map(|connection| connection.protocol.silence(now))
    }

    /// Returns its connection, while it has one.
    pub(crate) fn connection(&self) -> Option<&Connection> {
        match &self.state {
            ConnectionState::Linked(connection) => Some(connection),
            ConnectionState::Dialling(_) | ConnectionState::Welcomed | ConnectionState::Gone(_) => {
                None
            }
        }
    }

    /// Returns a connection to which operations may be posted.
    ///
    /// # Errors
    /// [`Error::Closed`] once the program has left it; [`Error::PeerState`] while it is not up;
    /// what it ended with.
    pub(crate) fn connection_up(&mut self) -> Result<&mut Connection> {
        match &mut self.state {
            _ if self.is_left => Err(Error::Closed),
            ConnectionState::Linked(connection) => {
                connection.check_up().map(|()| &mut **connection)
            }
            ConnectionState::Gone(gone) => Err(gone.why.clone()),
            ConnectionState::Dialling(_) | ConnectionState::Welcomed => Err(Error::PeerState {
                peer: self.name.to_string(),
                state: "not connected",
                cure: "post transfers while it is up",
            }),
        }
    }

    /// Returns the gate that shows threads without the engine whether operations may be posted to
    /// the peer.
    pub(crate) fn gate(&self) -> &Arc<PostGate> {
        &self.gate
    }

    /// Updates the gate with what may be posted now.
    pub(crate) fn update_gate(&self) {
        let connection = self.connection().filter(|_| !self.is_left);
        let takes = |direction, count| {
            connection.is_some_and(|it| it.protocol.check_posts(direction, count).is_ok())
        };
        self.gate.set(takes(Direction::Send, 1), takes(Direction::Receive, MAX_QUEUED_POSTS));
    }

    /// Returns its connection, for changes that are good in any state.
    pub(crate) fn connection_mut(&mut self) -> Option<&mut Connection> {
        match &mut self.state {
            ConnectionState::Linked(connection) => Some(connection),
            ConnectionState::Dialling(_) | ConnectionState::Welcomed | ConnectionState::Gone(_) => {
                None
            }
        }
    }

    /// Returns the number of bytes of a whole chunk; 0 before it is agreed on.
    pub(crate) fn chunk_bytes(&self) -> u32 {
        let agreement = match &self.state {
            ConnectionState::Dialling(_) | ConnectionState::Welcomed => None,
            ConnectionState::Linked(connection) => Some(connection.protocol.agreement()),
            ConnectionState::Gone(gone) => gone.agreement,
        };
        agreement.map_or(0, |agreement| agreement.chunk_bytes)
    }

    /// Checks the counters of its connection.
    pub(crate) fn watch(&mut self, context: &WatchContext<'_>, alarms: &mut Alarms) {
        if let ConnectionState::Linked(connection) = &mut self.state {
            self.watch.check(connection, self.name.as_str(), context, alarms);
        }
    }

    /// Returns whether a check of it finds what it has found before, until it is driven again.
    pub(crate) fn is_idle(&self) -> bool {
        self.connection().is_none_or(Connection::is_idle)
    }

    /// Returns the accept of its comms that has not been ready for at least this time.
    pub(crate) fn pending_accept(&self, time: Duration, now: Instant) -> Option<LongCall> {
        self.connection()?.setup.as_ref()?.pending_accept(time, now)
    }

    /// Returns the NIC of each of its channels.
    pub(crate) fn nics(&self) -> &[Arc<str>] {
        self.connection().map_or(&[], |connection| &connection.record.nics)
    }

    /// Adds what has ended with this peer since the last time.
    pub(crate) fn note_ended(&mut self, ended: &mut Activity) {
        if let Some(connection) = self.connection_mut() {
            connection.note_ended(ended);
        }
    }

    /// Returns the attention that it needs: when it must be driven next, apart from when something
    /// happens on its descriptors.
    pub(crate) fn attention(&self) -> Attention {
        match &self.state {
            ConnectionState::Dialling(connector) => connector.attention(),
            ConnectionState::Linked(connection) => connection.attention(),
            ConnectionState::Welcomed | ConnectionState::Gone(_) => Attention::default(),
        }
    }
}
