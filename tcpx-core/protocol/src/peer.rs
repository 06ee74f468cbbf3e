//! What two peers say to each other, from the moment when their control link has proven itself.
//! Pure: no socket, no comm, no plugin, no clock.
//!
//! - `action`: what the protocol asks of its driver.
//! - `announcing`: receives that are announced, and small messages on the control link. `room`: how
//!   much of these each end may make the other keep. `eager_books`: what an end knows of them.
//! - `arrivals`: chunks that the peer has sent and that do not arrive.
//! - `channels`, `setting_up`: the channels to the peer, which may be made when something needs
//!   them.
//! - `coalescer`: which small messages share a chunk.
//! - `credit`: how many chunks may be sent, so that bounce buffers have room for them.
//! - `schedule`: in which order messages are dealt, and how much of the long ones at once. `route`:
//!   which way each travels, by the numbers of `tuning`.
//! - `frames`: what each frame of the peer does.
//! - `keepalive`: when to ask for a sign of life, and when a peer is frozen. `host_silence`: how
//!   long a host has acknowledged nothing.
//! - `leaving`: how both ends leave, and how operations end that find no counterpart. `stage`:
//!   where in its life a peer is, and how far the goodbye of both ends is.
//! - `matcher`: tags of sends here and of receives there. `tag_queues`: first-in-first-out queues
//!   by tag.
//! - `one_sided`: reads and writes of memory that one end exports, and notifications.
//! - `operation`: one posted send or receive, and what of each transfer has not ended.
//! - `posting`, `expecting`: posts, room for a batch of them, and plans, as the sender makes them
//!   and as the receiver is told of them. `receives`: which receives may share a chunk, and what is
//!   planned later.
//! - `round_work`: how much of a round the peer may ask for.

pub mod action;
mod announcing;
pub mod arrivals;
mod channels;
pub mod coalescer;
pub mod credit;
mod eager_books;
mod expecting;
mod frames;
mod host_silence;
mod keepalive;
pub mod leaving;
mod matcher;
pub mod one_sided;
pub mod operation;
pub mod posting;
mod receives;
pub mod room;
mod round_work;
mod route;
mod schedule;
mod setting_up;
pub mod stage;
mod tag_queues;
#[cfg(test)]
mod tests;
pub mod tuning;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use slotmap::SlotMap;

use self::action::{Action, Completion, Ending, Outcome, Violation};
use self::arrivals::{ArrivalSample, Arrivals, Judgement};
use self::channels::{Channels, Setup, StagingChannels};
use self::eager_books::EagerBooks;
use self::keepalive::{Due, Keepalive};
use self::matcher::Matcher;
use self::one_sided::{Counts, OneSided, OneSidedTerms};
use self::operation::{Backlogs, NewOperation, OpList, OpState, PostedOperation, Withdrawal};
use self::receives::{Deferral, MessageEnd};
use self::room::{Announcing, KeptTerms};
use self::round_work::RoundWork;
use self::schedule::Schedule;
use self::stage::{PeerStage, Stage};
use self::tuning::Tuning;
use crate::frames::frame::{ChunkCounts, Frame};
use crate::frames::hello::Agreement;
use crate::plans::plan::Member;
use crate::stats::MessageStats;
use crate::types::{MemoryType, OpKey, TransferKey};

/// Operations that are withdrawn in one go: some hundred microseconds of work.
pub const SLICE: usize = 4096;
/// Room for so many members is kept to be used again: as much as a backlog of so many messages
/// takes anyway.
const SPARE_MEMBERS: usize = 1 << 15;

