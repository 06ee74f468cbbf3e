//! Step of a connection: it handles what its link has brought and what its comms have done, and
//! then takes the protocol's actions.

use std::ops::BitOr;
use std::time::Instant;

use smallvec::SmallVec;
use tcpx_cuda::CudaError;
use tcpx_protocol::frames::fields::ChannelHandle;
use tcpx_protocol::frames::frame::{ChunkCounts, Frame};
use tcpx_protocol::peer::lifecycle::arrivals::ArrivalSample;
use tcpx_protocol::peer::lifecycle::stage::{Leaving, PeerStage};
use tcpx_protocol::types::Direction;
use tcpx_unpack::UnpackError;

use super::comm_setup::CommSetup;
use super::connection::Connection;
use super::deferred_failure::DeferredFailure;
use super::resources::{Ledger, Resources};
use super::{ConnectionState, Peer};
use crate::control::connector::ReachedPeer;
use crate::error::{Error, Result};
use crate::reactor::poller::Target;
use crate::transfer::batch::BatchNumber;
use crate::transfer::link_copies::{AfterCopy, LinkCopy};
use crate::transfer::recv_lane::RecvLane;

/// Reads of one round while a long operation arrives, so that no peer keeps the others waiting.
const READS_PER_ROUND: usize = 4;

impl Connection {
    /// Makes one step: link, comms, posts and tests. Arrived chunks go into the batch. Returns
    /// whether anything moved.
    pub(super) fn progress(&mut self, now: Instant, cx: &mut Resources) -> Result<bool> {
        let mut moved = self.poll_closing(cx)?;
        if self.protocol.is_parted() {
            // The peer may be through, and its link with it.
            return Ok(moved);
        }
        moved |= self.post_and_flush(now, cx)?;
        if !self.lost.is_empty() {
            moved |= self.poll_lost(cx)?;
        }
        moved |= self.protocol.handle_round();
        moved |= self.read_link(now, cx)?;
        if let Some(failure) = &self.deferred {
            failure.check(now)?;
            return Ok(moved);
        }
        moved |= self.post_and_flush(now, cx)?;
        match self.drive_comms(cx) {
            Ok(comms_moved) => moved |= comms_moved,
            Err(error) => return self.defer_failure(error, now, cx),
        }
        // Without a timeout, any event may be one for the protocol.
        if self.timeout.is_none_or(|timeout| now >= timeout) {
            self.protocol.handle_timeout(now);
            // Requests that were sent now decide about the next timeout.
            self.execute_actions(cx)?;
            self.timeout = self.protocol.next_timeout();
        }
        self.execute_actions(cx)?;
        moved |= self.flush()?;
        Ok(moved)
    }

    /// Posts chunks, and sends the frames that the peer needs before them: to test what was posted,
    /// and so to send it, takes a while. The frames leave while a GPU copies the chunks down.
    fn post_and_flush(&mut self, now: Instant, cx: &mut Resources) -> Result<bool> {
        let moved = self.deferred.is_none() && self.post_chunks(now, cx)?;
        let queued = self.link.unsent_bytes();
        if queued > 0 && self.link.waiting_bytes() == 0 && self.protocol.sends_link_chunks() {
            // What is queued leaves with the bytes of the operation, in one call.
            self.execute_actions(cx)?;
            self.flush()?;
            return Ok(true);
        }
        Ok(moved | self.flush()?)
    }

    fn post_chunks(&mut self, now: Instant, cx: &mut Resources) -> Result<bool> {
        let (reached, registrations) = (cx.batch.reached(), &mut cx.ledger.registrations);
        let mut failed = None;
        let moved = self.send_lanes.step(&mut failed, |lane| lane.post(registrations, reached));
        match failed.map(|(channel, error)| self.lose_channel(channel, error, cx)) {
            None | Some(Ok(())) => Ok(moved),
            Some(Err(error)) => self.defer_failure(error, now, cx),
        }
    }

