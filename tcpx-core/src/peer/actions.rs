//! Execution of the protocol's actions by a connection.

use std::path::Path;
use std::time::Instant;

use tcpx_protocol::exports::refusal::Refusal;
use tcpx_protocol::frames::fields::ChannelHandle;
use tcpx_protocol::frames::frame::{ChunkCounts, Frame};
use tcpx_protocol::peer::action::{Action, Completion, Ending, Outcome, Withdrawal};
use tcpx_protocol::peer::lifecycle::stage::PeerStage;
use tcpx_protocol::peer::one_sided::local_lists::PreparedList;
use tcpx_protocol::plans::plan::{ChunkPlan, chunk_count};
use tcpx_protocol::types::{Direction, MemoryType, RegistrationKey};
use tcpx_sys::NetHandle;

use super::comm_opening::Comms;
use super::comm_setup::CommSetup;
use super::connection::{ClosingComms, Connection, phase_of};
use super::link_copy::is_copied;
use super::resources::{Ledger, Resources};
use crate::error::{Departure, Error, Phase, Result};
use crate::plugin::comm::{OpenComm, RecvComm, SendComm, close_comms};
use crate::plugin::nics::nodes;
use crate::reactor::poller::Target;
use crate::stats::tcp::TcpStats;
use crate::transfer::link_copies::AfterCopy;
use crate::transfer::recv_lane::RecvLane;
use crate::transfer::send_lane::SendLane;
use crate::transfer::staging_pool::StagingRequest;

/// Bytes of operations that are sent on the link at once, before the link is read again.
const LINK_BYTES_AT_ONCE: u64 = 1 << 20;
/// Bytes that the kernel is assumed to take where it was not asked.
const DEFAULT_LINK_ROOM: u64 = 64 << 10;

impl Connection {
    /// Sends a frame that nothing follows.
    fn send(&mut self, frame: &Frame) -> Result<()> {
        self.link.queue(frame);
        let (taken, waiting) = (self.link.taken_bytes(), self.link.unsent_bytes());
        match !frame.is_answer() || self.unread_answers.add(taken, waiting) {
            true => Ok(()),
            false => {
                Err(self.protocol_error("it sends requests, and does not read the answers".into()))
            }
        }
    }

    /// Reports to the protocol how many bytes the kernel takes, but no more than `left`.
    fn report_link_room(&mut self, left: u64) {
        // Bytes of operations only go on a link on which nothing waits.
        let is_asked =
            left > 0 && self.protocol.sends_link_chunks() && self.link.waiting_bytes() == 0;
        let room = if is_asked { self.link.room() } else { None };
        // Whatever the kernel takes, this end must send some for the kernel to say when it takes
        // more.
        self.protocol.handle_chunk_room(room.unwrap_or(DEFAULT_LINK_ROOM).max(1).min(left));
    }

    /// Executes the actions of the protocol, until there are no more.
    pub(super) fn execute_actions(&mut self, cx: &mut Resources) -> Result<()> {
        self.execute_actions_within(LINK_BYTES_AT_ONCE, cx)
    }

    /// Executes the actions, but sends no more than this many bytes of operations on the link.
    /// Those behind a copy of the link wait for it.
    pub(super) fn execute_actions_within(
        &mut self,
        mut chunk_bytes_left: u64,
        cx: &mut Resources,
    ) -> Result<()> {
        self.protocol.handle_unsent(self.link.waiting_bytes());
        self.report_link_room(chunk_bytes_left);
        while !self.copies.is_full()
            && let Some(action) = self.protocol.poll_action()
        {
            if self.is_copying() && !is_copy(&action, cx) {
                self.copies.follow(AfterCopy::Execute(action));
                continue;
            }
            let sent = link_chunk_bytes(&action);
            self.execute(action, cx)?;
            if let Some(sent) = sent {
                let waiting = self.link.waiting_bytes();
                if waiting > 0 {
                    self.protocol.handle_unsent(waiting);
                }
                chunk_bytes_left = chunk_bytes_left.saturating_sub(sent);
                self.report_link_room(chunk_bytes_left);
            }
        }
        Ok(())
    }

