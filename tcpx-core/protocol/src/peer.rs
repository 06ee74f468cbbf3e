//! State machine of the conversation between two peers, from the moment when their control link has
//! proven itself. Pure: no socket, no comm, no plugin, no clock.
//!
//! [`PeerProtocol`] routes: each input goes to the types that own its subject.
//!
//! ```text
//! PeerProtocol     program, frames, planning, leaving, keeping
//!   Tags           tags: sends and receives that find each other by their tags
//!   OneSided       one_sided: reads and writes of memory that one end exports, and notifications
//!   Conversation   conversation: what both share
//!     Lifecycle    lifecycle: stage, channels, signs of life
//!     Schedule     schedule: which message is scheduled next, and which way it takes
//! ```
//!
//! A folder is a room: code outside does not change what its type owns.
//!
//! - `action`: actions that the protocol asks of its driver. `violation`: breaches by the peer.
//! - `program`: inputs of the program. `frames`: dispatch of the peer's frames. `planning`: plans,
//!   and counts of chunks that have moved. `scheduling`: sections of messages, at both ends.
//!   `leaving`: goodbyes of both ends. `keeping`: limits of what an end makes the other one keep,
//!   and `room`: their amount.
//! - `lifecycle`: `stage`: the stages, and the progress of the goodbye of both ends. `channels`:
//!   the channels to the peer, which may be made when something needs them; `setting_up`: their
//!   set-up by both ends. `keepalive`: requests
//!   for a sign of life, and frozen peers. `host_silence`: the time for which a host has
//!   acknowledged nothing. `arrivals`: chunks that the peer has sent and that do not arrive.
//! - `schedule`: `coalescer`: messages that share a chunk. `route`: the path of each message, by
//!   the numbers of `tuning`. `staging`: channels that have a buffer to gather in.
//! - `tags`: `posting`: posts, and room for a batch of them. `matcher`: tags of sends here and of
//!   receives there. `tag_queues`: first-in-first-out queues by tag. `announcing`: receives that
//!   are announced, and small messages on the control link; `eager_queues`: the books of an end on
//!   them. `expecting`: chunks that several receives share; `receives`: receives that may share
//!   one. `withdrawing`: the end of operations that find no counterpart; `backlogs`: those
//!   operations, by transfer.
//! - `losing`: channels that are lost while the conversation goes on over the others, and `losses`:
//!   their record.
//! - `message`: one message under way, of whatever kind.
//! - `credit`: credit for chunks, so that bounce buffers have room. `deferral`: sections that the
//!   peer has scheduled and this end has not planned. `round_work`: limit of the work that the peer
//!   may ask for in a round.

pub mod action;
mod conversation;
pub mod credit;
mod deferral;
pub mod flow_control;
mod frames;
mod keeping;
mod leaving;
pub mod lifecycle;
mod losing;
mod losses;
pub mod message;
pub mod one_sided;
mod planning;
mod program;
mod round_work;
pub mod schedule;
mod sections;
pub mod tags;
#[cfg(test)]
mod tests;
pub mod violation;

use std::time::{Duration, Instant};

use slotmap::SlotMap;

use self::action::Action;
use self::conversation::{Conversation, LinkRoom};
use self::deferral::Deferral;
use self::flow_control::FlowTerms;
use self::lifecycle::arrivals::{ArrivalSample, Judgement};
use self::lifecycle::stage::{PeerStage, Stage};
use self::lifecycle::{Actions, Lifecycle};
use self::losses::Losses;
use self::message::{Message, NewOperation};
use self::one_sided::{Counts, OneSided, OneSidedTerms};
use self::round_work::RoundWork;
use self::schedule::Schedule;
use self::schedule::tuning::Tuning;
use self::tags::Tags;
use crate::frames::frame::{ChunkCounts, Frame};
use crate::frames::hello::Agreement;
use crate::plans::plan::SpareLists;
use crate::stats::MessageStats;
use crate::types::{MemoryType, OpKey};

/// Operations that are withdrawn in one go: some hundred microseconds of work.
pub const SLICE: usize = 4096;
/// One end of a conversation with a peer.
///
/// It has four kinds of methods:
///
/// - *Inputs*, `handle_*`: a frame came, a program posts, cancels or disconnects, comms are ready,
///   a chunk is done, time has passed. An input decides everything at once and asks for nothing
///   back.
/// - *Output*, [`poll_action`](Self::poll_action): the next action. Poll it after inputs until it
///   returns `None`, and take the actions in that order. Messages that are matched between two
///   polls to the end may share a chunk. A batch of posts may be polled in between all the same:
///   nothing is planned before it [is whole](Self::handle_batch).
/// - [`next_timeout`](Self::next_timeout): when [`handle_timeout`](Self::handle_timeout) must be
///   called, if nothing else happens before.
/// - Questions that change nothing, for reports and errors.
///
/// After [`Action::End`] every input is ignored. A driver that ends it for a reason of its own (the
/// link or a comm has failed) drops it; in both cases [`take_operations`](Self::take_operations)
/// hands out what has not ended.
#[derive(Debug)]
pub struct PeerProtocol {
    cx: Conversation,
    tags: Tags,
    one_sided: OneSided,
    /// Whether more posts of a batch come.
    is_batch_open: bool,
}

