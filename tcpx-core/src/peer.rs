//! One peer: its control link, its channels, and where in its life it is.

pub(crate) mod comm_setup;
mod ending;
mod frames;
mod matches;
pub(crate) mod protocol;
mod report;
pub(crate) mod session_context;
mod suspicion;
mod watch;

pub(crate) use ending::Leftover;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::suspicion::DeferredFailure;
pub(crate) use self::watch::WatchInput;
use crate::stats::alarm::Troubles;

use crate::control::connector::Connector;
use crate::control::frame::{Frame, MAX_PEER_BODY};
use crate::control::hello::Agreement;
use crate::control::socket::{LinkError, LinkSocket};
use crate::error::{Departure, Error, Phase, Result};
use crate::peer::comm_setup::CommSetup;
use crate::peer::protocol::coalescer::{MessageEnd, OpenRun};
use crate::peer::protocol::keepalive::{Due, Keepalive};
use crate::peer::protocol::matcher::Matcher;
use crate::peer::protocol::shutdown::Shutdown;
use crate::peer::session_context::SessionContext;
use crate::stats::channel::{ChannelStats, MessageStats};
use crate::stats::stages::Activity;
use crate::stats::watch::matches::MatchWatch;
use crate::transfer::batch::{Batch, BatchNumber};
use crate::transfer::ledger::Ledger;
use crate::transfer::recv_lane::RecvLane;
use crate::transfer::send_lane::SendLane;
use crate::types::OpKey;
use crate::types::PeerKey;
use crate::types::peer_name::PeerName;

/// Where in its life a peer is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Reaching its control listener and proving the secret.
    Connecting(Box<Connector>),
    /// Connecting comms both ways.
    Comms(Box<CommSetup>),
    /// Transfers may be posted.
    Up,
    /// Saying goodbye.
    Closing(Shutdown),
    /// Over, and why.
    Gone(Error),
}

#[derive(Debug)]
pub(crate) struct Peer {
    key: PeerKey,
    name: PeerName,
    pub(crate) stage: Stage,
    link: Option<LinkSocket>,
    heartbeat: Keepalive,
    /// When it came in, or was to be connected to.
    came_at: Instant,
    /// It said goodbye before an accept had named it: the answer waits for that.
    parted_early: bool,
    /// It is to be taken leave of as soon as it is up here, because it may be up there already.
    leaves_when_up: bool,
    agreement: Agreement,
    send_lanes: Vec<SendLane>,
    recv_lanes: Vec<RecvLane>,
    nics: Vec<Arc<str>>,
    /// What lanes that are closed had counted.
    closed_sends: Vec<ChannelStats>,
    closed_recvs: Vec<ChannelStats>,
    matcher: Matcher<OpKey>,
    run: OpenRun<OpKey>,
    /// The receive that was announced last.
    announced: Option<MessageEnd>,
    /// Receives that the other end announced so far.
    announcements: u64,
    next_channel: u16,
    messages: MessageStats,
    matches: MatchWatch,
    troubles: Troubles,
    suspicion: Option<DeferredFailure>,
}

impl Peer {
    pub(crate) fn new(key: PeerKey, name: PeerName, stage: Stage, now: Instant) -> Self {
        Self {
            key,
            name,
            stage,
            link: None,
            heartbeat: Keepalive::new(None, false, now),
            came_at: now,
            parted_early: false,
            leaves_when_up: false,
            agreement: Agreement { channels: 0, chunk_bytes: 0, peer_progresses: false },
            send_lanes: Vec::new(),
            recv_lanes: Vec::new(),
            nics: Vec::new(),
            closed_sends: Vec::new(),
            closed_recvs: Vec::new(),
            matcher: Matcher::default(),
            run: OpenRun::default(),
            announced: None,
            announcements: 0,
            next_channel: 0,
            messages: MessageStats::default(),
            matches: MatchWatch::default(),
            troubles: Troubles::default(),
            suspicion: None,
        }
    }

    /// Bytes of a whole chunk.
    pub(crate) fn chunk_bytes(&self) -> u32 {
        self.agreement.chunk_bytes
    }

    pub(crate) fn name(&self) -> &PeerName {
        &self.name
    }

    /// An accept has asked for it, and names it.
    pub(crate) fn claim(&mut self, name: &str, ledger: &mut Ledger) {
        self.name.bind(name);
        if std::mem::take(&mut self.parted_early) && matches!(self.stage, Stage::Up) {
            self.answer_goodbye(ledger);
        }
    }

    /// How long nothing was heard of it.
    pub(crate) fn silence(&self, now: Instant) -> Option<Duration> {
        self.link.as_ref().map(|link| now.saturating_duration_since(link.heard_at))
    }

