//! A peer whose control link is proven: drives the link, the comms and the lanes as the protocol says.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::comm_setup::CommSetup;
use super::commons::{Commons, Ledger};
use super::deferred_failure::DeferredFailure;
use super::protocol::action::{Action, Completion, Ending, Outcome};
use super::protocol::operation::{NewOperation, Operation};
use super::protocol::posting::PostError;
use super::protocol::stage::PeerStage;
use super::protocol::{Leaving, Opening, PeerProtocol};
use super::session_context::SessionContext;
use crate::control::hello::Agreement;
use crate::control::socket::{LinkError, LinkSocket};
use crate::error::{Departure, Error, Phase, Result};
use crate::plugin::comm::MemoryHandle;
use crate::plugin::comm::Registrar;
use crate::stats::channel::ChannelStats;
use crate::stats::stages::Activity;
use crate::transfer::batch::BatchNumber;
use crate::transfer::plan::ChunkPlan;
use crate::transfer::recv_lane::RecvLane;
use crate::transfer::send_lane::SendLane;
use crate::transfer::staging::StagingSource;
use crate::transfer::stripe::chunk_count;
use crate::transfer::stripe_queue::Finished;
use crate::types::peer_name::PeerName;
use crate::types::{CommId, Direction, MemoryType, OpKey, PeerKey, RegistrationKey};

/// The NIC of each channel, and what lanes that are closed have counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChannelRecord {
    pub(crate) nics: Vec<Arc<str>>,
    pub(crate) sends: Vec<ChannelStats>,
    pub(crate) recvs: Vec<ChannelStats>,
    /// Operations that ended with an error.
    pub(crate) errors: u64,
}

/// One proven link, with everything that hangs on it.
#[derive(Debug)]
pub(crate) struct Connection {
    key: PeerKey,
    name: PeerName,
    pub(super) link: LinkSocket,
    pub(super) protocol: PeerProtocol,
    /// The comms, while they are being connected.
    setup: Option<CommSetup>,
    pub(super) send_lanes: Vec<SendLane>,
    pub(super) recv_lanes: Vec<RecvLane>,
    pub(super) record: ChannelRecord,
    /// Chunks that the protocol has not been told of.
    finished: Vec<Finished>,
    deferred: Option<DeferredFailure>,
    /// When the protocol wants to know the time.
    timeout: Option<Instant>,
}

impl Connection {
    /// The link is proven: begins connecting comms.
    pub(super) fn new(
        key: PeerKey,
        name: &PeerName,
        link: LinkSocket,
        agreement: Agreement,
        now: Instant,
        session: &SessionContext,
    ) -> std::result::Result<Self, (LinkSocket, Error)> {
        let setup = match CommSetup::start(name, link.local_ip(), agreement, session) {
            Ok(setup) => setup,
            Err(error) => return Err((link, error)),
        };
        let opening = Opening {
            agreement,
            handles: setup.handles(),
            limits: session.coalescing_limits(agreement.chunk_bytes),
            peer_timeout: session.options.peer_timeout,
            unnamed_timeout: (!name.is_bound()).then_some(session.options.connect_timeout),
        };
        Ok(Self {
            key,
            name: name.clone(),
            link,
            protocol: PeerProtocol::new(opening, now),
            record: ChannelRecord { nics: setup.nics().to_vec(), ..ChannelRecord::default() },
            setup: Some(setup),
            send_lanes: Vec::new(),
            recv_lanes: Vec::new(),
            finished: Vec::new(),
            deferred: None,
            timeout: Some(now),
        })
    }

    /// One step: link, comms, posts and tests. Arrived chunks go into the batch. Returns whether anything
    /// moved.
    pub(super) fn progress(&mut self, now: Instant, cx: &mut Commons) -> Result<bool> {
        let mut moved = self.flush()?;
        moved |= self.read_link(now, cx)?;
        if let Some(failure) = &self.deferred {
            failure.check(now)?;
            return Ok(moved);
        }
        match self.drive_comms(cx) {
            Ok(comms_moved) => moved |= comms_moved,
            Err(error) => return self.defer(error, now, cx),
        }
        if self.timeout.is_some_and(|timeout| now >= timeout) {
            self.protocol.handle_timeout(now);
            self.timeout = self.protocol.next_timeout();
        }
        self.act(cx)?;
        moved |= self.flush()?;
        Ok(moved)
    }

    fn read_link(&mut self, now: Instant, cx: &mut Commons) -> Result<bool> {
        let outcome = self.link.fill(now);
        if let Ok(true) = outcome {
            self.protocol.handle_heard(now);
        }
        // What came before the end of the link still counts.
        while let Some(frame) = self.link.next_frame().map_err(|error| self.link_error(error))? {
            self.protocol.handle_frame(frame);
        }
        self.act(cx)?;
        outcome.map_err(|error| self.link_error(error))
    }