/// One end of a conversation with a peer.
///
/// It has four kinds of methods:
///
/// - *Inputs*, `handle_*`: a frame came, a program posts, cancels or disconnects, comms are ready,
///   a chunk is done, time has passed. An input decides everything at once and asks for nothing
///   back.
/// - *Output*, [`poll_action`](Self::poll_action): what is to be done now. Poll it after inputs
///   until it answers `None`, and do what it says in that order. Messages that are matched between
///   two polls to the end may share a chunk. A batch of posts may be polled in between all the
///   same: nothing is planned before it [is whole](Self::handle_batch).
/// - [`next_timeout`](Self::next_timeout): when [`handle_timeout`](Self::handle_timeout) must be
///   called, if nothing else happens before.
/// - Questions that change nothing, for reports and errors.
///
/// After [`Action::End`] every input is ignored. A driver that ends it for a reason of its own (the
/// link or a comm has failed) drops it; in both cases [`take_operations`](Self::take_operations)
/// hands out what has not ended.
#[derive(Debug)]
pub struct PeerProtocol {
    agreement: Agreement,
    /// Whether the program knows the peer: by connecting to it, or by an accept.
    is_named: bool,
    stage: Stage,
    channels: Channels,
    /// How long a set-up of channels may take that traffic has asked for.
    connect_timeout: Duration,
    operations: SlotMap<OpKey, PostedOperation>,
    /// Whether more posts of a batch come.
    is_batch_open: bool,
    backlogs: Backlogs,
    /// Transfers of which the program withdraws what waits, in the order of their turns.
    cancelled: VecDeque<TransferKey>,
    /// How everything that waits ends, once an end has left.
    sweep: Option<Withdrawal>,
    /// Receives whose withdrawal the peer was asked for.
    cancelling: OpList,
    /// Operations that are withdrawn in one go.
    slice: usize,
    /// Receives of ours that have no counterpart yet.
    waiting_receives: usize,
    matcher: Matcher,
    schedule: Schedule,
    deferral: Deferral,
    eager: EagerBooks,
    one_sided: OneSided,
    work: RoundWork,
    staging: StagingChannels,
    /// The receive that was announced last.
    last_announced: Option<MessageEnd>,
    announcing: Announcing,
    next_channel: u16,
    /// Chunks that the peer has room for on each channel, counted from the first one; empty: any
    /// number.
    credit: ChunkCounts,
    keepalive: Keepalive,
    arrivals: Arrivals,
    heard_at: Instant,
    messages: MessageStats,
    actions: VecDeque<Action>,
    /// Empty lists, to be used again, and the room that they have together.
    spare: Vec<Vec<Member>>,
    spare_members: usize,
}

/// How one end begins.
#[derive(Debug)]
pub struct Opening {
    /// What both ends agreed on.
    pub agreement: Agreement,
    /// The numbers by which this end sends.
    pub tuning: Tuning,
    /// What the end allows of reads, writes and notifications.
    pub one_sided: OneSidedTerms,
    /// How long a peer that has a progress thread may be silent, the host of any peer may
    /// acknowledge nothing, and chunks that were sent may be under way; `None`: for ever.
    pub peer_timeout: Option<Duration>,
    /// Whether somebody has asked for the peer.
    pub is_named: bool,
    /// The time within which a peer that nobody has asked for must come up, and channels that
    /// traffic asks for.
    pub connect_timeout: Duration,
    /// What this end keeps for its peer.
    pub kept: KeptTerms,
    /// Most operations that are withdrawn in one go, [`SLICE`] but for tests.
    pub slice: usize,
}

impl PeerProtocol {
    /// Makes the protocol of a link that has just proven itself.
    pub fn new(opening: Opening, now: Instant) -> Self {
        let Opening {
            agreement,
            tuning,
            one_sided,
            peer_timeout,
            is_named,
            connect_timeout,
            kept,
            slice,
        } = opening;
        let mut protocol = Self {
            agreement,
            is_named,
            stage: Stage::Up { peer_left: false },
            channels: Channels::None,
            connect_timeout,
            operations: SlotMap::with_key(),
            is_batch_open: false,
            backlogs: Backlogs::default(),
            cancelled: VecDeque::new(),
            sweep: None,
            cancelling: OpList::default(),
            slice,
            waiting_receives: 0,
            matcher: Matcher::default(),
            schedule: Schedule::new(tuning),
            deferral: Deferral::default(),
            eager: EagerBooks::new(agreement.eager, &kept),
            one_sided: OneSided::new(one_sided, &kept),
            work: RoundWork::default(),
            staging: StagingChannels::new(agreement.channels),
            last_announced: None,
            announcing: Announcing::new(&kept),
            next_channel: 0,
            credit: ChunkCounts::new(),
            keepalive: Keepalive::new(peer_timeout, agreement.peer_progresses, now),
            arrivals: Arrivals::new(peer_timeout, agreement.channels, now),
            heard_at: now,
            messages: MessageStats::default(),
            actions: VecDeque::new(),
            spare: Vec::new(),
            spare_members: 0,
        };
        protocol.let_send_at_first();
        if !agreement.on_demand {
            protocol.stage = Stage::Connecting { leaves: false };
            let time = (!is_named).then_some(connect_timeout);
            protocol.channels = Channels::Opening(Setup::new(now, time));
            protocol.actions.push_back(Action::OpenChannels);
        }
        protocol
    }

