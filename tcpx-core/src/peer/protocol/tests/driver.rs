//! One end: the protocol, and a driver that does what it says and checks that it may.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use slotmap::{KeyData, SlotMap};
use smallvec::SmallVec;
use tcpx_sys::{HANDLE_BYTES, NetHandle};

use super::bounce::Bounce;
use super::lists;
use super::messages::{Message, Messages};
use crate::control::eager_terms::EagerTerms;
use crate::control::frame::{ChunkCounts, Frame};
use crate::control::hello::Agreement;
use crate::peer::protocol::action::{Action, Completion, Ending, Outcome};
use crate::peer::protocol::arrivals::ArrivalSample;
use crate::peer::protocol::coalescing_limits::{CoalescingLimits, Copier};
use crate::peer::protocol::cutting::Cutting;
use crate::peer::protocol::dealing::DealingLimits;
use crate::peer::protocol::operation::{NewOperation, Operation};
use crate::peer::protocol::stage::{Leaving, PeerStage};
use crate::peer::protocol::{Opening, PeerProtocol};
use crate::transfer::plan::{ChunkPlan, Member, Members};
use crate::transfer::stripe_queue::{Finished, StripeQueue};
use crate::types::{Direction, MemoryType, RegistrationKey, Span, TransferKey};

pub(super) const CHUNK_BYTES: u32 = 64;
pub(super) const PEER_TIMEOUT: Duration = Duration::from_secs(10);

/// What is wrong, in words.
pub(super) type Check = Result<(), String>;

macro_rules! ensure {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err(format!($($words)+));
        }
    };
}
pub(super) use ensure;

/// A message as it was posted, and how it ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub(super) direction: Direction,
    pub(super) tag: i32,
    pub(super) bytes: u64,
    pub(super) was_cancelled: bool,
    /// It was sent before its sender knew of a receive.
    pub(super) went_ahead: bool,
    pub(super) end: Option<End>,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The protocol said so.
    Completed(Outcome),
    /// Its conversation ended before it.
    WithThePeer,
}

/// Bytes of one message, which a chunk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The message, by the key of its transfer.
    pub(super) of: TransferKey,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// A chunk on its way.
pub(super) type Chunk = Vec<Piece>;

/// Chunks are as long as they may be.
pub(super) const WHOLE: Cutting =
    Cutting { chunk_bytes: CHUNK_BYTES, shortest: CHUNK_BYTES, longest: CHUNK_BYTES };

/// Messages of any size are dealt at once.
pub(super) const DEAL_AT_ONCE: DealingLimits = DealingLimits {
    short_bytes: u64::MAX,
    section_bytes: u64::MAX,
    ahead_bytes: u64::MAX,
    plan_bytes: 0,
};

/// How a conversation ended at this end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// The protocol said so.
    Said(Ending),
    /// The driver ended it: its link or a comm failed, or nobody was there to say goodbye to.
    ByDriver,
}

/// What one end is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) channels: u16,
    /// Channels that get a staging buffer, a bit for each.
    pub(super) staging: u16,
    /// Whether it answers only in a later round which they are.
    pub(super) staging_is_late: bool,
    pub(super) copier: Option<Copier>,
    pub(super) cutting: Cutting,
    pub(super) dealing: DealingLimits,
    pub(super) has_progress_thread: bool,
    pub(super) is_named: bool,
    /// Operations that are withdrawn in one go.
    pub(super) slice: usize,
    /// Chunks that its bounce buffer has room for; `None`: it does not count.
    pub(super) bounce_pages: Option<u64>,
    /// Whether others have more of those than one each.
    pub(super) is_crowded: bool,
    /// Which small messages travel on the link, as this end sees it.
    pub(super) eager: EagerTerms,
    /// The kernel takes nothing more that is written to the link.
    pub(super) link_is_full: bool,
}

impl Setting {
    fn has_staging(&self, channel: u16) -> bool {
        self.staging >> channel & 1 == 1
    }
}

