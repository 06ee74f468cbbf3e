//! End of a conversation under test: the protocol, and a driver that gives it what happens.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use slotmap::{KeyData, SlotMap};
use smallvec::SmallVec;

use super::credit::Bounce;
use super::exporting::{Exporting, Notes};
use super::interleavings::tally::Seen;
use super::losing::Kept;
use super::payload::{Came, Chunk, Landed, Messages, Payload, check_place};
use super::requests::Requests;
use super::revocations;
use super::setting::Setting;
use crate::frames::fields::{ChannelHandle, HANDLE_BYTES};
use crate::frames::frame::{ChunkCounts, Frame};
use crate::frames::hello::Agreement;
use crate::frames::link_frame::LinkFrame;
use crate::frames::messages::Offer;
use crate::peer::action::{Ending, Outcome};
use crate::peer::flow_control::FlowTerms;
use crate::peer::lifecycle::arrivals::ArrivalSample;
use crate::peer::lifecycle::stage::{Leaving, PeerStage};
use crate::peer::message::NewOperation;
use crate::peer::{Opening, PeerProtocol};
use crate::plans::stripe_queue::{Finished, StripeQueue};
use crate::types::{Direction, MemoryType, RegistrationKey, Span, TransferKey};

pub(super) const CHUNK_BYTES: u32 = 64;
pub(super) const PEER_TIMEOUT: Duration = Duration::from_secs(10);
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Result of a check: the fault, in words.
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
    pub(super) tag: i64,
    pub(super) bytes: u64,
    pub(super) was_cancelled: bool,
    /// Whether it was sent before its sender knew of a receive.
    pub(super) went_eager: bool,
    pub(super) end: Option<End>,
}

/// End of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The protocol said so.
    Completed(Outcome),
    /// Its conversation ended before it.
    WithThePeer,
}

/// End of a conversation at this end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// The protocol said so.
    Said(Ending),
    /// The driver ended it: its link or a comm failed, or no program was there to say goodbye to.
    ByDriver,
}

/// One end of one conversation.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) now: Instant,
    pub(super) setting: Setting,
    pub(super) protocol: Option<PeerProtocol>,
    pub(super) over: Option<Over>,
    /// Frames on their way to the other end.
    pub(super) outbox: VecDeque<Frame>,
    /// Payloads that follow some of them.
    pub(super) following: VecDeque<Payload>,
    pub(super) messages: Messages,
    pub(super) exporting: Exporting,
    pub(super) requests: Requests,
    pub(super) notes: Notes,
    /// Chunks that wait to be sent, by channel.
    pub(super) sending: Vec<StripeQueue>,
    /// Bytes of those that belong to medium and long messages.
    pub(super) long_under_way: u64,
    /// Whether the plan that comes next is the first of what the other end heard last.
    pub(super) begins_section: bool,
    /// Chunks that were sent, by channel, and have not arrived.
    pub(super) sent: Vec<VecDeque<Chunk>>,
    /// Bytes of chunks that were sent and whose sends are not done, by channel.
    pub(super) unfinished: Vec<VecDeque<(u32, bool)>>,
    /// What is known of each channel of its chunks and of its loss.
    pub(super) kept: Vec<Kept>,
    /// Number of chunks sent so far, by channel.
    pub(super) sent_counts: ChunkCounts,
    /// Chunks that are expected, by channel.
    pub(super) receiving: Vec<StripeQueue>,
    /// Chunks that have arrived and are not consumed, by channel.
    pub(super) arrived: Vec<VecDeque<Chunk>>,
    pub(super) bounce: Option<Bounce>,
    /// Number of chunks that the other end has room for, by channel; `None`: any number.
    pub(super) credit: Option<ChunkCounts>,
    /// Number of chunks that have arrived so far, by channel.
    pub(super) arrived_counts: Vec<u64>,
    /// Every message that was ever posted in this conversation; each has a transfer of its own.
    pub(super) posted: SlotMap<TransferKey, Posted>,
    next_address: BTreeMap<bool, u64>,
    /// Channels whose staging was asked for, for host memory and for device memory.
    pub(super) asked_for: BTreeSet<(u16, bool)>,
    /// Number of those that are not answered.
    pub(super) unanswered: VecDeque<(u16, MemoryType)>,
    /// Whether its comms are being connected.
    pub(super) is_opening: bool,
    pub(super) listens: bool,
    pub(super) has_connect_handles: bool,
    pub(super) is_open: bool,
    pub(super) has_closed_sends: bool,
    pub(super) sent_goodbye: bool,
    pub(super) is_leaving: bool,
    /// Whether nothing waits on the link for the kernel.
    pub(super) is_link_clear: bool,
    pub(super) seen: Seen,
}

