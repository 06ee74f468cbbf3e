//! What a connection does when the protocol says so.

use super::commons::{Commons, Ledger};
use super::connection::{Connection, phase_of};
use super::protocol::action::{Action, Completion, Ending, Outcome};
use super::protocol::arrivals::Loss;
use super::protocol::stage::PeerStage;
use crate::control::hello::Agreement;
use crate::error::{Departure, Error, Phase, Result};
use crate::transfer::plan::ChunkPlan;
use crate::transfer::recv_lane::RecvLane;
use crate::transfer::send_lane::SendLane;
use crate::transfer::staging::StagingSource;
use crate::transfer::stripe::chunk_count;
use crate::types::{Direction, MemoryType, RegistrationKey};

impl Connection {
    /// Does what the protocol says, until it says nothing more.
    pub(super) fn act(&mut self, cx: &mut Commons) -> Result<()> {
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
                Action::CountSent => {
                    let sent = self.sent_chunks();
                    self.protocol.handle_sent(sent);
                }
                Action::CloseSends => {
                    // Nothing is being gathered: everything that was posted has ended before the
                    // goodbye.
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
        for (channel, mut comm) in (0..).zip(sends) {
            comm.set_peer_timeout(options.peer_timeout);
            let id = registrations.new_comm();
            self.send_lanes.push(SendLane::new(id, key, channel, comm, options.send_window));
        }
        for (label, mut comm) in receives {
            comm.set_peer_timeout(options.peer_timeout);
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
            Ending::ChunksLost(Loss { channel, sent, arrived, waited }) => {
                self.gone(Departure::ChunksLost { channel, sent, arrived, waited }, phase)
            }
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

/// Counts a plan's chunks for the transfers that it belongs to.
fn count_chunks(plan: &ChunkPlan, chunk_bytes: u32, ledger: &mut Ledger) {
    for member in plan.members.as_slice() {
        ledger.transfers.matched(member.transfer, chunk_count(member.bytes, chunk_bytes));
    }
}
