//! One end against a peer that says anything, in an order that bytes choose: for a fuzz target.
//!
//! The end exports areas of memory, asks for some of the peer's itself, and its plugin moves what
//! it plans in any order. Whatever is said, what it touches lies in an export that allows that and
//! is in use, or in a request of its own that has not ended; and its books have an end.

mod input;
mod memory;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use slotmap::KeyData;
use smallvec::SmallVec;
use tcpx_protocol::frames::eager_terms::{CreditKind, EagerOffer, EagerTerms};
use tcpx_protocol::frames::fields::{ChannelHandle, HANDLE_BYTES};
use tcpx_protocol::frames::frame::{ChunkCounts, Frame};
use tcpx_protocol::frames::hello::Agreement;
use tcpx_protocol::peer::action::{Action, Completion, Landing, NoteUse};
use tcpx_protocol::peer::flow_control::FlowTerms;
use tcpx_protocol::peer::lifecycle::stage::Leaving;
use tcpx_protocol::peer::one_sided::local_lists::ListLimits;
use tcpx_protocol::peer::one_sided::{NewRequest, OneSidedTerms};
use tcpx_protocol::peer::schedule::tuning::{Copier, Tuning};
use tcpx_protocol::peer::{Opening, PeerProtocol};
use tcpx_protocol::plans::piece_range::PieceRange;
use tcpx_protocol::plans::plan::ChunkPlan;
use tcpx_protocol::plans::stripe_queue::StripeQueue;
use tcpx_protocol::types::peer_budget::PeerBudget;
use tcpx_protocol::types::{Direction, TransferKey};

use self::input::{Bytes, CHANNELS, CHUNK_BYTES};
use self::memory::Memory;

const LIMITS: ListLimits = ListLimits { lists: 4, ranges: 40 };
const ASKED: usize = 3;
const NOTE_BYTES: u64 = 400;
const PLANNED: u64 = 1000;
/// Requests of its own that the end has under way.
const OWN: usize = 4;

/// The end, and what its driver knows.
struct Prey {
    protocol: PeerProtocol,
    memory: Memory,
    sending: Vec<StripeQueue>,
    receiving: Vec<StripeQueue>,
    /// Names that it has told its peer: of receives, and of requests.
    names: Vec<u64>,
    /// Cost of the notes that came for the program, and the part of it that the program has taken.
    noted: u64,
    taken: u64,
    kept: VecDeque<(u64, u32)>,
    is_over: bool,
}

/// Says to an end what the bytes choose, and has its program and plugin do what they choose.
pub(crate) fn run(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let mut prey = Prey::new(bytes.next());
    while !prey.is_over && !bytes.is_empty() {
        prey.step(&mut bytes);
        prey.check();
    }
}

