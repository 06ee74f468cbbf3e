//! Channels that are lost while the conversation goes on over the others. Pure.
//!
//! One of several NICs may go down, and with it its channels. What was in their sockets is lost. So
//! where an end has several NICs, each end *keeps* its chunks until the other one says that they
//! are unpacked, and deals those of a lost channel once more:
//!
//! ```text
//! an end learns of it   by a comm that fails, chunks that do not arrive, or the other end
//!   close               both comms of the channel, and wait until no unpack of it is under way
//!   channel lost  ──►   with the number of its chunks that are unpacked; it is dealt no more
//! both have said so     the same chunks are left at both ends: scheduled here, expected there
//!   redeal        ──►   both ends move these behind what another channel has
//! ```
//!
//! The two frames have their place among the *chunks* frames, by which both ends plan the same. So
//! no range is named again, and none can be moved twice: a chunk is in one queue at each end. A
//! message ends when each of its bytes has moved, as ever, and with it what waits for that.

use super::PeerProtocol;
use super::action::{Action, Ending};
use super::conversation::Conversation;
use super::lifecycle::arrivals::Loss;
use super::lifecycle::stage::Stage;
use super::losses::Losses;
use super::schedule::staging::ChannelStaging;
use super::violation::Violation;
use crate::frames::frame::{ChunkCounts, Frame};
use crate::types::{Direction, MemoryType};

impl Conversation {
    /// Returns whether the conversation may go on without a channel.
    fn may_lose(&self, channel: u16) -> bool {
        self.life.keeps_open_chunks() && self.losses.whole.without(channel).count() > 0
    }

    /// Returns whether the peer has opened the channels, and this end's goodbye has overtaken them.
    fn has_overtaken_channels(&self) -> bool {
        let said =
            matches!(&self.life.stage, Stage::Closing(shutdown) if shutdown.has_sent_goodbye());
        self.life.agreement.keeps_chunks && said && !self.life.are_channels_open()
    }

    /// Begins to lose a channel, unless that has begun.
    fn begin_to_lose(&mut self, channel: u16, why: Option<Loss>) {
        if self.losses.whole.has(channel) {
            self.losses.whole = self.losses.whole.without(channel);
            self.actions.push_back(Action::CloseChannel { channel, why });
        }
    }

    /// Handles chunks of the peer that do not arrive.
    pub(super) fn chunks_lost(&mut self, loss: Loss) {
        if self.may_lose(loss.channel) {
            self.begin_to_lose(loss.channel, Some(loss));
        } else {
            self.end(Ending::ChunksLost(loss));
        }
    }

    /// Handles the word of the peer on the chunks that it has unpacked on each channel.
    #[inline(never)]
    pub(super) fn peer_unpacked(&mut self, chunks: ChunkCounts) -> Result<(), Violation> {
        let channels = usize::from(self.life.agreement.channels);
        if self.has_overtaken_channels() {
            return Ok(());
        }
        if !self.life.keeps_open_chunks() || chunks.len() != channels {
            return Err(self.life.unexpected(&Frame::Unpacked(chunks)));
        }
        self.losses.hear(&chunks)?;
        self.actions.push_back(Action::Unpacked(chunks));
        Ok(())
    }

    /// Handles the word of the peer that it has lost a channel.
    #[cold]
    pub(super) fn peer_loses(&mut self, channel: u16, unpacked: u64) -> Result<(), Violation> {
        if self.has_overtaken_channels() {
            return Ok(());
        }
        if !self.life.keeps_open_chunks() || !self.losses.receives.has(channel) {
            return Err(self.life.unexpected(&Frame::ChannelLost { channel, unpacked }));
        }
        self.losses.receives = self.losses.receives.without(channel);
        self.losses.received = self.losses.received.without(channel);
        let mut chunks = self.losses.unpacked.clone();
        chunks.resize(self.life.agreement.channels.into(), 0);
        chunks[usize::from(channel)] = unpacked;
        self.peer_unpacked(chunks)?;
        if self.losses.receives.count() == 0 || !self.may_lose(channel) {
            self.end(Ending::NoChannelLeft(channel));
            return Ok(());
        }
        self.begin_to_lose(channel, None);
        Ok(())
    }

    /// Handles the word of the peer that it deals the chunks of a lost channel to another one.
    #[cold]
    pub(super) fn peer_redeals(&mut self, lost: u16, onto: u16) -> Result<(), Violation> {
        let is_due = !self.losses.received.has(lost)
            && lost < self.life.agreement.channels
            && !self.schedule.channels.set().has(lost);
        if !self.life.keeps_open_chunks() || !is_due || !self.losses.receives.has(onto) {
            return Err(self.life.unexpected(&Frame::Redeal { lost, onto }));
        }
        // It is dealt anew once.
        self.losses.received = self.losses.received.with(lost);
        // What was scheduled before goes before.
        self.deferral.plan_all(&mut self.spare, &mut self.actions);
        self.actions.push_back(Action::Redeal { direction: Direction::Receive, lost, onto });
        Ok(())
    }

