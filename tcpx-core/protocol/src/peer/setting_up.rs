//! How both ends make the channels between them.
//!
//! Where messages may travel on the control link, a peer is up without channels. The first end that
//! has something to deal to them begins a set-up, and its handles tell the other end, which begins
//! its own. Both may begin at once: each end sends handles once and hears the other's. Elsewhere
//! both begin with the link, and are up when the channels are open.
//!
//! *Ready* says that every comm of an end is there. So whatever an end says after it has opened its
//! channels reaches an end whose channels are open. After either goodbye nothing is dealt any more:
//! a set-up that is under way is then forgotten, and what comes of it is no fault.

use std::time::Instant;

use super::PeerProtocol;
use super::action::{Action, Ending, Violation};
use super::channels::{Channels, Setup};
use super::stage::Stage;
use crate::frames::fields::ChannelHandle;
use crate::frames::frame::{ChunkCounts, Frame};

impl PeerProtocol {
    /// Whether chunks may be dealt now. If there are no channels, they are asked for.
    pub(super) fn has_channels(&mut self) -> bool {
        if let Channels::None = self.channels {
            self.begin_channels();
        }
        self.are_channels_open()
    }

    pub(super) fn are_channels_open(&self) -> bool {
        matches!(self.channels, Channels::Open)
    }

    fn begin_channels(&mut self) {
        self.channels = Channels::Opening(Setup::default());
        self.actions.push_back(Action::OpenChannels);
    }

    /// The set-up that is under way, and wanted.
    fn setup(&self) -> Option<&Setup> {
        let has_left = match &self.stage {
            Stage::Connecting { .. } => false,
            Stage::Up { peer_left } => *peer_left,
            Stage::Closing(shutdown) => shutdown.has_said_goodbye() || shutdown.has_heard_goodbye(),
            Stage::Over => true,
        };
        match &self.channels {
            Channels::Opening(setup) if !has_left => Some(setup),
            _ => None,
        }
    }

    fn setup_mut(&mut self) -> Option<&mut Setup> {
        self.setup()?;
        match &mut self.channels {
            Channels::Opening(setup) => Some(setup),
            Channels::None | Channels::Open => None,
        }
    }

    /// Whether channels are being made, and wanted.
    pub fn is_setting_up(&self) -> bool {
        self.setup().is_some()
    }

    /// How far channels are that are being made, in words.
    pub(super) fn setup_words(&self) -> Option<&'static str> {
        self.setup().map(Setup::words)
    }

    /// Whether the peer was told that every comm here is there.
    pub(super) fn has_said_ready(&self) -> bool {
        self.setup().is_some_and(|setup| setup.said_ready)
    }

    /// The set-up that traffic has asked for begins now.
    pub fn handle_channels_begun(&mut self, now: Instant) {
        let give_up_at = now.checked_add(self.connect_timeout);
        if let Some(setup) = self.setup_mut().filter(|setup| setup.began_at.is_none()) {
            (setup.began_at, setup.give_up_at) = (Some(now), give_up_at);
        }
    }

    /// Whoever waits for the peer from now on has a deadline of its own.
    pub(super) fn setup_is_awaited(&mut self) {
        if let Some(setup) = self.setup_mut() {
            setup.give_up_at = None;
        }
    }

    /// When the set-up that is under way has taken too long.
    pub(super) fn setup_ends_at(&self) -> Option<Instant> {
        self.setup()?.give_up_at
    }

    /// How the set-up that is under way ends, if it has taken too long.
    pub(super) fn overdue_setup(&self, now: Instant) -> Option<Ending> {
        let setup = self.setup().filter(|setup| setup.give_up_at.is_some_and(|end| now >= end))?;
        let waited = now.saturating_duration_since(setup.began_at?);
        Some(Ending::NeverUp { waited, state: setup.words() })
    }

    /// Every channel of this end listens. `handles` are the connect handles of the listen comms,
    /// one for each channel.
    pub fn handle_listening(&mut self, handles: Vec<ChannelHandle>) {
        if self.is_setting_up() {
            self.actions.push_back(Action::Send(Frame::Handles(handles)));
        }
    }

    /// The peer listens on every channel.
    #[cold]
    pub(super) fn peer_listens(&mut self, handles: Vec<ChannelHandle>) {
        // It began before it heard this end's goodbye.
        if matches!(&self.stage, Stage::Closing(shutdown) if shutdown.has_said_goodbye()) {
            return;
        }
        if let Channels::None = self.channels
            && handles.len() == usize::from(self.agreement.channels)
        {
            self.begin_channels();
        }
        let channels = usize::from(self.agreement.channels);
        match self.setup_mut() {
            Some(setup) if !setup.has_handles && handles.len() == channels => {
                setup.has_handles = true;
                self.actions.push_back(Action::Connect(handles));
            }
            _ => self.broken(Violation::Handles(handles.len())),
        }
    }

    /// Every receive comm of this end is accepted, and there is room for so many chunks on each;
    /// empty: for any number.
    pub fn handle_comms_accepted(&mut self, credit: ChunkCounts) {
        if let Some(setup) = self.setup_mut() {
            setup.accepted = Some(credit);
            self.say_ready();
        }
    }

    /// Every send comm of this end is connected.
    pub fn handle_comms_connected(&mut self) {
        if let Some(setup) = self.setup_mut() {
            setup.is_connected = true;
            self.say_ready();
        }
    }

    fn say_ready(&mut self) {
        let Some(setup) = self.setup_mut() else { return };
        if setup.said_ready || !setup.is_connected {
            return;
        }
        let Some(credit) = setup.accepted.clone() else { return };
        setup.said_ready = true;
        self.actions.push_back(Action::Send(Frame::Ready { credit }));
        self.open_when_ready();
    }

    /// Every comm of the peer is there, and there is room for so many chunks on each; empty: for
    /// any number.
    #[cold]
    pub(super) fn peer_ready(&mut self, credit: ChunkCounts) {
        if matches!(&self.stage, Stage::Closing(shutdown) if shutdown.has_said_goodbye()) {
            return;
        }
        if !credit.is_empty() && credit.len() != usize::from(self.agreement.channels) {
            return self.broken(Violation::CreditChannels(credit.len()));
        }
        match self.setup_mut() {
            Some(setup) if !setup.peer_ready => setup.peer_ready = true,
            _ => {
                let frame = format!("{:?}", Frame::Ready { credit });
                return self.broken(Violation::Unexpected { frame, state: self.state() });
            }
        }
        self.credit = credit;
        self.open_when_ready();
    }

    fn open_when_ready(&mut self) {
        if !self.setup().is_some_and(|setup| setup.said_ready && setup.peer_ready) {
            return;
        }
        self.channels = Channels::Open;
        self.actions.push_back(Action::Open);
        self.use_credit();
        if let Stage::Connecting { leaves } = self.stage {
            self.stage = Stage::Up { peer_left: false };
            if leaves {
                self.handle_disconnect();
            }
        }
    }
}