    /// Executes one action, which waits for nothing.
    pub(super) fn execute(&mut self, action: Action, cx: &mut Resources) -> Result<()> {
        match action {
            Action::Send(frame) => self.send(&frame)?,
            Action::SendMessage { frame, member } => self.send_message(frame, &member, cx)?,
            Action::SendWithPayload { frame, bytes, note } => {
                self.send_on_link(frame, bytes, note.as_ref(), cx)?;
            }
            Action::Note { number, is_published } => {
                self.release_note(number, is_published, &cx.ledger)?;
            }
            Action::Served(uses) => cx.ledger.exports.end_all(&uses),
            Action::Refused(why) => self.warn_of_refusal(why),
            Action::TakeUnexpected { number, into } => {
                self.take_unexpected(number, into, &mut cx.ledger)
            }
            Action::OpenChannels => self.begin_channels(cx)?,
            Action::Connect(handles) => self.connect(handles)?,
            Action::Open => self.open(cx)?,
            Action::Credit(chunks) => self.use_credit(&chunks),
            Action::Unpacked(chunks) => self.note_unpacked(&chunks),
            Action::CloseChannel { channel, why } => self.close_channel(channel, why, cx),
            Action::Redeal { direction, lost, onto } => self.redeal(direction, lost, onto),
            Action::PrepareStaging { channel, memory } => {
                if !self.prepare_staging(channel, memory, cx) {
                    self.protocol.handle_staging(channel, memory, false);
                }
            }
            Action::SendChunks(plan) => self.send_chunks(plan, &mut cx.ledger),
            Action::ReceiveChunks(plan) => self.receive_chunks(plan, &mut cx.ledger),
            Action::Complete(completion, list) => {
                self.complete(&completion, list.as_deref(), &mut cx.ledger);
            }
            Action::CheckHost => {
                let unacknowledged = self.link.unacknowledged().unwrap_or_default();
                self.protocol.handle_acknowledgement(unacknowledged);
            }
            Action::CountSent => {
                let sent = self.sent_chunks();
                self.protocol.handle_sent(sent);
            }
            Action::CloseSends => self.close_sends(cx),
            Action::CloseReceives => self.close_receives(cx),
            Action::End { ending, during } => return Err(self.error_of_end(ending, during)),
        }
        Ok(())
    }

    /// Closes the send comms. The other end has said goodbye, too: it needs them no more. Nothing
    /// is being gathered: everything that was posted has ended before the goodbye.
    fn close_sends(&mut self, cx: &mut Resources) {
        self.setup = None;
        let (comms, stagings) = self.end_sends(&mut cx.ledger);
        let ticket = close_comms(comms, &cx.workers);
        self.closing = Some(ClosingComms { direction: Direction::Send, ticket, stagings });
    }

    fn close_receives(&mut self, cx: &mut Resources) {
        let ticket = close_comms(self.end_recvs(&mut cx.ledger), &cx.workers);
        let (direction, stagings) = (Direction::Receive, Vec::new());
        self.closing = Some(ClosingComms { direction, ticket, stagings });
    }

    fn connect(&self, handles: Vec<ChannelHandle>) -> Result<()> {
        let handles = handles.into_iter().map(|handle| NetHandle(handle.0)).collect();
        self.setup.as_ref().map_or(Ok(()), |setup| setup.connect(handles))
    }

    /// Begins the set-up of the channels.
    fn begin_channels(&mut self, cx: &Resources) -> Result<()> {
        let Some(policy) = self.policy.take() else { return Ok(()) };
        let now = Instant::now();
        let terms = (self.protocol.agreement(), self.link.comm_secrets());
        let (session, workers) = (&cx.session, &cx.workers);
        let setup = CommSetup::start(self.key, &self.name, policy, terms, session, workers, now)?;
        self.record.nics = setup.nics().to_vec();
        self.setup = Some(setup);
        self.protocol.handle_channels_begun(now);
        // The set-up has a deadline, for which the protocol must be asked.
        self.timeout = Some(now);
        Ok(())
    }