/// One end of one conversation.
#[derive(Debug)]
pub(super) struct Driver {
    setting: Setting,
    protocol: Option<PeerProtocol>,
    pub(super) over: Option<Over>,
    /// Frames on their way to the other end.
    pub(super) outbox: VecDeque<Frame>,
    /// The messages whose bytes follow some of them.
    pub(super) following: VecDeque<TransferKey>,
    pub(super) messages: Messages,
    /// Chunks that wait to be sent, by channel.
    sending: Vec<StripeQueue>,
    /// Bytes of those that belong to medium and long messages.
    long_under_way: u64,
    /// Chunks that were sent, by channel, and have not arrived.
    pub(super) sent: Vec<VecDeque<Chunk>>,
    /// How many were sent so far, by channel.
    sent_counts: ChunkCounts,
    /// Chunks that are expected, by channel.
    receiving: Vec<StripeQueue>,
    /// Bytes of chunks that have arrived and are not consumed, by channel.
    arrived: Vec<VecDeque<u32>>,
    bounce: Option<Bounce>,
    /// How many the other end has room for, by channel; `None`: any number.
    credit: Option<ChunkCounts>,
    /// How many have arrived so far, by channel.
    arrived_counts: Vec<u64>,
    /// Every message that was ever posted in this conversation; each has a transfer of its own.
    pub(super) posted: SlotMap<TransferKey, Posted>,
    next_address: BTreeMap<bool, u64>,
    /// Channels whose staging was asked for, for host memory and for device memory.
    asked_for: BTreeSet<(u16, bool)>,
    /// Those of them that are not answered.
    unanswered: VecDeque<(u16, MemoryType)>,
    pub(super) listens: bool,
    pub(super) has_connect_handles: bool,
    pub(super) is_open: bool,
    pub(super) has_closed_sends: bool,
    said_goodbye: bool,
    pub(super) is_leaving: bool,
}

impl Driver {
    pub(super) fn new(setting: Setting, now: Instant) -> Self {
        let agreement = Agreement {
            channels: setting.channels,
            chunk_bytes: CHUNK_BYTES,
            peer_progresses: setting.has_progress_thread,
            eager: setting.eager,
        };
        let limits = match setting.copier {
            None => CoalescingLimits::in_place(CHUNK_BYTES),
            some => CoalescingLimits::gathering(CHUNK_BYTES, some),
        };
        let opening = Opening {
            agreement,
            limits,
            cutting: setting.cutting,
            dealing: setting.dealing,
            peer_timeout: Some(PEER_TIMEOUT),
            unnamed_timeout: (!setting.is_named).then_some(Duration::from_secs(30)),
            slice: setting.slice,
        };
        let channels = usize::from(setting.channels);
        Self {
            setting,
            protocol: Some(PeerProtocol::new(opening, now)),
            over: None,
            outbox: VecDeque::new(),
            long_under_way: 0,
            following: VecDeque::new(),
            messages: Messages::default(),
            sending: (0..channels).map(|_| StripeQueue::default()).collect(),
            sent: vec![VecDeque::new(); channels],
            sent_counts: SmallVec::from_elem(0, channels),
            arrived_counts: vec![0; channels],
            arrived: vec![VecDeque::new(); channels],
            bounce: setting
                .bounce_pages
                .map(|pages| Bounce::new(pages, setting.channels, setting.is_crowded)),
            credit: None,
            receiving: (0..channels).map(|_| StripeQueue::default()).collect(),
            posted: SlotMap::with_key(),
            next_address: BTreeMap::new(),
            asked_for: BTreeSet::new(),
            unanswered: VecDeque::new(),
            listens: false,
            has_connect_handles: false,
            is_open: false,
            has_closed_sends: false,
            said_goodbye: false,
            is_leaving: false,
        }
    }

    pub(super) fn protocol(&self) -> Option<&PeerProtocol> {
        self.protocol.as_ref()
    }

    /// Takes the protocol out, for a peer that is not correct.
    pub(super) fn take_protocol(&mut self) -> Option<PeerProtocol> {
        self.protocol.take()
    }

    pub(super) fn stage(&self) -> PeerStage {
        self.protocol.as_ref().map_or(PeerStage::Over, PeerProtocol::stage)
    }

