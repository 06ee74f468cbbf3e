//! How a peer ends: by a goodbye, or at once with an error.

use crate::control::frame::Frame;
use crate::error::{Departure, Error, Phase};
use crate::peer::protocol::coalescer::OpenRun;
use crate::peer::protocol::matcher::Matcher;
use crate::peer::protocol::shutdown::Shutdown;
use crate::peer::{Peer, Stage};
use crate::transfer::batch::BatchNumber;
use crate::transfer::ledger::{Ledger, Op, OpState};
use crate::transfer::recv_lane::RecvLane;
use crate::transfer::send_lane::SendLane;
use crate::types::{Direction, RegistrationKey};

/// What cannot be closed or freed yet when a peer ends: chunks of it are being unpacked or gathered.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(crate) lanes: Vec<RecvLane>,
    /// Staging buffers whose comms are closed.
    pub(crate) stagings: Vec<RegistrationKey>,
    /// The batch that ends it.
    pub(crate) until: BatchNumber,
}

impl Peer {
    /// Begins a goodbye: what has no counterpart is withdrawn, what has one is finished first. False for a peer that
    /// cannot be up at its end either: nobody there would answer.
    pub(crate) fn start_farewell(&mut self, ledger: &mut Ledger) -> bool {
        match &self.stage {
            Stage::Connecting(_) => return false,
            Stage::Comms(setup) => {
                self.leaves_when_up = setup.has_said_ready();
                return self.leaves_when_up;
            }
            Stage::Closing(_) | Stage::Gone(_) => return true,
            Stage::Up => {}
        }
        let has_heard = std::mem::take(&mut self.parted_early);
        let farewell = if has_heard { Shutdown::answering() } else { Shutdown::default() };
        self.stage = Stage::Closing(farewell);
        for key in ledger.select(|op| op.peer == self.key) {
            self.cancel(key, ledger);
        }
        true
    }

    pub(super) fn say_farewell(&mut self, ledger: &mut Ledger) {
        let Stage::Closing(farewell) = &mut self.stage else { return };
        let is_drained = || {
            self.send_lanes.iter().all(SendLane::is_idle)
                && self.recv_lanes.iter().all(RecvLane::is_idle)
                && !ledger.ops.values().any(|op| op.peer == self.key)
        };
        let step = farewell.step(is_drained);
        if step.say_goodbye {
            self.queue(&Frame::Goodbye);
        }
        if step.close_sends {
            // The lanes were idle before the goodbye, so nothing is being gathered.
            for staging in self.close_sends(ledger) {
                ledger.registrations.remove_own(staging);
            }
            self.queue(&Frame::Closed);
        }
        if step.close_receives {
            self.close_recvs(ledger);
            tracing::info!(peer = %self.name, "peer is closed");
            // The last frame must leave before the link does.
            let _ = self.flush();
            self.link = None;
            self.stage = Stage::Gone(self.gone(Departure::Goodbye, Phase::Close));
        }
    }

    /// Closes every send comm, and returns their staging buffers.
    fn close_sends(&mut self, ledger: &mut Ledger) -> Vec<RegistrationKey> {
        self.closed_sends.extend(self.send_lanes.iter().map(|lane| lane.stats));
        self.send_lanes.drain(..).flat_map(|lane| lane.close(ledger)).collect()
    }

    fn close_recvs(&mut self, ledger: &mut Ledger) {
        self.closed_recvs.extend(self.recv_lanes.iter().map(|lane| lane.stats));
        self.recv_lanes.drain(..).for_each(|lane| lane.close(ledger));
    }

    /// Ends everything with this peer: comms first, so that nobody touches memory of operations that have ended. What is
    /// still being unpacked or gathered, which is all after batch `reached`, is handed out to be ended later.
    pub(crate) fn fail(
        &mut self,
        error: Error,
        ledger: &mut Ledger,
        reached: BatchNumber,
    ) -> Option<Leftover> {
        if let Stage::Gone(_) = self.stage {
            return None;
        }
        if let Some(link) = &mut self.link {
            link.queue(&Frame::Abort(error.to_string()));
            let _ = link.flush();
        }
        self.link = None;
        let is_left = |batch: &BatchNumber| *batch > reached;
        let gathering = self.send_lanes.iter().filter_map(SendLane::newest_batch).max();
        let gathering = gathering.filter(is_left);
        let unpacking = self.recv_lanes.iter().filter_map(RecvLane::newest_batch).max();
        let unpacking = unpacking.filter(is_left);
        let mut stagings = self.close_sends(ledger);
        if gathering.is_none() {
            stagings.drain(..).for_each(|staging| ledger.registrations.remove_own(staging));
        }
        self.matcher = Matcher::default();
        self.run = OpenRun::default();
        let lanes = if unpacking.is_some() {
            self.closed_recvs.extend(self.recv_lanes.iter().map(|lane| lane.stats));
            std::mem::take(&mut self.recv_lanes)
        } else {
            Vec::new()
        };
        self.close_recvs(ledger);
        let leftover = gathering.max(unpacking).map(|until| Leftover { lanes, stagings, until });
        let may_end = |op: &Op| {
            let is_used = match op.direction {
                Direction::Send => gathering.is_some(),
                Direction::Receive => unpacking.is_some(),
            };
            !is_used || op.state != OpState::Matched
        };
        ledger.end_of_peer(self.key, &error, may_end);
        self.stage = Stage::Gone(error);
        leftover
    }
}
