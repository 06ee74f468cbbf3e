//! Life of a conversation: its stage between the proven link and the end, the set-up of the
//! channels by both ends, and signs of life. Pure.
//!
//! Where messages may travel on the control link, a peer is up without channels. The first end with
//! something for them begins a set-up, and its handles start the other's. Both may begin at once:
//! each end sends handles once. Elsewhere both begin with the link, and are up with the channels.
//!
//! *Open* says that every comm of an end is there. So it reaches an end before anything on the
//! channels does. After either goodbye nothing is scheduled: a set-up under way is forgotten.

pub mod arrivals;
pub(super) mod channels;
pub(super) mod host_silence;
pub(super) mod keepalive;
mod setting_up;
pub mod stage;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use self::arrivals::Arrivals;
use self::channels::{Channels, Setup};
use self::keepalive::{Due, Keepalive};
use self::stage::Stage;
use super::action::{Action, Ending};
use super::schedule::tuning::shortest_chunk;
use super::violation::Violation;
use crate::frames::eager_terms::CreditKind;
use crate::frames::frame::{ChunkCounts, Frame};
use crate::frames::hello::Agreement;
use crate::plans::channel_set::ChannelSet;

/// Queue of actions to take, in order.
pub(super) type Actions = VecDeque<Action>;

/// Stage and channels of a conversation, and its signs of life.
#[derive(Debug)]
pub(super) struct Lifecycle {
    pub(super) agreement: Agreement,
    pub(super) stage: Stage,
    /// Whether the program knows the peer: by connecting to it, or by an accept.
    pub(super) is_named: bool,
    channels: Channels,
    /// Time that a set-up of channels may take that traffic has asked for.
    connect_timeout: Duration,
    /// Chunks that the peer has room for on each channel so far; empty: any number.
    credit: ChunkCounts,
    pub(super) keepalive: Keepalive,
    pub(super) arrivals: Arrivals,
    pub(super) received_at: Instant,
}

impl Lifecycle {
    /// Returns the life of a link that has just proven itself.
    pub(super) fn new(
        agreement: Agreement,
        peer_timeout: Option<Duration>,
        is_named: bool,
        connect_timeout: Duration,
        now: Instant,
    ) -> Self {
        Self {
            agreement,
            stage: Stage::Up { peer_left: false },
            is_named,
            channels: Channels::None,
            connect_timeout,
            credit: ChunkCounts::new(),
            keepalive: Keepalive::new(peer_timeout, agreement.peer_progresses, now),
            arrivals: Arrivals::new(peer_timeout, agreement.channels, now),
            received_at: now,
        }
    }

    /// Begins to make the channels before the peer is up.
    pub(super) fn connect(&mut self, actions: &mut Actions, now: Instant) {
        self.stage = Stage::Connecting { leaves: false };
        let time = (!self.is_named).then_some(self.connect_timeout);
        self.channels = Channels::Opening(Setup::new(now, time));
        actions.push_back(Action::OpenChannels);
    }

    /// Ends the conversation.
    pub(super) fn end(&mut self, ending: Ending, actions: &mut Actions) {
        let during = std::mem::replace(&mut self.stage, Stage::Over).seen();
        actions.push_back(Action::End { ending, during });
    }

    /// Returns the violation of a peer that sends a frame which has no place here.
    #[cold]
    pub(super) fn unexpected(&self, frame: &Frame) -> Violation {
        Violation::Unexpected { frame: format!("{frame:?}"), state: self.words() }
    }