    /// Everything that calls the plugin.
    fn drive_comms(&mut self, cx: &mut Commons) -> Result<bool> {
        let mut moved = false;
        if let Some(setup) = &mut self.setup {
            moved |= setup.poll()?;
            if setup.is_accepted() {
                self.protocol.handle_comms_accepted();
            }
            if setup.is_connected() {
                self.protocol.handle_comms_connected();
            }
            self.act(cx)?;
        }
        let Commons { session, ledger, batch } = cx;
        let registrations = &mut ledger.registrations;
        for lane in &mut self.send_lanes {
            moved |= lane.progress(registrations, batch, &mut self.finished)?;
        }
        for lane in &mut self.recv_lanes {
            moved |= lane.progress(registrations, batch, &session.memory)?;
        }
        self.tell_finished(cx)?;
        Ok(moved)
    }

    /// Gives slots back whose unpack has finished, and posts what was gathered.
    pub(super) fn consume(
        &mut self,
        now: Instant,
        finished: BatchNumber,
        cx: &mut Commons,
    ) -> Result<bool> {
        if self.deferred.is_some() {
            return Ok(false);
        }
        match self.use_finished(finished, cx) {
            Ok(moved) => self.tell_finished(cx).map(|()| moved),
            Err(error) => self.defer(error, now, cx),
        }
    }

    fn use_finished(&mut self, finished: BatchNumber, cx: &mut Commons) -> Result<bool> {
        let mut moved = false;
        for lane in &mut self.send_lanes {
            moved |= lane.post_gathered(&mut cx.ledger.registrations, finished)?;
        }
        for lane in &mut self.recv_lanes {
            moved |= lane.consume(finished, &mut self.finished)?;
        }
        Ok(moved)
    }

    /// The plugin has failed: no more calls of it for this peer, and its end unless the link may know more.
    /// What was done before counts.
    fn defer(&mut self, error: Error, now: Instant, cx: &mut Commons) -> Result<bool> {
        self.tell_finished(cx)?;
        self.deferred = Some(DeferredFailure::new(error, now)?);
        Ok(true)
    }

    /// Tells the protocol of chunks that are done.
    fn tell_finished(&mut self, cx: &mut Commons) -> Result<()> {
        if self.finished.is_empty() {
            return Ok(());
        }
        let transfers = &mut cx.ledger.transfers;
        for finished in self.finished.drain(..) {
            match &finished {
                Finished::Parts { transfer, chunks, bytes, .. } => {
                    transfers.chunks_done(*transfer, *chunks, *bytes);
                }
                Finished::Together(members) => {
                    for member in members {
                        transfers.chunks_done(member.transfer, 1, member.bytes);
                    }
                }
            }
            self.protocol.handle_finished(finished);
        }
        self.act(cx)
    }

    /// Whether so many operations may be posted now.
    ///
    /// # Errors
    /// [`Error::PeerState`], [`Error::PeerGone`].
    pub(crate) fn check_posts(&self, direction: Direction, count: usize) -> Result<()> {
        self.protocol.check_posts(direction, count).map_err(|error| match error {
            PostError::NotUp => self.not_up(),
            PostError::TooManyReceives => Error::PeerState {
                peer: self.name.to_string(),
                state: "behind with its sends",
                cure: "wait for some of the 4,194,304 receives that it has not matched",
            },
        })
    }

    /// Posts operations, which [`check_posts`](Self::check_posts) allows.
    pub(crate) fn post(&mut self, operations: &[NewOperation], cx: &mut Commons) -> Result<()> {
        for operation in operations {
            cx.ledger.registrations.begin(operation.span.registration);
            self.protocol.handle_post(*operation);
        }
        self.act(cx)
    }

    /// Why nothing can be posted to this peer, if nothing can.
    pub(crate) fn check_up(&self) -> Result<()> {
        if self.protocol.stage() == PeerStage::Up { Ok(()) } else { Err(self.not_up()) }
    }

    fn not_up(&self) -> Error {
        match self.protocol.stage() {
            PeerStage::Closing { peer_left: true } => self.gone(Departure::Goodbye, Phase::Send),
            _ => Error::PeerState {
                peer: self.name.to_string(),
                state: self.protocol.state(),
                cure: "post transfers while it is up",
            },
        }
    }