    /// Returns the channel that gets the chunks of a lost one: one with as little to send as may
    /// be, of those that can gather what was gathered there. An error: the driver is to be asked
    /// first, if there is an action, or is being asked.
    fn heir(&self, lost: u16) -> Result<Option<u16>, Option<Action>> {
        use ChannelStaging::{NotRequested, Ready, Refused, Requested};
        let staging = &self.schedule.staging;
        let kinds = [MemoryType::Host, MemoryType::Device];
        let gathered = kinds.iter().filter(|memory| staging.of(lost, **memory) == Ready);
        let mut asked = None;
        let is_whole = |channel: &u16| self.losses.whole.has(*channel);
        for channel in self.schedule.channels.by_load().filter(is_whole) {
            let lacks = |memory: &&MemoryType| staging.of(channel, **memory) != Ready;
            let Some(memory) = gathered.clone().find(lacks).copied() else {
                return Ok(Some(channel));
            };
            match staging.of(channel, memory) {
                Refused => {}
                NotRequested if asked.is_none() => {
                    asked = Some(Some(Action::PrepareStaging { channel, memory }));
                }
                NotRequested => {}
                Ready | Requested => asked = Some(None),
            }
        }
        asked.map_or(Ok(None), Err)
    }
}

impl PeerProtocol {
    /// Handles the failure of a comm of a channel. Returns false where the conversation cannot go
    /// on without the channel: the driver ends it.
    pub fn handle_channel_failed(&mut self, channel: u16) -> bool {
        if !self.cx.may_lose(channel) {
            return false;
        }
        self.cx.begin_to_lose(channel, None);
        true
    }

    /// Notes that both comms of a lost channel are closed, no unpack of it is under way, and this
    /// end has unpacked this many of its chunks.
    pub fn handle_channel_closed(&mut self, channel: u16, unpacked: u64) {
        let set = self.cx.schedule.channels.set();
        let is_over = matches!(self.cx.life.stage, Stage::Over);
        if is_over || self.cx.losses.whole.has(channel) || !set.has(channel) {
            return;
        }
        self.cx.schedule.channels.lose(channel);
        self.cx.losses.sent = self.cx.losses.sent.without(channel);
        if !self.has_heard_all() {
            self.cx.send(Frame::ChannelLost { channel, unpacked });
        }
    }

    /// Notes that this end has unpacked this many chunks on each channel.
    pub fn handle_unpacked(&mut self, chunks: ChunkCounts) {
        let reported = &self.cx.losses.reported;
        let is_new = *reported != chunks
            && (!reported.is_empty() || chunks.iter().any(|unpacked| *unpacked > 0));
        if is_new && self.cx.life.keeps_open_chunks() && !self.has_heard_all() {
            self.cx.losses.reported.clone_from(&chunks);
            self.cx.send(Frame::Unpacked(chunks));
        }
    }

    /// Returns whether both ends have said goodbye: no chunk is under way.
    fn has_heard_all(&self) -> bool {
        matches!(&self.cx.life.stage, Stage::Closing(shutdown)
            if shutdown.has_sent_goodbye() && shutdown.has_received_goodbye())
    }

    /// Deals the chunks of a lost channel anew, once both ends have closed it. Returns an action
    /// that must be answered first, if there is one.
    pub(super) fn redeal_next(&mut self) -> Option<Action> {
        let Losses { sent, receives, .. } = self.cx.losses;
        let channels = self.cx.life.agreement.channels;
        let lost = (0..channels).find(|it| !sent.has(*it) && !receives.has(*it))?;
        if !self.cx.life.can_send() {
            // After the goodbye nothing is left.
            return None;
        }
        match self.cx.heir(lost) {
            Ok(Some(onto)) => {
                self.cx.losses.sent = sent.with(lost);
                self.cx.schedule.channels.redealt(lost, onto);
                self.cx.send(Frame::Redeal { lost, onto });
                let direction = Direction::Send;
                self.cx.actions.push_back(Action::Redeal { direction, lost, onto });
                None
            }
            Ok(None) => {
                self.cx.end(Ending::NoChannelLeft(lost));
                None
            }
            Err(action) => {
                if let Some(Action::PrepareStaging { channel, memory }) = &action {
                    self.cx.schedule.staging.ask(*channel, *memory);
                }
                action
            }
        }
    }
}