    fn open(&mut self, cx: &mut Resources) -> Result<()> {
        let Some(setup) = self.setup.take() else { return Ok(()) };
        let (key, options) = (self.key, &cx.session.options);
        let registrations = &mut cx.ledger.registrations;
        let Comms { sends, receives } = setup.finish();
        let step_bytes = cx.session.step_bytes();
        for (channel, mut comm) in (0..).zip(sends) {
            comm.set_peer_timeout(options.peer_timeout);
            comm.watch(&cx.session.poller, Target::Send(key, channel));
            let id = registrations.new_comm(key);
            let window = options.send_window;
            let mut lane = SendLane::new(id, key, channel, comm, window, step_bytes);
            if self.protocol.agreement().keeps_chunks {
                lane.set_unpacked(0);
            }
            self.send_lanes.push(lane);
        }
        for (label, mut comm) in receives {
            comm.set_peer_timeout(options.peer_timeout);
            comm.watch(&cx.session.poller, Target::Receive(key, label.channel));
            let id = registrations.new_comm(key);
            let window = options.recv_window;
            self.recv_lanes.push(RecvLane::new(id, key, label, comm, window, step_bytes));
        }
        let on_demand = self.protocol.agreement().on_demand;
        self.log_up(if on_demand { "channels are open" } else { "peer is up" });
        Ok(())
    }

    /// Logs what carries the bytes of this peer, where something has become so.
    pub(super) fn log_up(&self, what: &str) {
        let it = &*self.transport;
        tracing::info!(
            peer = %self.name, from = %it.local.address, to = it.remote.address,
            transport = it.name, nics = it.local.nics.to_string(),
            numa_nodes = nodes(Path::new("/"), &it.local.nics),
            peer_nics = it.remote.nics.to_string(), channels = it.channels,
            chunk_bytes = it.chunk_bytes, encrypted = it.encrypted,
            zero_copy = it.zero_copy.to_string(), one_sided = it.one_sided.to_string(), "{what}"
        );
    }

    /// Warns once of a refusal that the operator should check.
    fn warn_of_refusal(&self, why: Refusal) {
        tracing::warn!(
            peer = %self.name,
            "refused a request for memory of this session: {}; further ones of this peer are only \
             counted",
            why.reason()
        );
    }

    fn prepare_staging(&mut self, channel: u16, memory: MemoryType, cx: &mut Resources) -> bool {
        let session = &cx.session;
        let Some(lane) = self.send_lanes.get_mut(channel) else { return false };
        let request = StagingRequest {
            memory,
            slots: session.staging_slots(memory),
            chunk_bytes: self.protocol.agreement().chunk_bytes,
            device: &session.memory,
        };
        let Ledger { staging, registrations, .. } = &mut cx.ledger;
        lane.prepare_staging(request, staging, registrations)
    }

    /// Gives the send lanes the credit: the peer has room for this many chunks on each channel.
    #[inline(never)]
    fn use_credit(&mut self, chunks: &[u64]) {
        for (channel, chunks) in (0..).zip(chunks) {
            if let Some(lane) = self.send_lanes.get_mut(channel) {
                lane.set_credit(*chunks);
            }
        }
    }

    /// Returns the chunks sent on each channel so far.
    fn sent_chunks(&self) -> ChunkCounts {
        let closed = self.record.sends.iter().map(|stats| stats.chunks);
        self.send_stats().map(|stats| stats.chunks).chain(closed).collect()
    }

    fn send_chunks(&mut self, plan: ChunkPlan, ledger: &mut Ledger) {
        count_chunks(&plan, ledger);
        for (channel, stripe) in plan.stripes() {
            match self.send_lanes.get_mut(channel) {
                Some(lane) => lane.push(stripe),
                None => self.push_lost(channel, Direction::Send, stripe),
            }
        }
    }

    fn receive_chunks(&mut self, plan: ChunkPlan, ledger: &mut Ledger) {
        count_chunks(&plan, ledger);
        for (channel, stripe) in plan.stripes() {
            match self.recv_lanes.get_mut(channel) {
                Some(lane) => lane.push(stripe),
                None => self.push_lost(channel, Direction::Receive, stripe),
            }
        }
    }

    /// Ends every send lane. Returns the comms, to be closed, and their staging buffers.
    pub(super) fn end_sends(
        &mut self,
        ledger: &mut Ledger,
    ) -> (Vec<SendComm>, Vec<RegistrationKey>) {
        let (sends, tcps): (Vec<_>, Vec<_>) = self.send_stats().zip(self.tcp_stats()).unzip();
        self.record.sends.extend(sends);
        self.record.tcps.extend(tcps.into_iter().map(TcpStats::closed));
        let (mut comms, mut stagings) = (Vec::new(), Vec::new());
        for lane in self.send_lanes.drain() {
            let (comm, of_lane) = lane.close(&mut ledger.registrations);
            comms.push(comm);
            stagings.extend(of_lane);
        }
        (comms, stagings)
    }