/// Input to a new end.
#[derive(Debug)]
pub struct Opening {
    /// Agreement of both ends.
    pub agreement: Agreement,
    /// The numbers by which this end sends.
    pub tuning: Tuning,
    /// Limits of this end on reads, writes and notifications.
    pub one_sided: OneSidedTerms,
    /// Longest time for which a peer with a progress thread may be silent, the host of any peer may
    /// acknowledge nothing, and sent chunks may be in flight; `None`: no limit.
    pub peer_timeout: Option<Duration>,
    /// Whether a program has asked for the peer.
    pub is_named: bool,
    /// Time within which a peer that no program has asked for must come up, and within which
    /// channels that traffic asks for must open.
    pub connect_timeout: Duration,
    /// Limits on what this end keeps for its peer.
    pub kept: FlowTerms,
    /// Most operations that are withdrawn in one go, [`SLICE`] but for tests.
    pub slice: usize,
}

impl PeerProtocol {
    /// Makes the protocol of a link that has just proven itself.
    pub fn new(opening: Opening, now: Instant) -> Self {
        let Opening { agreement, tuning, one_sided, kept, .. } = opening;
        let Opening { peer_timeout, is_named, connect_timeout, slice, .. } = opening;
        let life = Lifecycle::new(agreement, peer_timeout, is_named, connect_timeout, now);
        let cx = Conversation {
            life,
            operations: SlotMap::with_key(),
            schedule: Schedule::new(tuning, agreement.channels),
            link: LinkRoom::new(agreement.eager),
            deferral: Deferral::new(one_sided.planned),
            losses: Losses::new(agreement.channels),
            spare: SpareLists::default(),
            work: RoundWork::default(),
            messages: MessageStats::default(),
            actions: Actions::new(),
        };
        let mut protocol = Self {
            cx,
            tags: Tags::new(&agreement.eager, &kept, slice),
            one_sided: OneSided::new(one_sided, &kept),
            is_batch_open: false,
        };
        protocol.let_send_at_first();
        if !agreement.on_demand {
            protocol.cx.life.connect(&mut protocol.cx.actions, now);
        }
        protocol
    }

    /// Notes that the last byte of the peer came at this time.
    pub fn handle_received(&mut self, received_at: Instant) {
        self.cx.life.received_at = received_at;
    }

    /// Returns how long nothing was heard of the peer, without the time in which nothing was
    /// awaited of it.
    pub fn silence(&self, now: Instant) -> Duration {
        self.cx.life.silence(now)
    }

    /// Returns whether it has ended.
    fn is_over(&self) -> bool {
        matches!(self.cx.life.stage, Stage::Over)
    }