    /// Gives the protocol something, and does what it then says.
    pub(super) fn input(&mut self, input: impl FnOnce(&mut PeerProtocol)) -> Check {
        if let Some(protocol) = &mut self.protocol {
            input(protocol);
        }
        self.act()
    }

    /// Posts messages of this tag; those that are `near` lie behind the one before them. They are
    /// posted as a batch, of which every third one begins a portion.
    pub(super) fn post(
        &mut self,
        direction: Direction,
        messages: &[(i32, u64, MemoryType, bool)],
    ) -> Check {
        let Some(protocol) = &mut self.protocol else { return Ok(()) };
        if protocol.check_posts(direction, messages.len()).is_err() {
            return Ok(());
        }
        protocol.handle_batch_of(messages.len());
        protocol.make_room(direction, messages.len()).map_err(|error| error.to_string())?;
        for (index, (tag, bytes, memory, is_near)) in messages.iter().copied().enumerate() {
            if index % 3 == 2 {
                self.input(|protocol| protocol.handle_batch(true))?;
            }
            let next = self.next_address.entry(memory == MemoryType::Host).or_insert(0);
            let address = if is_near { *next } else { *next + 1000 };
            *next = address + bytes;
            let registration = 1 + u64::from(memory == MemoryType::Device);
            let registration = RegistrationKey::from(KeyData::from_ffi(registration | 1 << 32));
            let span = Span { registration, address, memory };
            let (was_cancelled, went_ahead, end) = (false, false, None);
            let posted = Posted { direction, tag, bytes, was_cancelled, went_ahead, end };
            let transfer = self.posted.insert(posted);
            let operation = NewOperation { transfer, direction, tag, span, bytes };
            let Some(protocol) = &mut self.protocol else { return Ok(()) };
            protocol.handle_post(operation);
        }
        self.input(|protocol| protocol.handle_batch(false))
    }

    /// The program withdraws a message.
    pub(super) fn cancel(&mut self, transfer: TransferKey) -> Check {
        self.posted[transfer].was_cancelled = true;
        self.input(|protocol| protocol.handle_cancel(transfer))?;
        self.check_lists()
    }

    /// Every receive comm is accepted.
    pub(super) fn accept_comms(&mut self) -> Check {
        let credit = self.bounce.as_ref().map(Bounce::limits).unwrap_or_default();
        self.input(|protocol| protocol.handle_comms_accepted(credit))
    }

    /// A round. Whether it withdraws anything, or lets the other end send more.
    pub(super) fn round(&mut self) -> Result<bool, String> {
        let mut moved = self.answer_staging();
        self.act()?;
        self.input(|protocol| moved |= protocol.handle_round())?;
        self.check_lists()?;
        if let Some(credit) = self.bounce.as_mut().filter(|_| self.is_open).and_then(Bounce::renew)
        {
            self.input(|protocol| protocol.handle_credit(credit))?;
            moved = true;
        }
        Ok(moved)
    }

    /// Says whether a channel that was asked about has a staging buffer.
    fn answer_staging(&mut self) -> bool {
        let Some((channel, memory)) = self.unanswered.pop_front() else { return false };
        let is_there = self.setting.has_staging(channel);
        if let Some(protocol) = &mut self.protocol {
            protocol.handle_staging(channel, memory, is_there);
        }
        true
    }

    /// Every channel listens.
    pub(super) fn listen(&mut self) -> Check {
        self.listens = true;
        let handles = vec![NetHandle([0; HANDLE_BYTES]); usize::from(self.setting.channels)];
        self.input(|protocol| protocol.handle_listening(handles))
    }

    pub(super) fn bounce(&mut self) -> Option<&mut Bounce> {
        self.bounce.as_mut()
    }

    /// How many chunks were sent so far, by channel.
    pub(super) fn sent_counts(&self) -> ChunkCounts {
        self.sent_counts.clone()
    }

    /// The program leaves.
    pub(super) fn disconnect(&mut self) -> Check {
        self.is_leaving = true;
        let Some(protocol) = &mut self.protocol else { return Ok(()) };
        match protocol.handle_disconnect() {
            Leaving::Begun => self.act(),
            Leaving::NobodyThere => {
                self.outbox.push_back(Frame::Abort("closed".into()));
                self.end(Over::ByDriver)
            }
        }
    }