/// Returns the input to a new end.
fn opening(setting: &Setting) -> Opening {
    let agreement = Agreement {
        channels: setting.channels,
        chunk_bytes: CHUNK_BYTES,
        peer_progresses: setting.has_progress_thread,
        eager: setting.eager,
        note_bytes: setting.one_sided.note_bytes,
        keeps_chunks: setting.keeps_chunks,
        is_encrypted: false,
        on_demand: setting.on_demand,
    };
    Opening {
        agreement,
        tuning: setting.tuning(),
        one_sided: setting.one_sided,
        peer_timeout: Some(PEER_TIMEOUT),
        is_named: setting.is_named,
        connect_timeout: CONNECT_TIMEOUT,
        kept: setting.kept.terms(),
        slice: setting.slice,
    }
}

impl Driver {
    pub(super) fn new(setting: Setting, now: Instant) -> Self {
        let channels = usize::from(setting.channels);
        Self {
            now,
            setting,
            protocol: Some(PeerProtocol::new(opening(&setting), now)),
            over: None,
            outbox: VecDeque::new(),
            long_under_way: 0,
            begins_section: false,
            following: VecDeque::new(),
            messages: Messages::default(),
            exporting: Exporting::new(),
            requests: Requests::default(),
            notes: Notes::default(),
            sending: (0..channels as u16).map(StripeQueue::sending).collect(),
            sent: vec![VecDeque::new(); channels],
            unfinished: vec![VecDeque::new(); channels],
            kept: vec![Kept::default(); channels],
            sent_counts: SmallVec::from_elem(0, channels),
            arrived_counts: vec![0; channels],
            arrived: vec![VecDeque::new(); channels],
            bounce: setting
                .bounce_pages
                .map(|pages| Bounce::new(pages, setting.channels, setting.is_crowded)),
            credit: None,
            receiving: (0..channels).map(|_| StripeQueue::receiving()).collect(),
            posted: SlotMap::with_key(),
            next_address: BTreeMap::new(),
            asked_for: BTreeSet::new(),
            unanswered: VecDeque::new(),
            is_opening: false,
            listens: false,
            has_connect_handles: false,
            is_open: false,
            has_closed_sends: false,
            sent_goodbye: false,
            is_leaving: false,
            is_link_clear: true,
            seen: Seen::default(),
        }
    }

    /// Puts the end into a session whose peers share a budget.
    pub(super) fn keep(&mut self, kept: FlowTerms, now: Instant) {
        self.is_opening = false;
        self.outbox.clear();
        let opening = Opening { kept, ..opening(&self.setting) };
        self.protocol = Some(PeerProtocol::new(opening, now));
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

    /// Posts messages of this tag. Those that are `near` lie behind the one before them. They are
    /// posted as a batch, in which every third message begins a portion.
    pub(super) fn post(
        &mut self,
        direction: Direction,
        messages: &[(i64, u64, MemoryType, bool)],
    ) -> Check {
        let Some(protocol) = &mut self.protocol else { return Ok(()) };
        if protocol.check_posts(direction, messages.len()).is_err() {
            return Ok(());
        }
        protocol.begin_batch_of(messages.len());
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
            let (was_cancelled, went_eager, end) = (false, false, None);
            let posted = Posted { direction, tag, bytes, was_cancelled, went_eager, end };
            let transfer = self.posted.insert(posted);
            let operation = NewOperation { transfer, direction, tag, span, bytes };
            let Some(protocol) = &mut self.protocol else { return Ok(()) };
            protocol.handle_post(operation);
        }
        self.input(|protocol| protocol.handle_batch(false))
    }

    /// Withdraws a message for the program.
    pub(super) fn cancel(&mut self, transfer: TransferKey) -> Check {
        self.posted[transfer].was_cancelled = true;
        self.input(|protocol| protocol.handle_cancel(transfer))?;
        self.check_lists()
    }

    /// Accepts every receive comm.
    pub(super) fn accept_comms(&mut self) -> Check {
        let credit = self.bounce.as_ref().map(Bounce::limits).unwrap_or_default();
        self.input(|protocol| protocol.handle_comms_accepted(credit))
    }

