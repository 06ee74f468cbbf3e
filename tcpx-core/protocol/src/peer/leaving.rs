//! Meeting and leaving of both ends: a goodbye of either or both, in the one order that loses
//! nothing, and the ways in which a program gives up its operations. Pure.

use std::time::Instant;

use slotmap::Key;

use super::PeerProtocol;
use super::action::{Action, Ending, Withdrawal};
use super::lifecycle::channels::Opened;
use super::lifecycle::stage::{Leaving, Shutdown, Stage, Step};
use super::tags::withdrawing::Unmatched;
use crate::frames::fields::ChannelHandle;
use crate::frames::frame::{ChunkCounts, Frame};
use crate::types::{RegistrationKey, TransferKey};

impl PeerProtocol {
    /// Returns whether channels are being made, and wanted.
    pub fn is_setting_up(&self) -> bool {
        self.cx.life.is_setting_up()
    }

    /// Begins the set-up that traffic has asked for.
    pub fn handle_channels_begun(&mut self, now: Instant) {
        self.cx.life.handle_channels_begun(now);
    }

    /// Notes that every channel of this end listens. `handles` are the connect handles of the
    /// listen comms, one for each channel.
    pub fn handle_listening(&mut self, handles: Vec<ChannelHandle>) {
        self.cx.life.handle_listening(handles, &mut self.cx.actions);
    }

    /// Notes that every receive comm of this end is accepted, and that there is room for this many
    /// chunks on each; empty: for any number.
    pub fn handle_comms_accepted(&mut self, credit: ChunkCounts) {
        let opened = self.cx.life.handle_comms_accepted(credit, &mut self.cx.actions);
        self.leave_if_due(opened);
    }

    /// Notes that every send comm of this end is connected.
    pub fn handle_comms_connected(&mut self) {
        let opened = self.cx.life.handle_comms_connected(&mut self.cx.actions);
        self.leave_if_due(opened);
    }

    /// Acts on a peer that has come up while this end leaves.
    pub(super) fn leave_if_due(&mut self, opened: Opened) {
        if opened == Opened::Leaves {
            self.handle_disconnect();
        }
    }

    /// Notes that the program has asked for the peer: an accept names it.
    pub fn handle_named(&mut self) {
        self.cx.life.is_named = true;
        match &self.cx.life.stage {
            Stage::Connecting { .. } => self.cx.life.setup_is_awaited(),
            Stage::Up { peer_left: true } => self.peer_leaves(),
            Stage::Up { .. } | Stage::Closing(_) | Stage::Over => {}
        }
    }

    /// Leaves the peer. Operations without a counterpart are withdrawn, those with one are finished
    /// before the goodbye, and messages that went ahead are received.
    pub fn handle_disconnect(&mut self) -> Leaving {
        match &mut self.cx.life.stage {
            Stage::Connecting { .. } => {
                // Told that everything is there, the peer may be up.
                let leaves = self.cx.life.has_sent_open();
                self.cx.life.stage = Stage::Connecting { leaves };
                return if leaves { Leaving::Begun } else { Leaving::NobodyThere };
            }
            Stage::Closing(_) | Stage::Over => return Leaving::Begun,
            Stage::Up { peer_left } => {
                let peer_left = *peer_left;
                self.cx.life.stage = Stage::Closing(Shutdown::new(peer_left));
                self.tags.drop_unexpected(&mut self.cx, !peer_left);
                self.sweep(if peer_left { Withdrawal::PeerLeft } else { Withdrawal::Left });
            }
        }
        Leaving::Begun
    }

    /// Handles the goodbye of the peer. A program that knows of the peer answers; a peer that no
    /// accept has asked for waits for an accept.
    pub(super) fn peer_leaves(&mut self) {
        match &mut self.cx.life.stage {
            Stage::Up { peer_left } if !self.cx.life.is_named => *peer_left = true,
            Stage::Up { .. } => {
                self.cx.life.stage = Stage::Closing(Shutdown::new(true));
                self.tags.drop_unexpected(&mut self.cx, false);
                self.sweep(Withdrawal::PeerLeft);
            }
            Stage::Closing(shutdown) => {
                shutdown.got_goodbye();
                self.sweep(Withdrawal::PeerLeft);
            }
            Stage::Connecting { .. } | Stage::Over => {}
        }
    }

    /// Notes that the send comms of this end are closed.
    pub fn handle_sends_closed(&mut self) {
        if let Stage::Closing(shutdown) = &mut self.cx.life.stage {
            shutdown.sends_closed();
            self.cx.actions.push_back(Action::Send(Frame::Closed));
        }
    }