    /// The oldest chunk of a channel is sent. False when there is none, or no room for it.
    pub(super) fn send_chunk(&mut self, channel: usize) -> Result<bool, String> {
        let sent = self.sent_counts[channel];
        if self.credit.as_ref().is_some_and(|credit| sent >= credit[channel]) {
            return Ok(false);
        }
        let Some(chunk) = take_chunk(&mut self.sending[channel]) else { return Ok(false) };
        let bytes = chunk.iter().map(|piece| piece.bytes).sum::<u64>();
        if self.is_long(&chunk) {
            self.long_under_way -= bytes;
        }
        self.sent[channel].push_back(chunk);
        self.sent_counts[channel] += 1;
        let mut done = Vec::new();
        self.sending[channel].finish(bytes as u32, &mut done);
        self.finished(done)?;
        Ok(true)
    }

    /// Whether the messages of a chunk are medium or long ones.
    fn is_long(&self, chunk: &Chunk) -> bool {
        chunk.iter().all(|piece| self.posted[piece.of].bytes > self.setting.dealing.short_bytes)
    }

    /// A chunk arrives on a channel. False when none is expected (yet). Returns what was expected.
    pub(super) fn receive_chunk(&mut self, channel: usize) -> Result<Option<Chunk>, String> {
        let Some(chunk) = take_chunk(&mut self.receiving[channel]) else { return Ok(None) };
        self.arrived_counts[channel] += 1;
        let bytes = chunk.iter().map(|piece| piece.bytes).sum::<u64>();
        self.arrived[channel].push_back(bytes as u32);
        Ok(Some(chunk))
    }

    /// The oldest chunk that has arrived on a channel is consumed. False when there is none.
    pub(super) fn consume_chunk(&mut self, channel: usize) -> Result<bool, String> {
        let Some(bytes) = self.arrived[channel].pop_front() else { return Ok(false) };
        if let Some(bounce) = &mut self.bounce {
            bounce.consume(channel);
        }
        let mut done = Vec::new();
        self.receiving[channel].finish(bytes, &mut done);
        self.finished(done)?;
        Ok(true)
    }

    /// Time has passed: the protocol is told, and of what has arrived.
    pub(super) fn pass(&mut self, now: Instant) -> Check {
        self.input(|protocol| protocol.handle_timeout(now))?;
        let samples: Vec<ArrivalSample> = (self.arrived_counts.iter().zip(&self.receiving))
            .map(|(arrived, waiting)| ArrivalSample {
                arrived: *arrived,
                is_waiting: waiting.peek().is_some(),
            })
            .collect();
        self.input(|protocol| protocol.handle_arrivals(&samples, false, now))
    }

    fn finished(&mut self, done: Vec<Finished>) -> Check {
        self.input(|protocol| {
            done.into_iter().for_each(|finished| protocol.handle_finished(finished));
        })
    }

    /// The driver ends it, or has been told that it is over: what is left ends with it.
    pub(super) fn end(&mut self, over: Over) -> Check {
        let Some(mut protocol) = self.protocol.take() else { return Ok(()) };
        self.over = Some(over);
        for (_, Operation { posted, .. }) in protocol.take_operations() {
            self.note_end(posted.transfer, End::WithThePeer)?;
        }
        Ok(())
    }

    fn note_end(&mut self, transfer: TransferKey, end: End) -> Check {
        let posted = &mut self.posted[transfer];
        ensure!(posted.end.is_none(), "{posted:?} ends a second time, with {end:?}");
        posted.end = Some(end);
        Ok(())
    }

    /// A frame comes, and perhaps the bytes of this message of the other end behind it.
    pub(super) fn read(&mut self, frame: Frame, message: Option<Message>) -> Check {
        let Some(protocol) = &mut self.protocol else { return Ok(()) };
        let landing = protocol.handle_frame(frame);
        self.messages.land(landing, message)?;
        self.act()?;
        self.messages.check_room(self.setting.eager.buffer)
    }