    /// The last byte of the peer came at this time.
    pub fn handle_heard(&mut self, heard_at: Instant) {
        self.heard_at = heard_at;
    }

    /// How long nothing was heard of the peer, without the time in which nothing was awaited of it.
    pub fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.heard_at).min(self.keepalive.silence(now))
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Stage::Over = self.stage {
            return;
        }
        if let Some(ending) = self.overdue_setup(now) {
            return self.end(ending);
        }
        match self.keepalive.look(self.heard_at, self.is_awaiting(), now) {
            Due::Nothing => {}
            Due::HostLook => self.actions.push_back(Action::AskHost),
            Due::Ping => {
                self.actions.extend([Action::AskHost, Action::Send(Frame::Ping)]);
            }
            // Accepting may keep the peer's progress thread for long; whoever connects has a
            // deadline of its own.
            Due::Frozen(_) if self.is_setting_up() => {}
            Due::Frozen(silence) => self.end(Ending::Silent(silence)),
        }
    }

    /// The session of the peer begins this connection anew, so it has lost it, unless somebody else
    /// has taken its id. The peer is asked: where the connection is lost, that ends it.
    pub fn handle_doubt(&mut self, now: Instant) {
        if !matches!(self.stage, Stage::Over) && self.keepalive.doubt(now) {
            self.actions.extend([Action::AskHost, Action::Send(Frame::Ping)]);
        }
    }

    /// Whether anything is to come of the peer.
    fn is_awaiting(&self) -> bool {
        !self.operations.is_empty() || !matches!(self.stage, Stage::Up { .. })
    }

    /// When [`handle_timeout`](Self::handle_timeout) next has anything to do, unless the peer is
    /// heard. `None`: when it is heard, or a program asks for something.
    pub fn next_timeout(&self) -> Option<Instant> {
        let look = self.keepalive.next_look(self.heard_at);
        match &self.stage {
            Stage::Over => None,
            _ => look.into_iter().chain(self.setup_ends_at()).min(),
        }
    }

    /// How long the peer's host has acknowledged nothing, if something waits for it.
    pub fn handle_acknowledgement(&mut self, unacknowledged: Option<Duration>) {
        if let Stage::Over = self.stage {
            return;
        }
        if let Some(silence) = self.keepalive.host_answer(unacknowledged) {
            self.end(Ending::HostGone(silence));
        }
    }

    /// What has arrived on each channel by now; to be told about once a second while the peer is
    /// up. `is_unpacking`: this end has chunks to unpack, and so perhaps no room for others.
    pub fn handle_arrivals(&mut self, samples: &[ArrivalSample], is_unpacking: bool, now: Instant) {
        if !matches!(self.stage, Stage::Up { .. } | Stage::Closing(_)) {
            return;
        }
        match self.arrivals.look(samples, is_unpacking, now) {
            Judgement::Nothing => {}
            Judgement::Ask => self.actions.push_back(Action::Send(Frame::AskSent)),
            Judgement::Lost(loss) => self.end(Ending::ChunksLost(loss)),
        }
    }

    /// How many chunks this end has sent on each channel.
    pub fn handle_sent(&mut self, chunks: ChunkCounts) {
        self.actions.push_back(Action::Send(Frame::Sent(chunks)));
    }

    /// Whether the channel has a staging buffer now. Without one nothing is gathered on it, as long
    /// as it is open; others go on.
    pub fn handle_staging(&mut self, channel: u16, memory: MemoryType, is_there: bool) {
        self.staging.note(channel, memory, is_there);
    }

    /// What is to be done next. `None`: nothing until the next input.
    #[inline]
    pub fn poll_action(&mut self) -> Option<Action> {
        loop {
            if let Some(action) = self.actions.pop_front() {
                return Some(action);
            }
            if self.is_batch_open {
                return None;
            }
            if self.announce_next() || self.say_next() || self.let_send() {
                continue;
            }
            if let Some(staging) = self.plan_next() {
                return Some(staging);
            }
            if self.actions.is_empty() && !self.close_next() {
                return None;
            }
        }
    }

    /// Hands out the actions that nobody has polled, for a driver that ends it.
    pub fn take_actions(&mut self) -> impl Iterator<Item = Action> + use<> {
        std::mem::take(&mut self.actions).into_iter()
    }

    fn broken(&mut self, violation: Violation) {
        self.end(Ending::Broken(violation));
    }

    fn end(&mut self, ending: Ending) {
        let during = std::mem::replace(&mut self.stage, Stage::Over).seen();
        self.actions.push_back(Action::End { ending, during });
    }

    /// Hands out what has not ended, for a driver that ends it.
    pub fn take_operations(&mut self) -> SlotMap<OpKey, PostedOperation> {
        std::mem::take(&mut self.operations)
    }

    /// What both ends use.
    pub fn agreement(&self) -> Agreement {
        self.agreement
    }

    /// Where in its life the peer is.
    pub fn stage(&self) -> PeerStage {
        self.stage.seen()
    }

    /// The same in words, for reports and errors.
    pub fn state(&self) -> &'static str {
        match self.stage {
            Stage::Closing(_) if self.is_awaiting_receives() => {
                "closing; it has not received all that was sent"
            }
            Stage::Connecting { .. } => self.setup_words().unwrap_or(self.stage.words()),
            _ => self.stage.words(),
        }
    }

    /// Whether it is over, or one of the ends has said goodbye or is about to.
    pub fn is_leaving(&self) -> bool {
        self.stage.is_leaving()
    }

    /// Messages so far.
    pub fn messages(&self) -> MessageStats {
        MessageStats { one_sided: self.one_sided.stats, ..self.messages }
    }

    /// Sends of ours that no receive was announced for.
    pub fn waiting_sends(&self) -> usize {
        self.matcher.waiting_sends()
    }

    /// The one of them that has waited longest.
    pub fn oldest_send(&self) -> Option<&NewOperation> {
        let oldest = self.operations.get(self.matcher.oldest_send()?)?;
        Some(&oldest.posted)
    }

    /// Receives that the peer has announced and no send of ours matches.
    pub fn announced(&self) -> usize {
        self.matcher.announced()
    }

    /// How many posted operations have not ended.
    pub fn operation_count(&self) -> usize {
        self.operations.len()
    }

    /// Returns how much is kept for requests and lists of both ends.
    pub fn one_sided_counts(&self) -> Counts {
        self.one_sided.counts()
    }

    /// An operation has ended.
    fn complete(&mut self, op: OpKey, outcome: Outcome) {
        let Some(operation) = self.operations.remove(op) else { return };
        self.leave_list(op, operation.posted.transfer, operation.state, operation.links);
        match operation.state {
            OpState::SendWaits => self.matcher.withdraw_send(operation.place),
            OpState::Announced | OpState::Cancelling(_) => {
                self.eager.waits_no_more(operation.place);
                self.waiting_receives -= 1;
            }
            OpState::Unannounced => {
                self.announcing.unannounced.remove(operation.place);
                self.waiting_receives -= 1;
            }
            OpState::Asked | OpState::Matched { .. } => {}
        }
        self.completed(&operation, outcome);
    }

    /// An operation, which is in no list any more, has ended.
    #[inline]
    fn completed(&mut self, operation: &PostedOperation, outcome: Outcome) {
        let NewOperation { transfer, direction, tag, span, .. } = operation.posted;
        let registration = span.registration;
        let completion = Completion { transfer, registration, direction, tag, outcome };
        self.actions.push_back(Action::Complete(completion));
    }
}