    /// Posted operations that have not ended.
    pub(crate) fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.protocol.operations().map(|(_, operation)| operation)
    }

    /// Withdraws operations that have no counterpart.
    pub(crate) fn cancel(
        &mut self,
        is_hit: impl Fn(&NewOperation) -> bool,
        cx: &mut Commons,
    ) -> Result<()> {
        let hits = self.protocol.operations().filter(|(_, operation)| is_hit(&operation.posted));
        for op in hits.map(|(op, _)| op).collect::<Vec<OpKey>>() {
            self.protocol.handle_cancel(op);
        }
        self.act(cx)
    }

    /// An accept has asked for the peer.
    pub(super) fn named(&mut self, cx: &mut Commons) -> Result<()> {
        self.protocol.handle_named();
        self.act(cx)
    }

    /// The program leaves.
    pub(super) fn disconnect(&mut self, cx: &mut Commons) -> Result<Leaving> {
        let leaving = self.protocol.handle_disconnect();
        self.act(cx)?;
        Ok(leaving)
    }

    /// Does what the protocol says, until it says nothing more.
    fn act(&mut self, cx: &mut Commons) -> Result<()> {
        while let Some(action) = self.protocol.poll_action() {
            match action {
                Action::Send(frame) => self.link.queue(&frame),
                Action::Connect(handles) => {
                    if let Some(setup) = &mut self.setup {
                        setup.connect(&handles, &cx.session.plugin);
                    }
                }
                Action::Open => self.open(cx),
                Action::PrepareStaging { channel, memory } => {
                    let is_there = self.prepare_staging(channel, memory, cx);
                    self.protocol.handle_staging(channel, memory, is_there);
                }
                Action::SendChunks(plan) => self.send_chunks(plan, &mut cx.ledger),
                Action::ReceiveChunks(plan) => self.receive_chunks(plan, &mut cx.ledger),
                Action::Complete(completion) => {
                    let (transfer, registration) = (completion.transfer, completion.registration);
                    match self.error_of(&completion) {
                        None => cx.ledger.done(transfer, registration),
                        Some(error) => {
                            self.record.errors += 1;
                            cx.ledger.failed(transfer, registration, error);
                        }
                    }
                }
                Action::AskHost => {
                    let unacknowledged = self.link.unacknowledged().unwrap_or_default();
                    self.protocol.handle_acknowledgement(unacknowledged);
                }
                Action::CloseSends => {
                    // Nothing is being gathered: everything that was posted has ended before the goodbye.
                    for staging in self.close_sends(&mut cx.ledger) {
                        cx.ledger.registrations.remove_own(staging);
                    }
                    self.protocol.handle_sends_closed();
                }
                Action::CloseReceives => {
                    self.close_recvs(&mut cx.ledger);
                    tracing::info!(peer = %self.name, "peer is closed");
                    self.protocol.handle_receives_closed();
                }
                Action::End { ending, during } => return Err(self.error_of_end(ending, during)),
            }
        }
        Ok(())
    }

    fn open(&mut self, cx: &mut Commons) {
        let Some(setup) = self.setup.take() else { return };
        let (key, options) = (self.key, &cx.session.options);
        let registrations = &mut cx.ledger.registrations;
        let (sends, receives) = setup.finish();
        for (channel, comm) in (0..).zip(sends) {
            let id = registrations.new_comm();
            self.send_lanes.push(SendLane::new(id, key, channel, comm, options.send_window));
        }
        for (label, comm) in receives {
            let id = registrations.new_comm();
            self.recv_lanes.push(RecvLane::new(id, key, label, comm, options.recv_window));
        }
        let Agreement { channels, chunk_bytes, .. } = self.protocol.agreement();
        tracing::info!(peer = %self.name, channels, chunk_bytes, "peer is up");
    }

    fn prepare_staging(&mut self, channel: u16, memory: MemoryType, cx: &mut Commons) -> bool {
        let session = &cx.session;
        let Some(lane) = self.send_lanes.get_mut(usize::from(channel)) else { return false };
        let source = StagingSource {
            slots: session.staging_slots(memory),
            chunk_bytes: self.protocol.agreement().chunk_bytes,
            device: &session.memory,
        };
        if !session.gathers() {
            return false;
        }
        let prepared = lane.prepare_staging(memory, source, &mut cx.ledger.registrations);
        prepared.inspect_err(|reason| session.stop_gathering(reason)).is_ok()
    }

    fn send_chunks(&mut self, plan: ChunkPlan, ledger: &mut Ledger) {
        let Agreement { channels, chunk_bytes, .. } = self.protocol.agreement();
        count_chunks(&plan, chunk_bytes, ledger);
        for (channel, stripe) in plan.stripes(chunk_bytes, channels) {
            if let Some(lane) = self.send_lanes.get_mut(usize::from(channel)) {
                lane.push(stripe);
            }
        }
    }

    fn receive_chunks(&mut self, plan: ChunkPlan, ledger: &mut Ledger) {
        let Agreement { channels, chunk_bytes, .. } = self.protocol.agreement();
        count_chunks(&plan, chunk_bytes, ledger);
        for (channel, stripe) in plan.stripes(chunk_bytes, channels) {
            if let Some(lane) = self.recv_lanes.get_mut(usize::from(channel)) {
                lane.push(stripe);
            }
        }
    }

    /// Closes every send comm, and returns their staging buffers.
    pub(super) fn close_sends(&mut self, ledger: &mut Ledger) -> Vec<RegistrationKey> {
        self.record.sends.extend(self.send_lanes.iter().map(|lane| lane.stats));
        let registrations = &mut ledger.registrations;
        self.send_lanes.drain(..).flat_map(|lane| lane.close(registrations)).collect()
    }

    pub(super) fn close_recvs(&mut self, ledger: &mut Ledger) {
        for lane in self.take_recvs() {
            lane.close(&mut ledger.registrations);
        }
    }

    /// Takes the receive lanes out, open as they are.
    pub(super) fn take_recvs(&mut self) -> Vec<RecvLane> {
        self.record.recvs.extend(self.recv_lanes.iter().map(|lane| lane.stats));
        std::mem::take(&mut self.recv_lanes)
    }

    /// Sends what the kernel takes. Returns whether any byte moved.
    pub(super) fn flush(&mut self) -> Result<bool> {
        self.link.flush().map_err(|error| self.link_error(error))
    }

    /// How long nothing was heard of the peer.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.link.heard_at)
    }

    /// Adds what is under way.
    pub(super) fn note_activity(&self, activity: &mut Activity) {
        activity.sending |= self.send_lanes.iter().any(|lane| !lane.is_idle());
        activity.receiving |= self.recv_lanes.iter().any(RecvLane::awaits_bytes);
    }

    /// Takes a registration's handle back from the comm that gave it out. False when none of these has.
    pub(super) fn deregister(&self, comm: CommId, handle: MemoryHandle) -> bool {
        if let Some(lane) = self.send_lanes.iter().find(|lane| lane.id == comm) {
            lane.comm().deregister(handle);
            return true;
        }
        let lane = self.recv_lanes.iter().find(|lane| lane.id == comm);
        lane.inspect(|lane| lane.comm().deregister(handle)).is_some()
    }

    fn phase(&self) -> Phase {
        phase_of(self.protocol.stage())
    }

    fn gone(&self, how: Departure, phase: Phase) -> Error {
        Error::PeerGone { peer: self.name.to_string(), phase, how }
    }

    fn link_error(&self, error: LinkError) -> Error {
        match error {
            LinkError::Gone(how) => self.gone(how, self.phase()),
            LinkError::Frame(error) => self.protocol_error(error.to_string()),
        }
    }

    fn protocol_error(&self, detail: String) -> Error {
        Error::Protocol { peer: self.name.to_string(), detail }
    }

    /// The error that an operation ends with, if it does.
    #[inline]
    fn error_of(&self, completion: &Completion) -> Option<Error> {
        match completion.outcome {
            Outcome::Done => None,
            Outcome::Cancelled => Some(Error::Cancelled),
            Outcome::SizeMismatch { send_bytes, recv_bytes } => {
                let (peer, tag) = (self.name.to_string(), completion.tag);
                Some(Error::SizeMismatch { peer, tag, send_bytes, recv_bytes })
            }
            Outcome::PeerLeft => {
                let phase = match completion.direction {
                    Direction::Send => Phase::Send,
                    Direction::Receive => Phase::Receive,
                };
                Some(self.gone(Departure::Goodbye, phase))
            }
        }
    }

    fn error_of_end(&self, ending: Ending, during: PeerStage) -> Error {
        let phase = phase_of(during);
        match ending {
            Ending::Goodbye => self.gone(Departure::Goodbye, phase),
            Ending::Aborted(reason) => self.gone(Departure::Abort(reason), phase),
            Ending::Silent(silence) => self.gone(Departure::Silent(silence), phase),
            Ending::HostGone(silence) => self.gone(Departure::HostGone(silence), phase),
            Ending::NeverUp { waited, state } => Error::Deadline {
                phase,
                peer: Some(self.name.to_string()),
                waited,
                detail: state.to_owned(),
            },
            Ending::Broken(violation) => self.protocol_error(violation.to_string()),
        }
    }
}

fn phase_of(stage: PeerStage) -> Phase {
    match stage {
        PeerStage::Connecting => Phase::Connect,
        PeerStage::Up => Phase::Receive,
        PeerStage::Closing { .. } | PeerStage::Over => Phase::Close,
    }
}

/// Counts a plan's chunks for the transfers that it belongs to.
fn count_chunks(plan: &ChunkPlan, chunk_bytes: u32, ledger: &mut Ledger) {
    for member in plan.members.as_slice() {
        ledger.transfers.matched(member.transfer, chunk_count(member.bytes, chunk_bytes));
    }
}