    pub(crate) fn phase(&self) -> Phase {
        match &self.stage {
            Stage::Connecting(_) => Phase::Handshake,
            Stage::Comms(_) => Phase::Connect,
            Stage::Up => Phase::Receive,
            Stage::Closing(_) | Stage::Gone(_) => Phase::Close,
        }
    }

    /// State in words, for reports and errors.
    pub(crate) fn state(&self) -> &'static str {
        match &self.stage {
            Stage::Connecting(connector) => connector.state(),
            Stage::Comms(setup) => setup.state(),
            Stage::Up => "up",
            Stage::Closing(_) => "closing",
            Stage::Gone(Error::PeerGone { how: Departure::Goodbye, .. }) => "closed",
            Stage::Gone(_) => "gone",
        }
    }

    /// The link is proven: begins connecting comms.
    pub(crate) fn set_up(
        &mut self,
        link: LinkSocket,
        agreement: Agreement,
        now: Instant,
        env: &SessionContext,
    ) -> Result<()> {
        let local = link.local_ip();
        self.heartbeat = Keepalive::new(env.options.peer_timeout, agreement.peer_progresses, now);
        // Kept from here on, so that a failure can be told to the peer.
        self.link = Some(link);
        self.agreement = agreement;
        let setup = CommSetup::start(&self.name, local, agreement, env)?;
        self.nics = setup.nics().to_vec();
        self.queue(&Frame::Handles(setup.handles()));
        self.stage = Stage::Comms(Box::new(setup));
        Ok(())
    }

    /// One step: link, comms, posts and tests. Arrived chunks go into `batch`. Returns whether anything moved.
    pub(crate) fn progress(
        &mut self,
        now: Instant,
        env: &SessionContext,
        ledger: &mut Ledger,
        batch: &mut Batch,
    ) -> Result<bool> {
        if let Stage::Gone(_) = self.stage {
            return Ok(false);
        }
        if let Stage::Connecting(connector) = &mut self.stage {
            let Some((link, agreement)) = connector.poll(self.name.as_str(), now, &env.identity)?
            else {
                return Ok(false);
            };
            self.set_up(link, agreement, now, env)?;
        }
        let mut moved = self.flush()?;
        moved |= self.read_link(now, env, ledger)?;
        if let Some(suspicion) = &self.suspicion {
            suspicion.verdict(now)?;
            return Ok(moved);
        }
        match self.drive_comms(env, ledger, batch) {
            Ok(comms_moved) => moved |= comms_moved,
            Err(error) => return self.suspect(error, now),
        }
        self.say_farewell(ledger);
        self.feel_pulse(now)?;
        self.check_unclaimed(now, env)?;
        moved |= self.flush()?;
        Ok(moved)
    }

    /// Everything that calls the plugin.
    fn drive_comms(
        &mut self,
        env: &SessionContext,
        ledger: &mut Ledger,
        batch: &mut Batch,
    ) -> Result<bool> {
        let mut moved = false;
        if let Stage::Comms(setup) = &mut self.stage {
            moved |= setup.poll()?;
            if setup.take_ready_to_announce() {
                self.queue(&Frame::Ready);
            }
            self.go_up_when_ready(env, ledger);
        }
        for lane in &mut self.send_lanes {
            moved |= lane.progress(ledger, batch)?;
        }
        for lane in &mut self.recv_lanes {
            moved |= lane.progress(ledger, batch, &env.memory)?;
        }
        Ok(moved)
    }

    /// Adds what is under way with this peer.
    pub(crate) fn note_activity(&self, activity: &mut Activity) {
        activity.sending |= self.send_lanes.iter().any(|lane| !lane.is_idle());
        activity.receiving |= self.recv_lanes.iter().any(RecvLane::awaits_bytes);
    }

    /// Gives slots back whose unpack has finished, and posts what was gathered.
    pub(crate) fn consume(
        &mut self,
        now: Instant,
        ledger: &mut Ledger,
        finished: BatchNumber,
    ) -> Result<bool> {
        if self.suspicion.is_some() {
            return Ok(false);
        }
        self.use_finished(ledger, finished).or_else(|error| self.suspect(error, now))
    }

    fn use_finished(&mut self, ledger: &mut Ledger, finished: BatchNumber) -> Result<bool> {
        let mut moved = false;
        for lane in &mut self.send_lanes {
            moved |= lane.post_gathered(ledger, finished)?;
        }
        for lane in &mut self.recv_lanes {
            moved |= lane.consume(ledger, finished)?;
        }
        Ok(moved)
    }

    /// The plugin has failed: no more calls of it for this peer, and its end unless the link may know more.
    fn suspect(&mut self, error: Error, now: Instant) -> Result<bool> {
        self.suspicion = Some(DeferredFailure::of(error, now)?);
        Ok(true)
    }

    fn go_up_when_ready(&mut self, env: &SessionContext, ledger: &mut Ledger) {
        let Stage::Comms(setup) = &mut self.stage else { return };
        if !setup.is_ready() {
            return;
        }
        let Stage::Comms(setup) = std::mem::replace(&mut self.stage, Stage::Up) else { return };
        let has_peer_left = setup.has_peer_left();
        let (sends, receives) = setup.finish();
        for (channel, comm) in (0..).zip(sends) {
            self.send_lanes.push(SendLane::new(
                ledger.registrations.new_comm(),
                channel,
                comm,
                env.options.send_window,
            ));
        }
        for (place, comm) in receives {
            self.recv_lanes.push(RecvLane::new(
                ledger.registrations.new_comm(),
                place,
                comm,
                env.options.recv_window,
            ));
        }
        tracing::info!(
            peer = %self.name, channels = self.agreement.channels, chunk_bytes = self.agreement.chunk_bytes,
            "peer is up"
        );
        if has_peer_left {
            self.got_goodbye(ledger);
        }
        if self.leaves_when_up {
            self.start_farewell(ledger);
        }
    }

    fn queue(&mut self, frame: &Frame) {
        if let Some(link) = &mut self.link {
            link.queue(frame);
        }
    }

    fn flush(&mut self) -> Result<bool> {
        let Some(link) = &mut self.link else { return Ok(false) };
        link.flush().map_err(|error| self.link_error(error))
    }

    /// Nobody waits for a peer that no accept has asked for, so its connecting ends here.
    fn check_unclaimed(&self, now: Instant, env: &SessionContext) -> Result<()> {
        let waited = now.saturating_duration_since(self.came_at);
        let is_late = waited >= env.options.connect_timeout;
        if self.name.is_bound() || !is_late || !matches!(self.stage, Stage::Comms(_)) {
            return Ok(());
        }
        let (peer, detail) = (Some(self.name.to_string()), self.state().to_owned());
        Err(Error::Deadline { phase: Phase::Connect, peer, waited, detail })
    }

    /// Asks a silent peer for a sign of life, and gives up one that should have answered.
    fn feel_pulse(&mut self, now: Instant) -> Result<()> {
        let Some(link) = &self.link else { return Ok(()) };
        match self.heartbeat.look(link.heard_at, now) {
            Due::Nothing => {}
            Due::Ping => {
                let unacknowledged = link.unacknowledged().unwrap_or_default();
                if self.heartbeat.is_host_gone(unacknowledged) {
                    let how = Departure::HostGone(unacknowledged.unwrap_or_default());
                    return Err(self.gone(how, self.phase()));
                }
                self.queue(&Frame::Ping);
            }
            // Accepting may keep the peer's progress thread for long; whoever connects has a deadline of its own.
            Due::Frozen(_) if matches!(self.stage, Stage::Comms(_)) => {}
            Due::Frozen(silence) => {
                return Err(self.gone(Departure::Silent(silence), self.phase()));
            }
        }
        Ok(())
    }

    fn read_link(
        &mut self,
        now: Instant,
        env: &SessionContext,
        ledger: &mut Ledger,
    ) -> Result<bool> {
        let Some(link) = &mut self.link else { return Ok(false) };
        let outcome = link.fill(now);
        // What came before the end of the link still counts.
        while let Some(link) = &mut self.link {
            let frame = link.next_frame(MAX_PEER_BODY).map_err(|error| self.link_error(error))?;
            let Some(frame) = frame else { break };
            self.handle(frame, env, ledger)?;
        }
        self.close_run(env, ledger);
        outcome.map_err(|error| self.link_error(error))
    }

    fn link_error(&self, error: LinkError) -> Error {
        match error {
            LinkError::Gone(how) => {
                Error::PeerGone { peer: self.name.to_string(), phase: self.phase(), how }
            }
            LinkError::Frame(error) => self.protocol_error(error.to_string()),
        }
    }

    fn protocol_error(&self, detail: impl Into<String>) -> Error {
        Error::Protocol { peer: self.name.to_string(), detail: detail.into() }
    }

    /// Takes a registration's handle back from the comm that gave it out.
    pub(crate) fn deregister(
        &self,
        comm: crate::types::CommId,
        handle: crate::plugin::comm::MemoryHandle,
    ) -> bool {
        use crate::plugin::comm::Registrar;
        if let Some(lane) = self.send_lanes.iter().find(|lane| lane.id == comm) {
            lane.comm().deregister(handle);
            return true;
        }
        if let Some(lane) = self.recv_lanes.iter().find(|lane| lane.id == comm) {
            lane.comm().deregister(handle);
            return true;
        }
        false
    }
}