    fn read_link(&mut self, now: Instant, cx: &mut Resources) -> Result<bool> {
        // The program copies exported memory without the lock: no request may begin with it.
        if cx.ledger.exports.is_any_copied() {
            return Ok(false);
        }
        self.link.begin_round();
        let mut moved = false;
        for _ in 0..READS_PER_ROUND {
            if self.protocol.is_round_spent() || !self.may_read_link() {
                break;
            }
            match self.read_once(now, cx) {
                Ok(true) => {}
                // What came before the end of the link is put in place before that is known.
                Err(_) if self.is_copying() => break,
                unread => {
                    unread?;
                    break;
                }
            }
            moved = true;
            self.protocol.handle_received(self.link.received_at);
            while let Some(frame) = self.next_frame()? {
                self.handle_frame(frame, cx)?;
                if self.protocol.is_round_spent() || self.copies.is_full() {
                    self.link.end_round();
                }
            }
            if self.link.chunk_to_read().is_none() {
                break;
            }
        }
        if moved {
            // No ping is needed for a while.
            self.timeout = self.timeout.and_then(|_| self.protocol.next_timeout());
            self.execute_actions(cx)?;
        }
        Ok(moved)
    }

    /// Reads what has arrived. Bytes of an operation go to their place.
    fn read_once(&mut self, now: Instant, cx: &mut Resources) -> Result<bool> {
        if let Some(chunk) = self.link.chunk_to_read()
            && let Some(place) = self.protocol.place_of(chunk)
        {
            return self.read_chunk(chunk, &place, now, cx);
        }
        self.link.read(now).or_else(|error| self.link_ended(error).map(|()| true))
    }

    fn next_frame(&mut self) -> Result<Option<Frame>> {
        self.link.next_of_round().map_err(|error| self.link_error(error))
    }

    /// Makes all calls of the plugin.
    fn drive_comms(&mut self, cx: &mut Resources) -> Result<bool> {
        let mut moved = false;
        // After a goodbye its end is no fault.
        let setup = self.setup.as_ref().filter(|_| self.protocol.is_setting_up());
        if let Some(progress) = setup.map_or(Ok(None), CommSetup::poll)? {
            if let Some(handles) = progress.listening {
                let handles = handles.into_iter().map(|handle| ChannelHandle(handle.0));
                self.protocol.handle_listening(handles.collect());
            }
            if let Some(credit) = progress.accepted {
                self.protocol.handle_comms_accepted(credit);
            }
            if progress.is_connected {
                self.protocol.handle_comms_connected();
            }
            self.execute_actions(cx)?;
            moved = true;
        }
        moved |= self.poll_staging(cx)?;
        let Resources { session, ledger, batch, .. } = cx;
        let registrations = &mut ledger.registrations;
        let mut failed = None;
        moved |= self.send_lanes.step(&mut failed, |lane| {
            Ok(lane.progress(registrations, batch, &mut self.finished)?.moved)
        });
        moved |= self.recv_lanes.step(&mut failed, |lane| {
            Ok(lane.progress(registrations, batch, &session.memory)?.moved)
        });
        if let Some((channel, error)) = failed {
            self.lose_channel(channel, error, cx)?;
            moved = true;
        }
        self.report_finished(cx)?;
        Ok(moved)
    }

    /// Gives slots back whose unpack has finished, and posts what was gathered.
    pub(super) fn consume(
        &mut self,
        now: Instant,
        finished: BatchNumber,
        cx: &mut Resources,
    ) -> Result<bool> {
        let copied = self.finish_copies((now, finished), cx)?;
        if self.deferred.is_some() {
            return Ok(copied);
        }
        match self.handle_unpacked(finished, cx) {
            Ok(moved) => {
                let moved = copied | moved | self.poll_lost(cx)?;
                self.report_finished(cx)?;
                self.report_unpacked(cx)?;
                let moved = moved | self.renew_credit(cx)?;
                // A thread that has waited for this may be the last to make a round for a while.
                Ok(moved | self.flush()?)
            }
            Err(error) => self.defer_failure(error, now, cx),
        }
    }

