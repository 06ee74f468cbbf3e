//! How both ends leave: by a goodbye of either or both, in the one order that loses nothing.
//!
//! How operations end that find no counterpart: the program withdraws them, or an end leaves.
//!
//! There may be millions, so they end in slices: the first in the call that asks for it, the others
//! one in each round.

use slotmap::Key;

use super::PeerProtocol;
use super::action::{Action, Ending, Outcome};
use super::operation::{Links, OpState, Withdrawal, link_behind};
use super::stage::{Leaving, Shutdown, Stage, Step};
use crate::frames::frame::Frame;
use crate::types::{Direction, OpKey, RegistrationKey, TransferKey};

impl PeerProtocol {
    /// The program has asked for the peer: an accept names it.
    pub fn handle_named(&mut self) {
        self.is_named = true;
        match &self.stage {
            Stage::Connecting { .. } => self.setup_is_awaited(),
            Stage::Up { peer_left: true } => self.peer_leaves(),
            Stage::Up { .. } | Stage::Closing(_) | Stage::Over => {}
        }
    }

    /// The program leaves: what has no counterpart is withdrawn, what has one is finished before
    /// the goodbye, and what went ahead is received.
    pub fn handle_disconnect(&mut self) -> Leaving {
        match &mut self.stage {
            Stage::Connecting { .. } => {
                // Told that everything is there, the peer may be up.
                let leaves = self.has_said_ready();
                self.stage = Stage::Connecting { leaves };
                return if leaves { Leaving::Begun } else { Leaving::NobodyThere };
            }
            Stage::Closing(_) | Stage::Over => return Leaving::Begun,
            Stage::Up { peer_left } => {
                let peer_left = *peer_left;
                self.stage = Stage::Closing(Shutdown::new(peer_left));
                self.drop_kept(!peer_left);
                self.sweep(if peer_left { Withdrawal::PeerLeft } else { Withdrawal::Left });
            }
        }
        Leaving::Begun
    }

    /// The peer has said goodbye. A program that knows of it answers; a peer that no accept has
    /// asked for waits for that.
    pub(super) fn peer_leaves(&mut self) {
        match &mut self.stage {
            Stage::Up { peer_left } if !self.is_named => *peer_left = true,
            Stage::Up { .. } => {
                self.stage = Stage::Closing(Shutdown::new(true));
                self.drop_kept(false);
                self.sweep(Withdrawal::PeerLeft);
            }
            Stage::Closing(shutdown) => {
                shutdown.got_goodbye();
                self.sweep(Withdrawal::PeerLeft);
            }
            Stage::Connecting { .. } | Stage::Over => {}
        }
    }

    /// The send comms of this end are closed.
    pub fn handle_sends_closed(&mut self) {
        if let Stage::Closing(shutdown) = &mut self.stage {
            shutdown.sends_closed();
            self.actions.push_back(Action::Send(Frame::Closed));
        }
    }

    /// Whether everything is said and heard. All that is left is to close this end's receive comms;
    /// the peer may be gone, and its link with it.
    pub fn is_parted(&self) -> bool {
        matches!(&self.stage, Stage::Closing(shutdown) if shutdown.is_parted())
    }

    /// The receive comms of this end are closed.
    pub fn handle_receives_closed(&mut self) {
        if let Stage::Closing(_) = self.stage {
            self.end(Ending::Goodbye);
        }
    }

    /// Whether messages that went ahead wait for their receives. A peer that leaves, too, throws
    /// them away and says so, by its goodbye at the latest.
    pub(super) fn is_awaiting_receives(&self) -> bool {
        self.eager.unreceived() > 0
            && matches!(&self.stage, Stage::Closing(shutdown) if !shutdown.has_heard_goodbye())
    }

    /// Whether notifications wait for room at a peer that does not leave.
    fn has_notes_to_send(&self) -> bool {
        self.queued_notes() > 0
            && matches!(&self.stage, Stage::Closing(shutdown) if !shutdown.has_heard_goodbye())
    }

    /// Does what the goodbye of both ends has due. False when that is nothing.
    pub(super) fn close_next(&mut self) -> bool {
        let is_drained =
            self.operations.is_empty() && !self.is_awaiting_receives() && !self.has_notes_to_send();
        let Stage::Closing(shutdown) = &mut self.stage else { return false };
        let Some(step) = shutdown.step(is_drained) else { return false };
        self.actions.push_back(match step {
            Step::SayGoodbye => Action::Send(Frame::Goodbye),
            Step::CloseSends => Action::CloseSends,
            Step::CloseReceives => Action::CloseReceives,
        });
        true
    }
}

/// What of a transfer has no counterpart, for the text of a deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    /// How many operations.
    pub count: usize,
    /// The oldest of them that nobody has withdrawn, by its tag.
    pub oldest: Option<(Direction, i64)>,
}

impl PeerProtocol {
    /// The program withdraws what of a transfer has no counterpart by now. A receive ends once the
    /// peer agrees. What is posted later is not meant.
    pub fn handle_cancel(&mut self, transfer: TransferKey) {
        if let Some(op) = self.one_sided.of_transfer.get(&transfer).copied() {
            return self.cancel_request(op);
        }
        let Some(backlog) = self.backlogs.get_mut(transfer) else { return };
        if !backlog.withdraw() {
            return;
        }
        if !std::mem::replace(&mut backlog.is_queued, true) {
            // The newest first: a small transfer does not wait for a large one.
            self.cancelled.push_front(transfer);
        }
        self.withdraw_slice();
    }

    /// The program gives no more time to a transfer: as [`handle_cancel`](Self::handle_cancel); and
    /// a write of a list whose memory this end needs no more does not wait for its answer.
    pub fn handle_overdue(&mut self, transfer: TransferKey) {
        self.handle_cancel(transfer);
        self.abandon_request(transfer);
    }

