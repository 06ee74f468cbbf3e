//! What wakes a connection, and when it wants to be driven.

use std::sync::Arc;

use tcpx_protocol::peer::stage::PeerStage;

use super::connection::Connection;
use crate::plugin::comm::NextCall;
use crate::reactor::attention::Attention;
use crate::reactor::poller::{IoEvent, Poller, Target};

impl Connection {
    /// Has the system say when something happens on the link.
    pub(super) fn watch(&mut self, poller: &Arc<Poller>) {
        self.link.watch(poller, Target::Link(self.key));
    }

    /// Something has happened on one of its descriptors.
    pub(crate) fn wake(&mut self, event: IoEvent) {
        match event.target {
            Target::Link(_) => self.link.wake(event.is_hung_up),
            Target::Send(_, channel) => {
                if let Some(lane) = self.send_lanes.get_mut(usize::from(channel)) {
                    lane.wake();
                }
            }
            Target::Receive(_, channel) => {
                if let Some(lane) = self.recv_lanes.get_mut(usize::from(channel)) {
                    lane.wake();
                }
            }
            Target::Listener => {}
        }
    }

    /// When it is to be driven next, apart from when something happens.
    pub(super) fn attention(&self) -> Attention {
        if self.protocol.is_parted() {
            // Its last comms are closing. Its link may have ended, and is not looked at any more.
            return Attention { awaits_worker: true, ..Attention::default() };
        }
        let awaits_worker = self.protocol.is_setting_up() || self.closing.is_some();
        let mut wants = Attention {
            again: self.link.has_more()
                || self.protocol.is_withdrawing()
                || self.protocol.awaits_round()
                || self.says_more(),
            polls: self.link.must_be_polled(),
            awaits_worker,
            timeout: self.timeout,
            ..Attention::default()
        };
        if let Some(deferred) = &self.deferred {
            // The protocol is not told of the time any more.
            wants.timeout = Some(deferred.ends_at());
            return wants;
        }
        for lane in &self.send_lanes {
            let next = lane.next_call();
            wants.again |= next == NextCall::Now;
            wants.polls |= next == NextCall::Soon;
            // Its memory may be on its way to the comm.
            wants.awaits_worker |= next == NextCall::Soon || lane.awaits_staging();
            wants.holds_slots |= lane.is_gathering();
            wants.sending |= !lane.is_idle();
        }
        for lane in &self.recv_lanes {
            let next = lane.next_call();
            wants.again |= next == NextCall::Now;
            wants.polls |= next == NextCall::Soon;
            wants.awaits_worker |= next == NextCall::Soon;
            wants.holds_slots |= lane.holds_slots();
            wants.receiving |= lane.awaits_bytes();
        }
        wants
    }

    /// Whether the protocol has more to say, and the link takes it.
    fn says_more(&self) -> bool {
        self.link.unsent_bytes() == 0 && self.protocol.has_more_to_say()
    }

    /// Whether it is up with nothing under way and nothing posted.
    pub(super) fn is_idle(&self) -> bool {
        self.is_up_at_rest() && self.protocol.operation_count() == 0
    }

    /// The same where receives may be posted that have no send yet, and no comm has anything to
    /// say.
    pub(super) fn rests(&self) -> bool {
        let is_silent = self.send_lanes.iter().all(|it| it.next_call() == NextCall::WhenTold)
            && self.recv_lanes.iter().all(|it| it.next_call() == NextCall::WhenTold);
        is_silent && self.is_up_at_rest() && self.protocol.waiting_sends() == 0
    }

    fn is_up_at_rest(&self) -> bool {
        let is_up = self.protocol.stage() == PeerStage::Up && self.deferred.is_none();
        let is_moving = self.send_lanes.iter().any(|lane| !lane.is_idle())
            || self.recv_lanes.iter().any(|lane| lane.awaits_bytes() || lane.holds_slots());
        is_up && !is_moving
    }
}