    /// Goes on with what waited for copies whose batches have finished. Returns whether any has.
    ///
    /// # Errors
    /// [`CudaError::Stalled`] inside: none has, for too long.
    fn finish_copies(
        &mut self,
        (now, finished): (Instant, BatchNumber),
        cx: &mut Resources,
    ) -> Result<bool> {
        let mut any = false;
        while let Some((copy, next)) = self.copies.take_finished(finished) {
            any = true;
            if let AfterCopy::Send { frame, note } = &next {
                let sent = copy.as_ref().map(LinkCopy::bytes).unwrap_or_default();
                let payload = [sent, note.as_deref().unwrap_or_default()];
                match frame {
                    Some(frame) => self.link.send_with_payload(frame, payload),
                    None => self.link.send_more(payload),
                }
            }
            if let Some(copy) = copy {
                cx.ledger.link_buffers.give_back(copy.into_buffer());
            }
            match next {
                AfterCopy::Publish(Some(note)) => self.publish(note, &cx.ledger)?,
                AfterCopy::Execute(action) => self.execute(action, cx)?,
                AfterCopy::Publish(None) | AfterCopy::Send { .. } => {}
            }
        }
        if any {
            self.execute_actions(cx)?;
        } else if let Some(waited) = self.copies.overdue(now) {
            let waited_ms = waited.as_millis() as u64;
            return Err(UnpackError::from(CudaError::Stalled { waited_ms }).into());
        }
        Ok(any)
    }

    fn handle_unpacked(&mut self, finished: BatchNumber, cx: &mut Resources) -> Result<bool> {
        let (mut failed, registrations) = (None, &mut cx.ledger.registrations);
        let mut moved =
            self.send_lanes.step(&mut failed, |lane| lane.post(registrations, finished));
        moved |=
            self.recv_lanes.step(&mut failed, |lane| lane.consume(finished, &mut self.finished));
        if let Some((channel, error)) = failed {
            self.lose_channel(channel, error, cx)?;
            moved = true;
        }
        Ok(moved)
    }

    /// Defers the failure of the plugin. The plugin is called no more for this peer, and the peer
    /// ends unless the link may know more. What was done before counts.
    pub(super) fn defer_failure(
        &mut self,
        error: Error,
        now: Instant,
        cx: &mut Resources,
    ) -> Result<bool> {
        self.report_finished(cx)?;
        self.deferred = Some(DeferredFailure::new(error, now)?);
        Ok(true)
    }

    /// Returns the room of chunks consumed in this round, takes new room, and reports it to the
    /// peer. Returns whether the peer may send more.
    pub(super) fn renew_credit(&mut self, cx: &mut Resources) -> Result<bool> {
        let renewed = self.recv_lanes.iter_mut().map_while(RecvLane::renew_credit);
        if !renewed.fold(false, BitOr::bitor) {
            return Ok(false);
        }
        let limits: ChunkCounts = self.credit_limits().collect();
        self.protocol.handle_credit(limits);
        self.execute_actions(cx).map(|()| true)
    }

    /// Checks the comms of lanes, where the plugin knows their state, and reports to the protocol
    /// what has arrived. A peer ends whose comms are dead, or whose chunks are lost.
    pub(super) fn check_data_path(&mut self, now: Instant, cx: &mut Resources) -> Result<()> {
        if self.deferred.is_some() {
            return Ok(());
        }
        // While both ends leave, comms may close.
        if self.protocol.stage() == PeerStage::Up
            && let Some((channel, error)) = self.dead_channel()
            && let Err(error) = self.lose_channel(channel, error, cx)
        {
            return self.defer_failure(error, now, cx).map(drop);
        }
        let sample = |lane: &RecvLane| ArrivalSample {
            arrived: lane.chunks_arrived(),
            is_waiting: lane.awaits_bytes(),
        };
        let nothing = |_| ArrivalSample { arrived: 0, is_waiting: false };
        let samples: SmallVec<[_; 8]> = self.recv_lanes.map_all(sample, nothing).collect();
        self.protocol.handle_arrivals(&samples, cx.batch.is_unpacking(), now);
        self.execute_actions(cx)
    }

