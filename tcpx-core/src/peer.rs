//! One peer: what it is called, where in its life it is, and how it ends.
//!
//! - `protocol`: what two peers say to each other. Pure.
//! - `connection`: drives a proven link, its comms and its lanes. `actions`: what it does when the
//!   protocol says so.
//! - `commons`: what every peer of a session reads and writes.
//! - `comm_setup`: connects the comms, both ways at once.
//! - `data_path`: whether the comms of a peer whose link lives are alive, too.
//! - `deferred_failure`: a plugin call that failed as calls do when the other end has died, or the
//!   way to it.
//! - `leftover`: what cannot be freed yet when a peer ends.
//! - `report`, `watch`: a peer in numbers, and what they say is wrong.
//! - `session_context`: settings, plugin and identity of the session.

mod actions;
mod comm_setup;
pub(crate) mod commons;
pub(crate) mod connection;
mod data_path;
mod deferred_failure;
pub(crate) mod leftover;
pub(crate) mod protocol;
mod report;
pub(crate) mod session_context;
pub(crate) mod watch;

use std::time::{Duration, Instant};

use self::comm_setup::CommSetup;
use self::commons::{Commons, Ledger};
use self::connection::{ChannelRecord, Connection};
use self::leftover::Leftover;
use self::protocol::operation::{NewOperation, Operation};
use self::protocol::stage::{Leaving, PeerStage};
use self::session_context::SessionContext;
use self::watch::{PeerWatch, WatchInput};
use crate::control::connector::Connector;
use crate::control::frame::Frame;
use crate::control::hello::Agreement;
use crate::control::socket::LinkSocket;
use crate::error::{Departure, Error, Result};
use crate::plugin::comm::MemoryHandle;
use crate::stats::alarm::Alarms;
use crate::stats::channel::{ChannelStats, MessageStats};
use crate::stats::stages::Activity;
use crate::transfer::batch::BatchNumber;
use crate::transfer::recv_lane::RecvLane;
use crate::transfer::send_lane::SendLane;
use crate::types::peer_name::PeerName;
use crate::types::{CommId, Direction, PeerKey};

/// Where in its life a peer is.
#[derive(Debug)]
enum State {
    /// Its control listener is being reached, and the secret proven.
    Dialling(Box<Connector>),
    /// It came in and has proven itself; its comms are about to be connected.
    Welcomed,
    /// Its link is proven: comms, then transfers, then the goodbye.
    Linked(Box<Connection>),
    /// It is over.
    Gone(Gone),
}

/// What is left of a peer that is over.
#[derive(Debug)]
struct Gone {
    why: Error,
    agreement: Option<Agreement>,
    messages: MessageStats,
    record: ChannelRecord,
}

#[derive(Debug)]
pub(crate) struct Peer {
    key: PeerKey,
    name: PeerName,
    state: State,
    watch: PeerWatch,
}

/// Where in its life a peer is, for those who wait for it.
#[derive(Debug)]
pub(crate) enum PeerStatus<'a> {
    /// Not up yet.
    Connecting,
    /// Up, or saying goodbye after it was.
    Up,
    /// Both ends said goodbye.
    Parted,
    /// It ended with an error.
    Failed(&'a Error),
}

impl Peer {
    fn new(key: PeerKey, name: PeerName, state: State) -> Self {
        Self { key, name, state, watch: PeerWatch::default() }
    }

    /// A peer that is to be reached.
    pub(crate) fn dial(key: PeerKey, name: PeerName, connector: Connector) -> Self {
        Self::new(key, name, State::Dialling(Box::new(connector)))
    }

    /// A peer that came in and has proven itself: [`link_up`](Self::link_up) is next.
    pub(crate) fn welcome(key: PeerKey, name: PeerName) -> Self {
        Self::new(key, name, State::Welcomed)
    }

    /// The link is proven: begins connecting comms. A failure is told to the peer.
    pub(crate) fn link_up(
        &mut self,
        mut link: LinkSocket,
        agreement: Agreement,
        now: Instant,
        session: &SessionContext,
    ) -> Result<()> {
        let setup = CommSetup::start(&self.name, link.local_ip(), agreement, session);
        let setup = setup.inspect_err(|error| {
            link.queue(&Frame::Abort(error.to_string()));
            let _ = link.flush();
        })?;
        let (key, name) = (self.key, &self.name);
        let connection = Connection::new(key, name, link, setup, agreement, now, session);
        self.state = State::Linked(Box::new(connection));
        Ok(())
    }