    /// Sends a message on the link.
    fn send_message(&mut self, frame: Frame, member: &Member) -> Check {
        let bytes = match &frame {
            Frame::Deliver { bytes, .. } => *bytes,
            Frame::Ahead { bytes, .. } => {
                self.posted[member.transfer].went_ahead = true;
                *bytes
            }
            _ => return Err(format!("a message behind {frame:?}")),
        };
        let eager = &self.setting.eager;
        ensure!(u64::from(bytes) == member.bytes, "{frame:?} for {member:?}");
        ensure!(eager.allows(member.bytes), "{frame:?} is too long");
        ensure!(eager.reaches(member.span.memory), "{frame:?} from a GPU");
        let is_delivered = matches!(frame, Frame::Deliver { .. });
        ensure!(!(is_delivered && self.setting.link_is_full), "{frame:?} on a full link");
        self.following.push_back(member.transfer);
        self.send(frame)
    }

    /// Does what the protocol says, until it says nothing more.
    fn act(&mut self) -> Check {
        let unsent = if self.setting.link_is_full { usize::MAX } else { 0 };
        self.protocol.iter_mut().for_each(|protocol| protocol.handle_unsent(unsent));
        while let Some(action) = self.protocol.as_mut().and_then(PeerProtocol::poll_action) {
            if !matches!(action, Action::Complete(_)) {
                self.messages.none_follows();
            }
            match action {
                Action::Send(frame) => self.send(frame)?,
                Action::SendMessage { frame, member } => self.send_message(frame, &member)?,
                Action::TakeKept { number, into } => self.messages.take_kept(number, into)?,
                Action::Connect(handles) => {
                    ensure!(!self.has_connect_handles, "connects twice");
                    ensure!(handles.len() == self.sending.len(), "{} handles", handles.len());
                    self.has_connect_handles = true;
                }
                Action::Open => {
                    ensure!(!self.is_open, "opens twice");
                    self.is_open = true;
                }
                Action::Credit(chunks) => {
                    ensure!(self.is_open, "credit before it is up");
                    self.credit = Some(chunks);
                }
                Action::PrepareStaging { channel, memory } => {
                    ensure!(self.is_open, "staging before it is up");
                    let is_new = self.asked_for.insert((channel, memory == MemoryType::Host));
                    ensure!(is_new, "asks twice for staging of {memory} on channel {channel}");
                    self.unanswered.push_back((channel, memory));
                    if !self.setting.staging_is_late {
                        self.answer_staging();
                    }
                }
                Action::SendChunks(plan) => self.deal(plan, Direction::Send)?,
                Action::ReceiveChunks(plan) => self.deal(plan, Direction::Receive)?,
                Action::Complete(Completion { transfer, outcome, direction, .. }) => {
                    if direction == Direction::Receive {
                        self.messages.receive_ended(transfer, outcome);
                    }
                    self.note_end(transfer, End::Completed(outcome))?;
                }
                Action::AskHost => {
                    if let Some(protocol) = &mut self.protocol {
                        protocol.handle_acknowledgement(None);
                    }
                }
                Action::CountSent => {
                    ensure!(!self.has_closed_sends, "is asked for chunks after its sends closed");
                    if let Some(protocol) = &mut self.protocol {
                        protocol.handle_sent(self.sent_counts.clone());
                    }
                }
                Action::CloseSends => {
                    let is_idle = self.sending.iter().all(StripeQueue::is_empty);
                    ensure!(is_idle, "closes sends with chunks in them");
                    self.has_closed_sends = true;
                    if let Some(protocol) = &mut self.protocol {
                        protocol.handle_sends_closed();
                    }
                }
                Action::CloseReceives => {
                    let is_idle = self.receiving.iter().all(StripeQueue::is_empty);
                    ensure!(is_idle, "closes receives with chunks in them");
                    if let Some(protocol) = &mut self.protocol {
                        protocol.handle_receives_closed();
                    }
                }
                Action::End { ending, .. } => {
                    let is_broken = matches!(ending, Ending::Broken(_));
                    ensure!(!is_broken, "one correct end is broken to the other: {ending:?}");
                    let left = self.protocol.as_ref().map_or(0, PeerProtocol::operation_count);
                    let is_parting = ending == Ending::Goodbye;
                    ensure!(!is_parting || left == 0, "{left} operations after the goodbye");
                    self.messages.none_follows();
                    ensure!(!is_parting || self.messages.kept.is_empty(), "messages are kept");
                    if ending != Ending::Goodbye {
                        self.outbox.push_back(Frame::Abort(format!("{ending:?}")));
                    }
                    return self.end(Over::Said(ending));
                }
            }
        }
        self.messages.none_follows();
        let is_kept = self.messages.thrown_away.is_empty();
        ensure!(is_kept || self.is_leaving, "messages are thrown away by an end that stays");
        Ok(())
    }

