//! Set-up of the channels by both ends: handles, then the comms, then *open*. Pure.

use std::time::Instant;

use super::channels::{Channels, Opened};
use super::stage::Stage;
use super::{Actions, Lifecycle};
use crate::frames::fields::ChannelHandle;
use crate::frames::frame::{ChunkCounts, Frame};
use crate::peer::action::Action;
use crate::peer::violation::Violation;

impl Lifecycle {
    /// Returns whether this end has told the peer that every comm here is there.
    pub(in super::super) fn has_sent_open(&self) -> bool {
        self.setup().is_some_and(|setup| setup.sent_open)
    }

    /// Begins the set-up that traffic has asked for.
    pub(in super::super) fn handle_channels_begun(&mut self, now: Instant) {
        let give_up_at = now.checked_add(self.connect_timeout);
        if let Some(setup) = self.setup_mut().filter(|setup| setup.began_at.is_none()) {
            (setup.began_at, setup.give_up_at) = (Some(now), give_up_at);
        }
    }

    /// Lifts the deadline of a set-up: a thread waits for the peer, with a deadline of its own.
    pub(in super::super) fn setup_is_awaited(&mut self) {
        if let Some(setup) = self.setup_mut() {
            setup.give_up_at = None;
        }
    }

    /// Notes that every channel of this end listens. `handles` are the connect handles of the
    /// listen comms, one for each channel.
    pub(in super::super) fn handle_listening(
        &mut self,
        handles: Vec<ChannelHandle>,
        actions: &mut Actions,
    ) {
        if self.is_setting_up() {
            actions.push_back(Action::Send(Frame::Handles(handles)));
        }
    }

    /// Notes that the peer listens on every channel.
    #[cold]
    pub(in super::super) fn peer_listens(
        &mut self,
        handles: Vec<ChannelHandle>,
        actions: &mut Actions,
    ) -> Result<(), Violation> {
        // The peer began it before it heard this end's goodbye.
        if matches!(&self.stage, Stage::Closing(shutdown) if shutdown.has_sent_goodbye()) {
            return Ok(());
        }
        let is_for_each = handles.len() == usize::from(self.agreement.channels);
        if is_for_each && matches!(self.channels, Channels::None) {
            self.begin_channels(actions);
        }
        match self.setup_mut() {
            Some(setup) if !setup.has_handles && is_for_each => {
                setup.has_handles = true;
                actions.push_back(Action::Connect(handles));
                Ok(())
            }
            _ => Err(Violation::Handles(handles.len())),
        }
    }

    /// Notes that every receive comm of this end is accepted, and that there is room for this many
    /// chunks on each; empty: for any number.
    pub(in super::super) fn handle_comms_accepted(
        &mut self,
        credit: ChunkCounts,
        actions: &mut Actions,
    ) -> Opened {
        if let Some(setup) = self.setup_mut() {
            setup.accepted = Some(credit);
            return self.send_open(actions);
        }
        Opened::No
    }

    /// Notes that every send comm of this end is connected.
    pub(in super::super) fn handle_comms_connected(&mut self, actions: &mut Actions) -> Opened {
        if let Some(setup) = self.setup_mut() {
            setup.is_connected = true;
            return self.send_open(actions);
        }
        Opened::No
    }

    fn send_open(&mut self, actions: &mut Actions) -> Opened {
        let Some(setup) = self.setup_mut() else { return Opened::No };
        if setup.sent_open || !setup.is_connected {
            return Opened::No;
        }
        let Some(credit) = setup.accepted.clone() else { return Opened::No };
        setup.sent_open = true;
        actions.push_back(Action::Send(Frame::Open { credit }));
        self.open_when_both_are(actions)
    }

    /// Notes that every comm of the peer is there, and that it has room for this many chunks on
    /// each; empty: for any number.
    #[cold]
    pub(in super::super) fn peer_opens(
        &mut self,
        credit: ChunkCounts,
        actions: &mut Actions,
    ) -> Result<Opened, Violation> {
        if matches!(&self.stage, Stage::Closing(shutdown) if shutdown.has_sent_goodbye()) {
            return Ok(Opened::No);
        }
        if !credit.is_empty() && credit.len() != usize::from(self.agreement.channels) {
            return Err(Violation::CreditChannels(credit.len()));
        }
        match self.setup_mut() {
            Some(setup) if !setup.peer_is_open => setup.peer_is_open = true,
            _ => return Err(self.unexpected(&Frame::Open { credit })),
        }
        self.credit = credit;
        Ok(self.open_when_both_are(actions))
    }

    fn open_when_both_are(&mut self, actions: &mut Actions) -> Opened {
        if !self.setup().is_some_and(|setup| setup.sent_open && setup.peer_is_open) {
            return Opened::No;
        }
        self.channels = Channels::Open;
        actions.push_back(Action::Open);
        self.use_credit(actions);
        let Stage::Connecting { leaves } = self.stage else { return Opened::No };
        self.stage = Stage::Up { peer_left: false };
        if leaves { Opened::Leaves } else { Opened::No }
    }
}