    /// Returns a channel with a comm that is dead, and its error.
    fn dead_channel(&mut self) -> Option<(u16, Error)> {
        let mut sends = self.send_lanes.by_channel_mut();
        let dead = sends.find_map(|(at, it)| Some((at, it.check_alive_if_unknown().err()?)));
        drop(sends);
        let mut receives = self.recv_lanes.by_channel_mut();
        dead.or_else(|| {
            receives.find_map(|(at, it)| Some((at, it.check_alive_if_unknown().err()?)))
        })
    }

    /// Reports requested staging buffers to the protocol. Returns whether there were any.
    pub(super) fn poll_staging(&mut self, cx: &mut Resources) -> Result<bool> {
        let Ledger { staging, registrations, .. } = &mut cx.ledger;
        let mut moved = false;
        for (channel, lane) in self.send_lanes.by_channel_mut() {
            while let Some((memory, is_there)) = lane.poll_staging(staging, registrations) {
                self.protocol.handle_staging(channel, memory, is_there);
                moved = true;
            }
        }
        if moved { self.execute_actions(cx).map(|()| true) } else { Ok(false) }
    }

    /// Reports closed comms to the protocol. Returns whether there were any.
    pub(super) fn poll_closing(&mut self, cx: &mut Resources) -> Result<bool> {
        let Some(closed) = self.closing.take_if(|closing| closing.ticket.is_done()) else {
            return Ok(false);
        };
        for staging in closed.stagings {
            cx.ledger.staging.give_back(staging);
        }
        match closed.direction {
            Direction::Send => self.protocol.handle_sends_closed(),
            Direction::Receive => {
                tracing::info!(peer = %self.name, "peer is closed");
                self.protocol.handle_receives_closed();
            }
        }
        self.execute_actions(cx).map(|()| true)
    }
}

impl Peer {
    /// Claims the peer for an accept, which names it.
    pub(crate) fn claim(&mut self, name: &str, cx: &mut Resources) -> Result<()> {
        self.name.bind(name);
        self.connection_mut().map_or(Ok(()), |connection| connection.handle_named(cx))
    }

    /// Makes one step. Arrived chunks go into the batch. Returns whether anything moved.
    pub(crate) fn progress(&mut self, now: Instant, cx: &mut Resources) -> Result<bool> {
        if let ConnectionState::Dialling(connector) = &mut self.state {
            let reached = connector.poll(self.name.as_str(), now, &cx.session.identity)?;
            let loaded = connector.info().ips();
            let Some(ReachedPeer { proven, given_up }) = reached else {
                connector.watch(&cx.session.poller, Target::Link(self.key));
                return Ok(false);
            };
            self.origin.given_up = given_up;
            self.link_up(proven, loaded, now, cx);
        }
        self.connection_mut().map_or(Ok(false), |connection| connection.progress(now, cx))
    }

    /// Gives slots back whose unpack has finished, and posts what was gathered.
    pub(crate) fn consume(
        &mut self,
        now: Instant,
        finished: BatchNumber,
        cx: &mut Resources,
    ) -> Result<bool> {
        let connection = self.connection_mut();
        connection.map_or(Ok(false), |connection| connection.consume(now, finished, cx))
    }

    /// Leaves the peer for the program.
    pub(crate) fn disconnect(&mut self, cx: &mut Resources) -> Result<Leaving> {
        self.is_left = true;
        match &mut self.state {
            ConnectionState::Dialling(_) | ConnectionState::Welcomed => Ok(Leaving::NobodyThere),
            ConnectionState::Linked(connection) => connection.disconnect(cx),
            ConnectionState::Gone(_) => Ok(Leaving::Begun),
        }
    }

    /// Checks that its data path is alive.
    pub(crate) fn check_data_path(&mut self, now: Instant, cx: &mut Resources) -> Result<()> {
        let connection = self.connection_mut();
        connection.map_or(Ok(()), |connection| connection.check_data_path(now, cx))
    }
}
