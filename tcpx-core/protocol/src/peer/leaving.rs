//! How both ends leave: by a goodbye of either or both, in the one order that loses nothing.

use super::PeerProtocol;
use super::action::{Action, Ending};
use super::operation::Withdrawal;
use super::shutdown::{Shutdown, Step};
use super::stage::{Leaving, Stage};
use crate::frames::frame::Frame;

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