impl Prey {
    fn new(flags: u8) -> Self {
        let has = |bit: u32| flags >> bit & 1 == 1;
        let access_bytes = if has(6) { 0 } else { 100 };
        let device_bytes = if has(0) { u64::MAX } else { 0 };
        let offer = EagerOffer { bytes: 32, buffer_bytes: 400, device_bytes, access_bytes };
        let eager =
            if has(1) { EagerTerms::agree(offer, offer, CHUNK_BYTES) } else { EagerTerms::OFF };
        let agreement = Agreement {
            channels: CHANNELS,
            chunk_bytes: CHUNK_BYTES,
            peer_progresses: true,
            eager,
            note_bytes: NOTE_BYTES,
            keeps_chunks: flags.count_ones().is_multiple_of(2),
            is_encrypted: false,
            on_demand: has(7),
        };
        let tuning = Tuning {
            shortest_chunk: 8,
            longest_chunk: 30,
            short_bytes: 64,
            section_bytes: 128,
            ahead_bytes: 300,
            plan_bytes: 20,
            ..Tuning::new(CHUNK_BYTES, 1)
        };
        let tuning = match has(2) {
            false => tuning,
            true => tuning.gathering(has(3).then_some(Copier::Gpu)),
        };
        let opening = Opening {
            agreement,
            tuning,
            one_sided: OneSidedTerms {
                lists: LIMITS,
                note_bytes: NOTE_BYTES,
                queued_note_bytes: NOTE_BYTES,
                asked: ASKED,
                planned: PLANNED,
                receives_host: !has(4),
                scatters_host: !has(5),
            },
            peer_timeout: None,
            is_named: true,
            connect_timeout: Duration::from_secs(30),
            kept: FlowTerms {
                budget: PeerBudget::new(1000),
                least: 2,
                usual: 5,
                least_unexpected: 100,
            },
            slice: 2,
        };
        let mut prey = Self {
            protocol: PeerProtocol::new(opening, Instant::now()),
            memory: Memory::new(),
            sending: (0..CHANNELS).map(StripeQueue::sending).collect(),
            receiving: (0..CHANNELS).map(|_| StripeQueue::receiving()).collect(),
            names: Vec::new(),
            noted: 0,
            taken: 0,
            kept: VecDeque::new(),
            is_over: false,
        };
        prey.act();
        if !has(7) {
            prey.hear(Frame::Handles(handles()));
            prey.hear(Frame::Open { credit: SmallVec::new() });
        }
        for (what, count) in [(CreditKind::Receives, 5), (CreditKind::Notes, NOTE_BYTES)] {
            prey.hear(Frame::Credit { what, counts: ChunkCounts::from_slice(&[count]) });
        }
        prey
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.next() % 16 {
            0..=8 => {
                for frame in bytes.frames(&self.memory, &self.names) {
                    self.hear(frame);
                }
            }
            9 => self.move_chunk(Direction::Send, bytes.next()),
            10 | 11 => self.move_chunk(Direction::Receive, bytes.next()),
            12 => self.export_or_revoke(bytes),
            13 => self.post(bytes),
            14 => {
                let transfer = transfer(bytes.next());
                match bytes.next() % 6 {
                    4 => self.hear(Frame::Handles(handles())),
                    5 => self.hear(Frame::Open { credit: SmallVec::new() }),
                    0 => self.protocol.handle_cancel(transfer),
                    1 => self.protocol.handle_unsent(usize::MAX),
                    2 => self.protocol.handle_unsent(0),
                    _ => drop(self.protocol.handle_round()),
                }
            }
            _ => match bytes.next() % 8 {
                0 => {
                    let left = self.protocol.handle_disconnect();
                    self.is_over |= matches!(left, Leaving::NobodyThere);
                }
                1 => {
                    let unpacked = bytes.next().into();
                    self.hear(Frame::ChannelLost { channel: bytes.channel(), unpacked });
                }
                2 => {
                    let (lost, onto) = (bytes.channel(), bytes.channel());
                    self.hear(Frame::Redeal { lost, onto });
                }
                3 => {
                    let chunks = (0..CHANNELS).map(|_| bytes.next().into()).collect();
                    self.hear(Frame::Unpacked(chunks));
                }
                4 => {
                    self.protocol.handle_channel_failed(bytes.channel());
                }
                _ => {
                    self.taken = self.noted - self.kept_cost();
                    self.protocol.handle_notes_taken(self.taken);
                }
            },
        }
        self.act();
    }

    fn kept_cost(&self) -> u64 {
        self.kept.iter().map(|(_, bytes)| 64 + u64::from(*bytes)).sum()
    }