    /// Handles the end of the link. Returns whether the peer may have left in order; then the
    /// parting goes on. A peer that has said and heard everything closes the link. If a ping of
    /// this end comes after that, its system resets the link, and its last word can be lost.
    pub fn handle_link_closed(&mut self) -> bool {
        match &mut self.cx.life.stage {
            Stage::Closing(shutdown) => shutdown.link_closed(),
            Stage::Connecting { .. } | Stage::Up { .. } | Stage::Over => false,
        }
    }

    /// Returns whether everything is said and heard. All that is left is to close this end's
    /// receive comms; the peer may be gone, and its link with it.
    pub fn is_parted(&self) -> bool {
        matches!(&self.cx.life.stage, Stage::Closing(shutdown) if shutdown.is_parted())
    }

    /// Notes that the receive comms of this end are closed.
    pub fn handle_receives_closed(&mut self) {
        if let Stage::Closing(_) = self.cx.life.stage {
            self.cx.end(Ending::Goodbye);
        }
    }

    /// Returns whether messages that went ahead wait for their receives. A peer that leaves, too,
    /// throws them away and says so, by its goodbye at the latest.
    pub(super) fn awaits_receives(&self) -> bool {
        self.tags.unreceived() > 0
            && matches!(&self.cx.life.stage, Stage::Closing(shutdown) if !shutdown.has_received_goodbye())
    }

    /// Returns whether notifications wait for room at a peer that does not leave.
    fn has_notes_to_send(&self) -> bool {
        self.one_sided.queued_notes() > 0
            && matches!(&self.cx.life.stage, Stage::Closing(shutdown) if !shutdown.has_received_goodbye())
    }

    /// Does what the goodbye of both ends has due. Returns false when that is nothing.
    pub(super) fn close_next(&mut self) -> bool {
        let is_drained =
            self.cx.operations.is_empty() && !self.awaits_receives() && !self.has_notes_to_send();
        let Stage::Closing(shutdown) = &mut self.cx.life.stage else { return false };
        let Some(step) = shutdown.step(is_drained) else { return false };
        self.cx.actions.push_back(match step {
            Step::SayGoodbye => Action::Send(Frame::Goodbye),
            Step::CloseSends => Action::CloseSends,
            Step::CloseReceives => Action::CloseReceives,
        });
        true
    }

    /// Ends for this reason everything that waits from now on, unless the program has withdrawn it
    /// before.
    fn sweep(&mut self, why: Withdrawal) {
        self.one_sided.sweep_requests(&mut self.cx, why);
        self.tags.sweep(&mut self.cx, why);
    }
}

impl PeerProtocol {
    /// Withdraws, for the program, the operations of a transfer that have no counterpart by now. A
    /// receive ends once the peer agrees. Operations that are posted later are not affected.
    pub fn handle_cancel(&mut self, transfer: TransferKey) {
        if !self.one_sided.handle_cancel(&mut self.cx, transfer) {
            self.tags.handle_cancel(&mut self.cx, transfer);
        }
    }

    /// Gives no more time to a transfer. Acts as [`handle_cancel`](Self::handle_cancel). In
    /// addition, a write of a list whose memory this end needs no more does not wait for its
    /// answer.
    pub fn handle_overdue(&mut self, transfer: TransferKey) {
        self.handle_cancel(transfer);
        self.one_sided.abandon_request(&mut self.cx, transfer);
    }

    /// Begins a round: withdraws a slice of the operations that are to be withdrawn. Returns
    /// whether there was any.
    pub fn handle_round(&mut self) -> bool {
        self.cx.work.begin_round();
        self.tags.withdraw_more(&mut self.cx)
    }

    /// Returns whether rounds that follow have more to withdraw.
    pub fn is_withdrawing(&self) -> bool {
        self.tags.is_withdrawing()
    }

    /// Returns the operations of a transfer that have no counterpart.
    pub fn unmatched(&self, transfer: TransferKey) -> Unmatched {
        self.tags.unmatched(&self.cx, transfer)
    }

    /// Returns whether an operation, of the program or of the peer, uses a registration.
    pub fn uses(&self, registration: RegistrationKey) -> bool {
        self.cx.operations.values().any(|message| message.owners().contains(&registration))
    }

    /// Returns the transfers of the program with operations on a registration, each once.
    pub fn transfers_on(&self, registration: RegistrationKey) -> Vec<TransferKey> {
        let on =
            self.cx.operations.values().filter(|message| message.owners().contains(&registration));
        let mut transfers: Vec<_> = on.map(|message| message.posted.transfer).collect();
        // Operations of the peer have none.
        transfers.retain(|transfer| !transfer.is_null());
        transfers.sort_unstable();
        transfers.dedup();
        transfers
    }

    /// Returns whether the peer has asked for as much as is done for it in a round.
    pub fn is_round_spent(&self) -> bool {
        self.cx.work.is_spent()
    }

    /// Returns whether something waits for the next round for that reason only.
    pub fn awaits_round(&self) -> bool {
        self.cx.work.holds_sections
    }
}