    pub(crate) fn name(&self) -> &PeerName {
        &self.name
    }

    pub(crate) fn status(&self) -> PeerStatus<'_> {
        match &self.state {
            State::Dialling(_) | State::Welcomed => PeerStatus::Connecting,
            State::Linked(connection) => match connection.protocol.stage() {
                PeerStage::Connecting => PeerStatus::Connecting,
                PeerStage::Up | PeerStage::Closing { .. } | PeerStage::Over => PeerStatus::Up,
            },
            State::Gone(Gone { why: Error::PeerGone { how: Departure::Goodbye, .. }, .. }) => {
                PeerStatus::Parted
            }
            State::Gone(gone) => PeerStatus::Failed(&gone.why),
        }
    }

    /// Whether it is over.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone(_))
    }

    /// Why it is over, if it is.
    pub(crate) fn why_gone(&self) -> Option<&Error> {
        match &self.state {
            State::Gone(gone) => Some(&gone.why),
            State::Dialling(_) | State::Welcomed | State::Linked(_) => None,
        }
    }

    /// State in words, for reports and errors.
    pub(crate) fn state(&self) -> &'static str {
        match (&self.state, self.status()) {
            (State::Dialling(connector), _) => connector.state(),
            (State::Welcomed, _) => "welcomed",
            (State::Linked(connection), _) => connection.protocol.state(),
            (State::Gone(_), PeerStatus::Parted) => "closed",
            (State::Gone(_), _) => "gone",
        }
    }

    /// How long nothing was heard of it.
    pub(crate) fn silence(&self, now: Instant) -> Option<Duration> {
        self.connection().map(|connection| connection.silence(now))
    }

    /// Its connection, while it has one.
    pub(crate) fn connection(&self) -> Option<&Connection> {
        match &self.state {
            State::Linked(connection) => Some(connection),
            State::Dialling(_) | State::Welcomed | State::Gone(_) => None,
        }
    }

    /// A connection to which operations may be posted.
    ///
    /// # Errors
    /// [`Error::PeerState`] while it is not up; what it ended with.
    pub(crate) fn connection_up(&mut self) -> Result<&mut Connection> {
        match &mut self.state {
            State::Linked(connection) => connection.check_up().map(|()| &mut **connection),
            State::Gone(gone) => Err(gone.why.clone()),
            State::Dialling(_) | State::Welcomed => Err(Error::PeerState {
                peer: self.name.to_string(),
                state: "not connected",
                cure: "post transfers while it is up",
            }),
        }
    }

    /// Its connection, for changes that are good in any state.
    pub(crate) fn connection_mut(&mut self) -> Option<&mut Connection> {
        match &mut self.state {
            State::Linked(connection) => Some(connection),
            State::Dialling(_) | State::Welcomed | State::Gone(_) => None,
        }
    }

    /// Bytes of a whole chunk; 0 before it is agreed on.
    pub(crate) fn chunk_bytes(&self) -> u32 {
        let agreement = match &self.state {
            State::Dialling(_) | State::Welcomed => None,
            State::Linked(connection) => Some(connection.protocol.agreement()),
            State::Gone(gone) => gone.agreement,
        };
        agreement.map_or(0, |agreement| agreement.chunk_bytes)
    }

    /// An accept has asked for it, and names it.
    pub(crate) fn claim(&mut self, name: &str, cx: &mut Commons) -> Result<()> {
        self.name.bind(name);
        self.connection_mut().map_or(Ok(()), |connection| connection.named(cx))
    }

    /// One step. Arrived chunks go into the batch. Returns whether anything moved.
    pub(crate) fn progress(&mut self, now: Instant, cx: &mut Commons) -> Result<bool> {
        if let State::Dialling(connector) = &mut self.state {
            let proven = connector.poll(self.name.as_str(), now, &cx.session.identity)?;
            let Some((link, agreement)) = proven else { return Ok(false) };
            self.link_up(link, agreement, now, &cx.session)?;
        }
        self.connection_mut().map_or(Ok(false), |connection| connection.progress(now, cx))
    }

    /// Gives slots back whose unpack has finished, and posts what was gathered.
    pub(crate) fn consume(
        &mut self,
        now: Instant,
        finished: BatchNumber,
        cx: &mut Commons,
    ) -> Result<bool> {
        let connection = self.connection_mut();
        connection.map_or(Ok(false), |connection| connection.consume(now, finished, cx))
    }

    /// The program leaves it.
    pub(crate) fn disconnect(&mut self, cx: &mut Commons) -> Result<Leaving> {
        match &mut self.state {
            State::Dialling(_) | State::Welcomed => Ok(Leaving::NobodyThere),
            State::Linked(connection) => connection.disconnect(cx),
            State::Gone(_) => Ok(Leaving::Begun),
        }
    }

    /// Looks at the counters of its connection.
    pub(crate) fn watch(&mut self, look: &WatchInput<'_>, alarms: &mut Alarms) {
        if let State::Linked(connection) = &mut self.state {
            self.watch.look(connection, self.name.as_str(), look, alarms);
        }
    }

    /// Looks whether its data path lives.
    pub(crate) fn check_data_path(&mut self, now: Instant, cx: &mut Commons) -> Result<()> {
        let connection = self.connection_mut();
        connection.map_or(Ok(()), |connection| connection.check_data_path(now, cx))
    }

    /// Adds what was received on its open channels.
    pub(crate) fn add_received(&self, sum: &mut ChannelStats) {
        let lanes = self.connection().map(|connection| connection.recv_lanes.iter());
        lanes.into_iter().flatten().for_each(|lane| sum.add(&lane.stats));
    }

    /// Adds what is under way with this peer.
    pub(crate) fn note_activity(&self, activity: &mut Activity) {
        if let Some(connection) = self.connection() {
            connection.note_activity(activity);
        }
    }

    /// Takes a registration's handle back from the comm that gave it out.
    pub(crate) fn deregister(&self, comm: CommId, handle: MemoryHandle) -> bool {
        self.connection().is_some_and(|connection| connection.deregister(comm, handle))
    }

    /// Ends everything with this peer: comms first, so that nobody touches memory of operations
    /// that have ended. What is still being unpacked or gathered, which is all after batch
    /// `reached`, is handed out to be ended later.
    pub(crate) fn end(
        &mut self,
        why: Error,
        ledger: &mut Ledger,
        reached: BatchNumber,
    ) -> Option<Leftover> {
        let gone = |agreement, messages, record| {
            State::Gone(Gone { why: why.clone(), agreement, messages, record })
        };
        let nothing = gone(None, MessageStats::default(), ChannelRecord::default());
        let mut connection = match std::mem::replace(&mut self.state, nothing) {
            State::Linked(connection) => connection,
            State::Dialling(_) | State::Welcomed => return None,
            State::Gone(before) => {
                self.state = State::Gone(before);
                return None;
            }
        };
        if !matches!(why, Error::PeerGone { how: Departure::Goodbye, .. }) {
            connection.link.queue(&Frame::Abort(why.to_string()));
        }
        let _ = connection.flush();
        let is_left = |batch: &BatchNumber| *batch > reached;
        let gathering = connection.send_lanes.iter().filter_map(SendLane::newest_batch).max();
        let gathering = gathering.filter(is_left);
        let unpacking = connection.recv_lanes.iter().filter_map(RecvLane::newest_batch).max();
        let unpacking = unpacking.filter(is_left);
        let mut stagings = connection.close_sends(ledger);
        if gathering.is_none() {
            stagings.drain(..).for_each(|staging| ledger.registrations.remove_own(staging));
        }
        let mut lanes = Vec::new();
        match unpacking {
            Some(_) => lanes = connection.take_recvs(),
            None => connection.close_recvs(ledger),
        }
        let is_used = |operation: &Operation| {
            operation.is_matched()
                && match operation.posted.direction {
                    Direction::Send => gathering.is_some(),
                    Direction::Receive => unpacking.is_some(),
                }
        };
        let Connection { protocol, mut record, .. } = *connection;
        let (agreement, messages) = (protocol.agreement(), protocol.messages());
        let (operations, ended): (Vec<_>, Vec<_>) =
            protocol.into_operations().map(|(_, operation)| operation).partition(is_used);
        record.errors += (operations.len() + ended.len()) as u64;
        for operation in ended {
            let NewOperation { transfer, direction, span, .. } = operation.posted;
            ledger.failed(transfer, span.registration, why.seen_by(direction));
        }
        self.state = gone(Some(agreement), messages, record);
        let until = gathering.max(unpacking)?;
        Some(Leftover { lanes, stagings, operations, until })
    }
}