    fn check_lists(&self) -> Check {
        self.protocol.as_ref().map_or(Ok(()), lists::check)
    }

    fn send(&mut self, frame: Frame) -> Check {
        match &frame {
            Frame::Goodbye => {
                ensure!(!self.said_goodbye, "says goodbye twice");
                self.said_goodbye = true;
            }
            Frame::Match { .. }
            | Frame::Mismatch { .. }
            | Frame::Announce { .. }
            | Frame::Deliver { .. }
            | Frame::Ahead { .. }
            | Frame::Taken { .. }
            | Frame::Credit(_) => {
                ensure!(!self.said_goodbye, "{frame:?} after its goodbye");
            }
            _ => {}
        }
        self.outbox.push_back(frame);
        Ok(())
    }

    /// No more of long messages is dealt than should be under way.
    fn check_dealing(&mut self, plan: &ChunkPlan) -> Check {
        let DealingLimits { short_bytes, section_bytes, ahead_bytes, .. } = self.setting.dealing;
        let is_section = matches!(&plan.members, Members::One(one) if one.bytes > plan.bytes);
        let mut sizes = plan.members.as_slice().iter().map(|member| member.bytes);
        if sizes.all(|bytes| bytes <= short_bytes) {
            return Ok(());
        }
        ensure!(self.long_under_way < ahead_bytes, "enough is under way for {plan:?}");
        ensure!(plan.bytes <= section_bytes || !is_section, "too long a section: {plan:?}");
        self.long_under_way += plan.bytes;
        Ok(())
    }

    fn deal(&mut self, plan: ChunkPlan, direction: Direction) -> Check {
        ensure!(self.is_open, "chunks before it is up");
        let members = plan.members.as_slice();
        ensure!(!members.is_empty() && plan.bytes > 0, "nothing to deal in {plan:?}");
        ensure!(
            members.len() == 1 || plan.bytes <= u64::from(CHUNK_BYTES),
            "more than a chunk: {plan:?}"
        );
        let is_gathered = plan.gathered.is_some();
        ensure!(
            !is_gathered || self.setting.has_staging(plan.first_channel),
            "gathers without staging"
        );
        if direction == Direction::Send && !is_gathered {
            let is_one_piece =
                members.windows(2).all(|pair| Member::is_followed_by(&pair[0], &pair[1]));
            ensure!(is_one_piece, "sends what lies apart in one piece: {plan:?}");
        }
        if direction == Direction::Send {
            self.check_dealing(&plan)?;
        }
        let lanes = match direction {
            Direction::Send => &mut self.sending,
            Direction::Receive => &mut self.receiving,
        };
        for (channel, stripe) in plan.stripes(self.setting.channels) {
            if let (Direction::Receive, Some(bounce)) = (direction, &mut self.bounce) {
                bounce.expect(channel, stripe.chunks_left());
            }
            lanes[usize::from(channel)].push(stripe);
        }
        Ok(())
    }
}

/// Takes the next chunk of a lane.
fn take_chunk(stripes: &mut StripeQueue) -> Option<Chunk> {
    let (stripe, range) = stripes.peek()?;
    let whole = |member: &Member| Piece { of: member.transfer, offset: 0, bytes: member.bytes };
    let chunk = match stripe.members() {
        [one] => {
            vec![Piece { of: one.transfer, offset: range.offset, bytes: u64::from(range.bytes) }]
        }
        many => many.iter().map(whole).collect(),
    };
    stripes.take();
    Some(chunk)
}