    /// Returns the stage in words, for reports and errors.
    pub(super) fn words(&self) -> &'static str {
        let setup = match &self.stage {
            Stage::Connecting { .. } => self.setup().map(Setup::words),
            _ => None,
        };
        setup.unwrap_or(self.stage.words())
    }

    /// Returns whether this end serves requests of the peer: after its goodbye it serves none, and
    /// the goodbye is the answer. `Some(true)`: it leaves, and answers them with a refusal.
    pub(super) fn is_leaving_target(&self) -> Option<bool> {
        match &self.stage {
            Stage::Closing(shutdown) if shutdown.has_sent_goodbye() => None,
            Stage::Closing(_) => Some(true),
            _ => Some(false),
        }
    }

    /// Returns whether the peer listens to what is said of messages.
    pub(super) fn can_send(&self) -> bool {
        match &self.stage {
            Stage::Up { .. } => true,
            Stage::Closing(shutdown) => !shutdown.has_sent_goodbye(),
            Stage::Connecting { .. } | Stage::Over => false,
        }
    }

    /// Returns whether the peer has said goodbye: it has answered every cancel that it saw before,
    /// and what has no counterpart will never have one.
    pub(super) fn peer_posts_nothing(&self) -> bool {
        matches!(&self.stage, Stage::Closing(shutdown) if shutdown.has_received_goodbye())
    }

    /// Returns how long nothing was heard of the peer, without the time in which nothing was
    /// awaited of it.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.received_at).min(self.keepalive.silence(now))
    }

    /// Handles the passing of time. `is_awaiting`: something is to come of the peer.
    pub(super) fn handle_timeout(
        &mut self,
        is_awaiting: bool,
        now: Instant,
        actions: &mut Actions,
    ) {
        if let Some(ending) = self.overdue_setup(now) {
            return self.end(ending, actions);
        }
        match self.keepalive.look(self.received_at, is_awaiting, now) {
            Due::Nothing => {}
            Due::HostLook => actions.push_back(Action::CheckHost),
            Due::Ping => actions.extend([Action::CheckHost, Action::Send(Frame::Ping)]),
            // Accepting may keep the peer's progress thread for long; an end that connects has a
            // deadline of its own.
            Due::Frozen(_) if self.is_setting_up() => {}
            Due::Frozen(silence) => self.end(Ending::Silent(silence), actions),
        }
    }

    /// Asks the peer for a sign of life, unless this end did so a moment ago.
    pub(super) fn handle_doubt(&mut self, now: Instant, actions: &mut Actions) {
        if self.keepalive.doubt(now) {
            actions.extend([Action::CheckHost, Action::Send(Frame::Ping)]);
        }
    }

    /// Returns the time that next matters, unless the peer is heard.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let look = self.keepalive.next_look(self.received_at);
        let setup_ends_at = self.setup().and_then(|setup| setup.give_up_at);
        look.into_iter().chain(setup_ends_at).min()
    }

    /// Takes the time for which the peer's host has left something unacknowledged.
    pub(super) fn handle_acknowledgement(
        &mut self,
        unacknowledged: Option<Duration>,
        actions: &mut Actions,
    ) {
        if let Some(silence) = self.keepalive.host_answer(unacknowledged) {
            self.end(Ending::HostGone(silence), actions);
        }
    }

    /// Returns whether chunks may be scheduled now. If there are no channels, they are asked for.
    pub(super) fn has_channels(&mut self, actions: &mut Actions) -> bool {
        if let Channels::None = self.channels {
            self.begin_channels(actions);
        }
        self.are_channels_open()
    }

    pub(super) fn are_channels_open(&self) -> bool {
        matches!(self.channels, Channels::Open)
    }

    /// Returns whether chunks are kept, and the channels for them are there.
    pub(super) fn keeps_open_chunks(&self) -> bool {
        let is_there = matches!(self.stage, Stage::Up { .. } | Stage::Closing(_));
        self.agreement.keeps_chunks && is_there && self.are_channels_open()
    }

    fn begin_channels(&mut self, actions: &mut Actions) {
        self.channels = Channels::Opening(Setup::default());
        actions.push_back(Action::OpenChannels);
    }

    /// Returns the set-up that is under way, and wanted.
    fn setup(&self) -> Option<&Setup> {
        let has_left = match &self.stage {
            Stage::Connecting { .. } => false,
            Stage::Up { peer_left } => *peer_left,
            Stage::Closing(shutdown) => {
                shutdown.has_sent_goodbye() || shutdown.has_received_goodbye()
            }
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

    /// Returns whether channels are being made, and wanted.
    pub(super) fn is_setting_up(&self) -> bool {
        self.setup().is_some()
    }

    /// Returns the ending of the set-up that is under way, if it has taken too long.
    fn overdue_setup(&self, now: Instant) -> Option<Ending> {
        let setup = self.setup().filter(|setup| setup.give_up_at.is_some_and(|end| now >= end))?;
        let waited = now.saturating_duration_since(setup.began_at?);
        Some(Ending::NeverUp { waited, state: setup.words() })
    }

    /// Returns whether chunks may have this many bytes.
    pub(super) fn check_cut(&self, chunk_bytes: u32) -> Result<(), Violation> {
        let most = self.agreement.chunk_bytes;
        let may_have = (shortest_chunk(most)..=most).contains(&chunk_bytes);
        may_have.then_some(()).ok_or(Violation::ChunkBytes { chunk_bytes, most })
    }

    /// Returns whether this many bytes may come, from this channel on, which is one of these. No
    /// bytes need no channel.
    pub(super) fn check_channel(
        &self,
        channel: u16,
        channels: ChannelSet,
        bytes: u64,
    ) -> Result<(), Violation> {
        let is_open = bytes == 0 || self.are_channels_open();
        let may_come = channels.has(channel) && is_open;
        may_come.then_some(()).ok_or(Violation::MatchChannel(channel))
    }

    /// Notes that this end has room for this many chunks on each channel.
    pub(super) fn handle_credit(&self, chunks: ChunkCounts, actions: &mut Actions) {
        if self.can_send() {
            let credit = Frame::Credit { what: CreditKind::Chunks, counts: chunks };
            actions.push_back(Action::Send(credit));
        }
    }

    /// Notes that the peer has room for this many chunks.
    #[inline(never)]
    pub(super) fn peer_credits(
        &mut self,
        chunks: ChunkCounts,
        actions: &mut Actions,
    ) -> Result<(), Violation> {
        if chunks.is_empty() || chunks.len() != self.credit.len() {
            return Err(Violation::CreditChannels(chunks.len()));
        }
        let mut channels = (0..).zip(self.credit.iter().zip(&chunks));
        if let Some((channel, (before, now))) = channels.find(|(_, (before, now))| now < before) {
            let (before, now) = (*before, *now);
            return Err(Violation::CreditTakenBack { channel, before, now });
        }
        self.credit = chunks;
        self.use_credit(actions);
        Ok(())
    }

    /// Has the send lanes know what the peer has room for, if it counts.
    fn use_credit(&self, actions: &mut Actions) {
        actions.extend((!self.credit.is_empty()).then(|| Action::Credit(self.credit.clone())));
    }
}