    /// Ends every receive lane. Returns the comms, to be closed.
    pub(super) fn end_recvs(&mut self, ledger: &mut Ledger) -> Vec<RecvComm> {
        let lanes = self.take_recvs().into_iter();
        lanes.map(|lane| lane.close(&mut ledger.registrations)).collect()
    }

    /// Takes the receive lanes out without closing them.
    pub(super) fn take_recvs(&mut self) -> Vec<RecvLane> {
        let recvs: Vec<_> = self.recv_stats().collect();
        self.record.recvs.extend(recvs);
        self.recv_lanes.drain().collect()
    }

    /// Completes an operation.
    #[inline]
    pub(super) fn complete(
        &mut self,
        completion: &Completion,
        list: Option<&PreparedList>,
        ledger: &mut Ledger,
    ) {
        let Completion { transfer, registration, outcome, .. } = completion;
        let owners = match list {
            Some(list) => list.pieces.owners(),
            None => std::slice::from_ref(registration),
        };
        if *outcome == Outcome::Done {
            return ledger.done(*transfer, owners);
        }
        self.record.errors += 1;
        ledger.failed(*transfer, owners, || self.error_of(completion, list));
    }

    pub(super) fn error_of(&self, completion: &Completion, list: Option<&PreparedList>) -> Error {
        let Completion { direction, tag, outcome, .. } = *completion;
        match outcome {
            Outcome::Done | Outcome::Withdrawn(Withdrawal::Left) => Error::Closed,
            Outcome::Withdrawn(Withdrawal::Cancelled) => Error::Cancelled,
            Outcome::Withdrawn(Withdrawal::PeerLeft) => {
                self.gone(Departure::Goodbye, Phase::of(direction))
            }
            Outcome::Refused { why, range } => {
                match list.and_then(|list| why.problem(&list.asked_range(range))) {
                    Some(problem) => {
                        let peer = Some(self.name.to_string());
                        Error::Remote { peer, memory: None, problem }
                    }
                    None => Error::Cancelled,
                }
            }
            Outcome::SizeMismatch { send_bytes, recv_bytes } => {
                let peer = self.name.to_string();
                Error::SizeMismatch { peer, tag, send_bytes, recv_bytes }
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
            Ending::ChunksLost(loss) => self.error_of_loss(loss, phase),
            Ending::NoChannelLeft(_) => {
                let own = self.lost.iter().find_map(|lost| lost.why.clone());
                own.unwrap_or_else(|| self.protocol_error("it has lost every channel".into()))
            }
            Ending::NeverUp { waited, state } => {
                self.gone(Departure::NeverUp { waited, state }, Phase::Connect)
            }
            Ending::Broken(violation) => self.protocol_error(violation.to_string()),
        }
    }
}

/// Returns whether the bytes of an action are copied first, from memory of a GPU.
fn is_copy(action: &Action, cx: &Resources) -> bool {
    match action {
        Action::SendMessage { member, .. } => is_copied(cx, member.span.memory, member.bytes),
        Action::SendWithPayload { bytes: Some((_, range)), .. } => {
            is_copied(cx, range.memory(), range.bytes())
        }
        _ => false,
    }
}

/// Returns how many bytes of an operation an action sends on the link, if that is what it does.
fn link_chunk_bytes(action: &Action) -> Option<u64> {
    let Action::SendWithPayload { bytes, .. } = action else { return None };
    Some(bytes.as_ref().map_or(0, |(_, range)| range.bytes()))
}

/// Counts the chunks of a plan's messages for the transfers that they belong to, with the first
/// section of each.
fn count_chunks(plan: &ChunkPlan, ledger: &mut Ledger) {
    if plan.offset > 0 {
        return;
    }
    for member in plan.members.as_slice() {
        ledger.transfers.matched(member.transfer, chunk_count(member.bytes, plan.chunk_bytes));
    }
}