    /// Handles the passing of time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if !self.is_over() {
            let is_awaiting =
                !self.cx.operations.is_empty() || !matches!(self.cx.life.stage, Stage::Up { .. });
            self.cx.life.handle_timeout(is_awaiting, now, &mut self.cx.actions);
        }
    }

    /// Handles doubt about the peer: its session begins this connection anew. The peer has lost the
    /// connection, unless another session has taken its id. This end asks the peer for a sign of
    /// life: if the connection is lost, the question ends it.
    pub fn handle_doubt(&mut self, now: Instant) {
        if !self.is_over() {
            self.cx.life.handle_doubt(now, &mut self.cx.actions);
        }
    }

    /// Handles a wait of the program for anything that the peer may send: a sign of life is due.
    pub fn handle_expectation(&mut self, now: Instant) {
        self.cx.life.keepalive.expect(now);
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) next has anything to do,
    /// unless the peer is heard. `None`: when it is heard, or a program asks for something.
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.is_over() { None } else { self.cx.life.next_timeout() }
    }

    /// Takes the answer to [`Action::CheckHost`]: how long the peer's host has acknowledged
    /// nothing, if something waits for an acknowledgement.
    pub fn handle_acknowledgement(&mut self, unacknowledged: Option<Duration>) {
        if !self.is_over() {
            self.cx.life.handle_acknowledgement(unacknowledged, &mut self.cx.actions);
        }
    }

    /// Takes the number of chunks that have arrived on each channel by now. Call it about once a
    /// second while the peer is up. `is_unpacking`: this end has chunks to unpack, and so perhaps
    /// no room for others.
    pub fn handle_arrivals(&mut self, samples: &[ArrivalSample], is_unpacking: bool, now: Instant) {
        if !matches!(self.cx.life.stage, Stage::Up { .. } | Stage::Closing(_)) {
            return;
        }
        match self.cx.life.arrivals.look(samples, is_unpacking, now) {
            Judgement::Nothing => {}
            Judgement::Ask => self.cx.send(Frame::Ping),
            Judgement::Lost(loss) => self.cx.chunks_lost(loss),
        }
    }

    /// Takes the number of chunks that this end has sent on each channel. The peer has asked for
    /// the numbers, or for a sign of life.
    pub fn handle_sent(&mut self, chunks: ChunkCounts) {
        self.cx.send(Frame::Pong(chunks));
    }

    /// Notes that this end has room for this many chunks on each channel.
    pub fn handle_credit(&mut self, chunks: ChunkCounts) {
        self.cx.life.handle_credit(chunks, &mut self.cx.actions);
    }

    /// Notes that this many bytes wait on the link for the kernel.
    #[inline]
    pub fn handle_unsent(&mut self, bytes: usize) {
        self.cx.link.handle_unsent(bytes);
    }

    /// Notes that the kernel takes about this many bytes of chunks on the link now. 0: none are to
    /// be sent for now.
    pub fn handle_chunk_room(&mut self, bytes: u64) {
        self.cx.link.chunk_bytes = bytes;
    }

    /// Notes whether the channel has a staging buffer now. Without one nothing is gathered on the
    /// channel, as long as it is open; other channels go on.
    pub fn handle_staging(&mut self, channel: u16, memory: MemoryType, is_there: bool) {
        self.cx.schedule.staging.note(channel, memory, is_there);
    }

    /// Returns the next action. `None`: nothing until the next input.
    #[inline]
    pub fn poll_action(&mut self) -> Option<Action> {
        loop {
            if let Some(action) = self.cx.actions.pop_front() {
                return Some(action);
            }
            if self.is_batch_open {
                return None;
            }
            if self.tags.send_next_ready(&mut self.cx)
                || self.one_sided.send_next(&mut self.cx)
                || self.let_send()
            {
                continue;
            }
            let redealt = if self.cx.losses.are_any() { self.redeal_next() } else { None };
            if let Some(staging) = redealt.or_else(|| self.plan_next()) {
                return Some(staging);
            }
            if self.cx.actions.is_empty() && !self.close_next() {
                return None;
            }
        }
    }

    /// Returns whether there is something to say, as soon as the link has room.
    pub fn has_output(&self) -> bool {
        self.one_sided.has_output(&self.cx) || self.tags.has_ready_to_send(&self.cx)
    }

    /// Hands out the actions that were not polled, for a driver that ends the conversation.
    pub fn take_actions(&mut self) -> impl Iterator<Item = Action> + use<> {
        std::mem::take(&mut self.cx.actions).into_iter()
    }

    /// Hands out what has not ended, for a driver that ends it.
    pub fn take_operations(&mut self) -> SlotMap<OpKey, Message> {
        std::mem::take(&mut self.cx.operations)
    }

    /// Returns the agreement of both ends.
    pub fn agreement(&self) -> Agreement {
        self.cx.life.agreement
    }

    /// Returns the stage of the peer.
    pub fn stage(&self) -> PeerStage {
        self.cx.life.stage.seen()
    }

    /// Returns the stage in words, for reports and errors.
    pub fn state(&self) -> &'static str {
        match self.cx.life.stage {
            Stage::Closing(_) if self.awaits_receives() => {
                "closing; it has not received all that was sent"
            }
            _ => self.cx.life.words(),
        }
    }

    /// Returns whether it is over, or one of the ends has said goodbye or is about to.
    pub fn is_leaving(&self) -> bool {
        self.cx.life.stage.is_leaving()
    }

    /// Returns the messages so far.
    pub fn messages(&self) -> MessageStats {
        MessageStats { one_sided: self.one_sided.stats(), ..self.cx.messages }
    }

    /// Returns the number of sends of ours that no receive was announced for.
    pub fn waiting_sends(&self) -> usize {
        self.tags.waiting_sends()
    }

    /// Returns the one of them that has waited longest.
    pub fn oldest_send(&self) -> Option<&NewOperation> {
        let oldest = self.cx.operations.get(self.tags.oldest_send()?)?;
        Some(&oldest.posted)
    }

    /// Returns the number of receives that the peer has announced and no send of ours matches.
    pub fn posted_receives(&self) -> usize {
        self.tags.posted_receives()
    }

    /// Returns the number of receives of ours that the peer takes no announcement of for now.
    pub fn queued_receives(&self) -> usize {
        self.tags.queued_receives()
    }

    /// Returns the number of messages of this end that went ahead and have no receive, by what this
    /// end knows.
    pub fn unreceived(&self) -> usize {
        self.tags.unreceived()
    }

    /// Returns the number of messages of the peer that wait here for their receives.
    pub fn kept(&self) -> usize {
        self.tags.kept()
    }

    /// Returns how many posted operations have not ended.
    pub fn operation_count(&self) -> usize {
        self.cx.operations.len()
    }

    /// Returns how much is kept for requests and lists of both ends.
    pub fn one_sided_counts(&self) -> Counts {
        self.one_sided.counts()
    }
}