    /// Lets the end hear this from the peer.
    fn hear(&mut self, frame: Frame) {
        use tcpx_protocol::frames::link_frame::LinkFrame;
        let payload = frame.payload_bytes();
        let pieces = |of: &PieceRange| of.iter().collect::<Vec<_>>();
        let chunk = frame.as_chunk();
        let place = chunk.and_then(|chunk| self.protocol.place_of(chunk)).as_ref().map(pieces);
        let landing = self.protocol.handle_frame(frame, &mut self.memory.exports);
        if chunk.is_some() {
            // The payload may be written to its place before the frame is handled.
            let landed = match &landing {
                Landing::Pieces { range, .. } => Some(pieces(range)),
                _ => None,
            };
            assert_eq!(place, landed, "{chunk:?}");
        }
        match landing {
            Landing::Nowhere | Landing::Unexpected(_) | Landing::Place(_) => {}
            Landing::Note(note) => self.land_note(note, payload),
            Landing::Pieces { transfer, range, note } => {
                let bytes = range.bytes() as usize;
                assert!(bytes <= payload, "they have come");
                for piece in range.iter() {
                    let (at, bytes) = (piece.address, piece.bytes);
                    self.memory.check(transfer, at, bytes, Direction::Receive, true);
                }
                self.land_note(note, payload - bytes);
            }
        }
        self.act();
    }

    fn land_note(&mut self, note: NoteUse, payload: usize) {
        let bytes = match note {
            NoteUse::None => return,
            NoteUse::Publish(bytes) => bytes,
            NoteUse::Keep { number, bytes } => {
                self.kept.push_back((number, bytes));
                bytes
            }
        };
        assert_eq!(bytes as usize, payload, "the note is what follows");
        self.noted += 64 + u64::from(bytes);
        assert!(self.noted - self.taken <= NOTE_BYTES, "more notes than there is room for");
    }

    /// Notes that the plugin has sent, or received, the oldest chunk of a channel.
    fn move_chunk(&mut self, direction: Direction, channel: u8) {
        let lanes = match direction {
            Direction::Send => &mut self.sending,
            Direction::Receive => &mut self.receiving,
        };
        let lane = &mut lanes[usize::from(channel) % usize::from(CHANNELS)];
        let Some((stripe, _)) = lane.peek() else { return };
        for member in stripe.members() {
            let (at, bytes) = (member.span.address, member.bytes);
            self.memory.check(member.transfer, at, bytes, direction, false);
        }
        lane.take();
        let mut done = Vec::new();
        lane.finish(&mut done);
        done.into_iter().for_each(|finished| self.protocol.handle_finished(finished));
    }

    fn export_or_revoke(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.next() {
            area if area % 2 == 0 => {
                if let Some(key) = self.memory.revoke(area) {
                    self.protocol.handle_revoked(&[key]);
                }
            }
            _ => self.memory.export(),
        }
    }

    /// Asks for something of the peer's, for the program.
    fn post(&mut self, bytes: &mut Bytes<'_>) {
        let transfer = transfer(bytes.next());
        let may_post = self.protocol.check_posts(Direction::Send, 1).is_ok();
        if !may_post || self.memory.own.contains_key(&transfer) {
            return;
        }
        let list = self.memory.prepare(transfer, bytes.next());
        let note = bytes.next().is_multiple_of(4).then(|| vec![0; 9].into());
        let op = self.protocol.handle_request(NewRequest { transfer, list, note });
        self.names.push(op.to_wire());
    }

    fn schedule(&mut self, plan: ChunkPlan, direction: Direction) {
        for member in plan.members.as_slice() {
            let (at, bytes) = (member.span.address, member.bytes);
            // Of a section it is not known here which part it is.
            self.memory.check(member.transfer, at, bytes, direction, false);
        }
        let lanes = match direction {
            Direction::Send => &mut self.sending,
            Direction::Receive => &mut self.receiving,
        };
        for (channel, stripe) in plan.stripes() {
            lanes[usize::from(channel)].push(stripe);
        }
    }