    /// Returns whether an operation, of the program or of the peer, uses a registration.
    pub fn uses(&self, registration: RegistrationKey) -> bool {
        self.operations.keys().any(|op| self.is_on(op, registration))
    }

    /// Returns the transfers of the program with operations on a registration, each once.
    pub fn transfers_on(&self, registration: RegistrationKey) -> Vec<TransferKey> {
        let on = self.operations.iter().filter(|(op, _)| self.is_on(*op, registration));
        let mut transfers: Vec<_> = on.map(|(_, operation)| operation.posted.transfer).collect();
        // Those of the peer have none.
        transfers.retain(|transfer| !transfer.is_null());
        transfers.sort_unstable();
        transfers.dedup();
        transfers
    }

    fn is_on(&self, op: OpKey, registration: RegistrationKey) -> bool {
        match self.one_sided.listed.get(op) {
            Some(listed) => listed.pieces.owners().contains(&registration),
            None => self.operations[op].posted.span.registration == registration,
        }
    }

    /// A round begins: a slice of what is to be withdrawn is. Returns whether there was any.
    pub fn handle_round(&mut self) -> bool {
        self.work.begin_round();
        let is_idle = self.cancelled.is_empty() && self.sweep.is_none();
        !is_idle && self.withdraw_slice()
    }

    /// Whether rounds that follow have more to withdraw.
    pub fn is_withdrawing(&self) -> bool {
        let is_sweeping = self.sweep.is_some() && self.backlogs.any_waiting().is_some();
        !self.cancelled.is_empty() || is_sweeping
    }

    /// Whether the peer has asked for as much as is done for it in a round.
    pub fn is_round_spent(&self) -> bool {
        self.work.is_spent()
    }

    /// Whether something waits for the next round for that reason only.
    pub fn awaits_round(&self) -> bool {
        self.work.holds_sections
    }

    /// What of a transfer has no counterpart.
    pub fn unmatched(&self, transfer: TransferKey) -> Unmatched {
        let Some(backlog) = self.backlogs.get(transfer) else { return Unmatched::default() };
        let oldest = backlog.waiting.first().and_then(|op| self.operations.get(op));
        Unmatched {
            count: backlog.unmatched,
            oldest: oldest.map(|oldest| (oldest.posted.direction, oldest.posted.tag)),
        }
    }

    /// From now on everything that waits ends so, unless the program has withdrawn it before.
    pub(super) fn sweep(&mut self, why: Withdrawal) {
        self.sweep.get_or_insert(why);
        self.sweep_requests(why);
        self.withdraw_slice();
    }

    /// Returns whether there was anything to withdraw.
    fn withdraw_slice(&mut self) -> bool {
        if let Stage::Over = self.stage {
            return false;
        }
        for done in 0..self.slice {
            let Some((op, why)) = self.next_withdrawn() else { return done > 0 };
            self.withdraw(op, why);
        }
        true
    }

    fn next_withdrawn(&mut self) -> Option<(OpKey, Withdrawal)> {
        while let Some(transfer) = self.cancelled.front() {
            let backlog = self.backlogs.get_mut(*transfer);
            if let Some(op) = backlog.as_ref().and_then(|backlog| backlog.first_withdrawn()) {
                return Some((op, Withdrawal::Cancelled));
            }
            if let Some(backlog) = backlog {
                backlog.is_queued = false;
            }
            self.cancelled.pop_front();
        }
        let why = self.sweep?;
        if let Some(op) = self.backlogs.any_waiting().and_then(|backlog| backlog.waiting.first()) {
            return Some((op, why));
        }
        // A cancel that crossed the peer's goodbye needs no other answer.
        let op = self.cancelling.first().filter(|_| self.peer_posts_nothing())?;
        match self.operations.get(op)?.state {
            OpState::Cancelling(why) => Some((op, why)),
            _ => None,
        }
    }

    /// Whether the peer has said goodbye: it has answered every cancel that it saw before, and what
    /// has no counterpart will never have one.
    fn peer_posts_nothing(&self) -> bool {
        matches!(&self.stage, Stage::Closing(shutdown) if shutdown.has_heard_goodbye())
    }

    /// An operation without a counterpart ends: a receive once the peer agrees.
    fn withdraw(&mut self, op: OpKey, why: Withdrawal) {
        let is_agreed = self.peer_posts_nothing();
        let Some(operation) = self.operations.get_mut(op) else { return };
        if operation.state != OpState::Announced || is_agreed {
            return self.complete(op, Outcome::Withdrawn(why));
        }
        operation.state = OpState::Cancelling(why);
        let (transfer, links) = (operation.posted.transfer, operation.links);
        self.backlogs.end_to_wait((transfer, op), links, true, &mut self.operations);
        let links = self.cancelling.push(op);
        link_behind(links, op, &mut self.operations);
        if let Some(operation) = self.operations.get_mut(op) {
            operation.links = links;
        }
        self.actions.push_back(Action::Send(Frame::Cancel { recv: op.to_wire() }));
    }

    /// An operation that was as `before` has found its counterpart, or has ended: it leaves the
    /// list in which it stood between `links`.
    #[inline]
    pub(super) fn leave_list(
        &mut self,
        op: OpKey,
        transfer: TransferKey,
        before: OpState,
        links: Links,
    ) {
        match before {
            OpState::SendWaits | OpState::Unannounced | OpState::Announced => {
                self.backlogs.end_to_wait((transfer, op), links, false, &mut self.operations);
            }
            OpState::Cancelling(_) => {
                self.cancelling.remove(links, &mut self.operations);
                self.backlogs.withdrawn_ended(transfer);
            }
            OpState::Asked | OpState::Matched { .. } => {}
        }
    }
}