    /// Makes a round. Returns whether it withdraws anything, or lets the other end send more.
    pub(super) fn round(&mut self) -> Result<bool, String> {
        let mut moved = self.speak()?;
        moved |= self.answer_staging();
        self.act()?;
        self.input(|protocol| moved |= protocol.handle_round())?;
        self.check_lists()?;
        for channel in 0..self.kept.len() {
            moved |= self.finish_sends(channel)?;
        }
        moved |= self.report_unpacked()?;
        if let Some(credit) = self.bounce.as_mut().filter(|_| self.is_open).and_then(Bounce::renew)
        {
            self.input(|protocol| protocol.handle_credit(credit))?;
            moved = true;
        }
        Ok(moved)
    }

    /// Says what there was no room for on the link. Returns whether it says anything. The driver
    /// knows before whether there is anything to say.
    fn speak(&mut self) -> Result<bool, String> {
        let has_more = self.protocol.as_ref().is_some_and(PeerProtocol::has_output);
        // Messages that wait for channels may find room on the link first.
        let has_more = has_more || self.is_opening;
        let said = self.outbox.len();
        self.act()?;
        let speaks = self.outbox.len() > said;
        ensure!(has_more || !speaks, "it says unasked {:?}", self.outbox.back());
        Ok(speaks)
    }

    /// Listens on every channel.
    pub(super) fn listen(&mut self) -> Check {
        self.listens = true;
        let handles = vec![ChannelHandle([0; HANDLE_BYTES]); usize::from(self.setting.channels)];
        self.input(|protocol| protocol.handle_listening(handles))
    }

    /// Leaves for the program.
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

    /// Lets time pass, and gives the protocol the time and what has arrived.
    pub(super) fn pass(&mut self, now: Instant) -> Check {
        self.now = now;
        self.input(|protocol| protocol.handle_timeout(now))?;
        let samples: Vec<ArrivalSample> = (self.arrived_counts.iter().zip(&self.receiving))
            .map(|(arrived, waiting)| ArrivalSample {
                arrived: *arrived,
                is_waiting: waiting.peek().is_some(),
            })
            .collect();
        self.input(|protocol| protocol.handle_arrivals(&samples, false, now))
    }

    pub(super) fn finished(&mut self, done: Vec<Finished>) -> Check {
        self.input(|protocol| {
            done.into_iter().for_each(|finished| protocol.handle_finished(finished));
        })
    }

    fn check_lists(&self) -> Check {
        self.protocol.as_ref().map_or(Ok(()), revocations::check)
    }

    /// Ends the conversation, by the driver or after the protocol: what is left ends with it.
    pub(super) fn end(&mut self, over: Over) -> Check {
        let Some(mut protocol) = self.protocol.take() else { return Ok(()) };
        self.over = Some(over);
        for (_, message) in protocol.take_operations() {
            message.serves().iter().for_each(|uses| self.exporting.exports.end_all(uses));
            match message.posted.transfer {
                of if of == TransferKey::default() => {}
                of if self.posted.contains_key(of) => self.note_end(of, End::WithThePeer)?,
                of => self.request_ended(of, End::WithThePeer)?,
            }
        }
        self.notes.kept.clear();
        Ok(())
    }

    pub(super) fn note_end(&mut self, transfer: TransferKey, end: End) -> Check {
        self.seen.ends(transfer, end);
        let posted = &mut self.posted[transfer];
        ensure!(posted.end.is_none(), "{posted:?} ends a second time, with {end:?}");
        posted.end = Some(end);
        Ok(())
    }

    /// Reads a frame, and perhaps something behind it, which finds its place. The actions that
    /// follow are taken after that.
    pub(super) fn read(
        &mut self,
        frame: Frame,
        came: Option<Came>,
    ) -> Result<Option<Landed>, String> {
        let Some(protocol) = &mut self.protocol else { return Ok(None) };
        let is_alone = matches!(&frame, Frame::Offer(Offer::Note { .. }));
        let place = frame.as_chunk().map(|chunk| protocol.place_of(chunk));
        let landing = protocol.handle_frame(frame, &mut self.exporting.exports);
        if let Some(place) = place {
            check_place(place.as_ref(), &landing)?;
        }
        self.land(landing, came, is_alone)
    }

    /// Does what a frame asks for that was read.
    pub(super) fn answer(&mut self) -> Check {
        self.act()?;
        self.notes.check_room(self.setting.one_sided.note_bytes)?;
        self.messages.check_room(self.setting.eager.buffer)
    }
}