    /// Does what the protocol says.
    fn act(&mut self) {
        self.protocol.handle_chunk_room(1 << 20);
        while !self.is_over
            && let Some(action) = self.protocol.poll_action()
        {
            match action {
                Action::Send(frame) => self.names.extend(input::name_in(&frame)),
                Action::SendWithPayload { bytes, .. } => {
                    if let Some((transfer, range)) = bytes {
                        for piece in range.iter() {
                            let (at, bytes) = (piece.address, piece.bytes);
                            self.memory.check(transfer, at, bytes, Direction::Send, false);
                        }
                    }
                }
                Action::OpenChannels => {
                    self.protocol.handle_listening(handles());
                    self.protocol.handle_comms_accepted(SmallVec::new());
                    self.protocol.handle_comms_connected();
                }
                Action::Served(uses) => self.memory.exports.end_all(&uses),
                Action::Complete(Completion { transfer, .. }, Some(_)) => {
                    assert!(self.memory.own.remove(&transfer).is_some(), "it ends once");
                }
                Action::Note { number, is_published } => {
                    let place = self.kept.iter().position(|(kept, _)| *kept == number);
                    let kept = place.and_then(|place| self.kept.remove(place));
                    let (_, bytes) = kept.expect("it was kept");
                    if !is_published {
                        self.noted -= 64 + u64::from(bytes);
                    }
                }
                Action::PrepareStaging { channel, memory } => {
                    self.protocol.handle_staging(channel, memory, channel == 0);
                }
                Action::SendChunks(plan) => self.schedule(plan, Direction::Send),
                Action::ReceiveChunks(plan) => self.schedule(plan, Direction::Receive),
                Action::CloseChannel { channel, .. } => {
                    self.protocol.handle_channel_closed(channel, 0);
                }
                Action::Redeal { direction, lost, onto } => {
                    let lanes = match direction {
                        Direction::Send => &mut self.sending,
                        Direction::Receive => &mut self.receiving,
                    };
                    let pair = [lost, onto].map(usize::from);
                    let [lost, onto] = lanes.get_disjoint_mut(pair).expect("they are two");
                    lost.move_to(onto);
                }
                Action::CountSent => {
                    let counts: ChunkCounts = SmallVec::from_elem(0, CHANNELS.into());
                    self.protocol.handle_sent(counts);
                }
                Action::CloseSends => {
                    assert!(self.sending.iter().all(StripeQueue::is_empty), "all is sent");
                    self.protocol.handle_sends_closed();
                }
                Action::CloseReceives => {
                    assert!(self.receiving.iter().all(StripeQueue::is_empty), "all is there");
                    self.protocol.handle_receives_closed();
                }
                Action::CheckHost => self.protocol.handle_acknowledgement(None),
                Action::End { .. } => self.is_over = true,
                Action::SendMessage { .. }
                | Action::TakeUnexpected { .. }
                | Action::Connect(_)
                | Action::Open
                | Action::Credit(_)
                | Action::Unpacked(_)
                | Action::Refused(_)
                | Action::Complete(_, None) => {}
            }
        }
    }

    /// Checks that the books are bounded.
    fn check(&self) {
        let counts = self.protocol.one_sided_counts();
        let (lists, ranges) = counts.lists_known;
        assert!(lists <= LIMITS.lists && ranges <= LIMITS.ranges, "{counts:?}");
        let [_, unanswered, unscheduled, served, writes, reads] = counts.requests;
        assert!(unanswered <= ASKED && unscheduled <= ASKED, "{counts:?}");
        // One read more may be scheduled than may be unsent.
        assert!(writes <= ASKED && reads <= ASKED && served <= 3 * ASKED, "{counts:?}");
        assert!(self.protocol.operation_count() <= served + OWN, "{counts:?}");
        assert!(self.kept.len() <= ASKED, "{} notes are kept", self.kept.len());
    }
}

fn handles() -> Vec<ChannelHandle> {
    vec![ChannelHandle([0; HANDLE_BYTES]); CHANNELS.into()]
}

/// Returns the transfer that the end has for this request.
fn transfer(number: u8) -> TransferKey {
    KeyData::from_ffi(1 << 32 | (1 + u64::from(number) % OWN as u64)).into()
}
