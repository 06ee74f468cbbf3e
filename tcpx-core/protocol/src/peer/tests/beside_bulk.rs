//! Traffic beside a long read or write on a slow link: a part is between, no more, and no peer is
//! taken for silent. End 0 asks, end 1 exports. A turn is the time that the link takes for one
//! part.

use std::time::Duration;

use super::driver::{CHUNK_BYTES, End, PEER_TIMEOUT};
use super::one_sided_crossings::{
    LITTLE, SETTING, ask, assert_parted, check_moved, end_of, outcome,
};
use super::pair::{ENDS, Pair};
use super::setting::Setting;
use crate::frames::eager_terms::{EagerOffer, EagerTerms};
use crate::frames::frame::Frame;
use crate::peer::action::{Outcome, Withdrawal};
use crate::peer::schedule::tuning::Tuning;
use crate::types::memory::OperationKind::{self, Read, Write};
use crate::types::memory::RemoteAccess;
use crate::types::{Direction, MemoryType, TransferKey};

const PART: u64 = 50;
const BULK: u64 = 400 * PART;
const TURN: Duration = Duration::from_millis(400);
/// Turns that a word and its answer take: each waits for a part that is under way, and the program
/// is given its round at the end of a turn.
const WORD_AND_ANSWER: usize = 3;
const CHANNELS: u16 = 2;
const CANCELLED: Option<End> = Some(End::Completed(Outcome::Withdrawn(Withdrawal::Cancelled)));

fn setting() -> Setting {
    let offer = EagerOffer {
        bytes: LITTLE as u32,
        buffer_bytes: 1000,
        device_bytes: u64::MAX,
        access_bytes: BULK,
    };
    Setting {
        channels: CHANNELS,
        bounce_pages: Some(CHANNELS.into()),
        eager: EagerTerms::agree(offer, offer, CHUNK_BYTES),
        tuning: Tuning { link_chunk_bytes: PART, ..SETTING.tuning },
        link_is_full: true,
        ..SETTING
    }
}

struct Bulk {
    pair: Pair,
    transfer: TransferKey,
    /// The end that sends its bytes.
    sender: usize,
    pings: usize,
}

fn part_bytes(frame: &Frame) -> u64 {
    match frame {
        Frame::LinkChunk(part) => part.bytes.into(),
        _ => 0,
    }
}

impl Bulk {
    /// Returns a read or write, some parts of it in place.
    fn begun(kind: OperationKind) -> Self {
        let mut pair = Pair::up([setting(); 2]);
        pair.ends[1].exporting.export(2 * BULK, MemoryType::Device, RemoteAccess::ReadWrite);
        let transfer = ask(&mut pair, kind, BULK);
        let sender = usize::from(kind == Read);
        let mut bulk = Self { pair, transfer, sender, pings: 0 };
        (0..10).for_each(|_| bulk.turn());
        let moved = bulk.moved();
        assert!((2 * PART..20 * PART).contains(&moved), "{moved}");
        bulk
    }

    fn moved(&self) -> u64 {
        check_moved(&self.pair, self.transfer)
    }

    fn is_under_way(&self) -> bool {
        end_of(&self.pair, self.transfer).is_none()
    }

    /// Checks that no frame has more before it than one part.
    fn check_ahead(&self) {
        for end in &self.pair.ends {
            let mut ahead = 0;
            for frame in &end.outbox {
                let bytes = part_bytes(frame);
                assert!(ahead + bytes <= PART, "{ahead} bytes are before {frame:?}");
                ahead += bytes;
            }
        }
    }

    /// Moves one part of each direction, and what is before and behind it.
    fn turn(&mut self) {
        for end in ENDS {
            let mut parts = 0;
            while parts == 0 {
                self.check_ahead();
                let Some(frame) = self.pair.ends[1 - end].outbox.front() else { break };
                parts += part_bytes(frame);
                self.pings += usize::from(*frame == Frame::Ping);
                self.pair.deliver(end).unwrap();
            }
            for channel in 0..CHANNELS.into() {
                while self.pair.send_chunk(end, channel).unwrap()
                    || self.pair.receive_chunk(end, channel).unwrap()
                    || self.pair.consume_chunk(end, channel).unwrap()
                {}
            }
            self.pair.ends[end].take_notes(usize::MAX).unwrap();
        }
        for end in &mut self.pair.ends {
            end.round().unwrap();
        }
        self.pair.pass(TURN).unwrap();
        self.check_ahead();
        self.pair.check_requests().unwrap();
        assert!(!self.pair.has_given_up(), "a peer is taken for silent");
    }

    /// Turns until something has happened, which is while the bytes are under way.
    fn turns_until(&mut self, has_happened: impl Fn(&Self) -> bool) -> usize {
        for turns in 0.. {
            assert!(self.is_under_way(), "it has waited for all bytes");
            if has_happened(self) {
                return turns;
            }
            self.turn();
        }
        unreachable!("turns have no end")
    }

    fn post(&mut self, end: usize, direction: Direction, tag: i64, bytes: u64) -> TransferKey {
        let message = (tag, bytes, MemoryType::Device, false);
        self.pair.ends[end].post(direction, &[message]).unwrap();
        self.pair.ends[end].posted.keys().last().expect("it is up")
    }

    fn finish(mut self) {
        while self.is_under_way() {
            self.turn();
        }
        assert_eq!(outcome(&self.pair, self.transfer), Outcome::Done);
        self.pair.settle().unwrap();
        self.pair.check_at_rest().unwrap();
    }
}

fn of_each_kind(mut tell: impl FnMut(Bulk)) {
    [Read, Write].into_iter().for_each(|kind| tell(Bulk::begun(kind)));
}

#[test]
fn no_peer_is_silent_beside_bulk_that_takes_much_longer_than_silence_may() {
    of_each_kind(|mut bulk| {
        let mut time = Duration::ZERO;
        while bulk.is_under_way() {
            bulk.turn();
            time += TURN;
        }
        assert!(time > 10 * PEER_TIMEOUT, "{time:?}");
        // The end that sends hears nothing but answers to its pings.
        assert!(bulk.pings > 10, "{} pings", bulk.pings);
        bulk.finish();
    });
}

#[test]
fn a_receive_is_announced_and_withdrawn_beside_bulk() {
    of_each_kind(|mut bulk| {
        let end = bulk.sender;
        let receive = bulk.post(end, Direction::Receive, 5, 300);
        bulk.turn();
        bulk.pair.ends[end].cancel(receive).unwrap();
        let is_over = |bulk: &Bulk| bulk.pair.ends[end].posted[receive].end == CANCELLED;
        let turns = bulk.turns_until(is_over);
        assert!(turns <= WORD_AND_ANSWER, "{turns} turns");
        bulk.finish();
    });
}

#[test]
fn another_operation_is_cancelled_beside_bulk() {
    for kind in [Read, Write] {
        of_each_kind(|mut bulk| {
            // The message has too many bytes for the link, beside the others there.
            let other = ask(&mut bulk.pair, kind, BULK);
            // More sections of it would be under way later, and would have to end first.
            bulk.turn();
            assert_eq!(end_of(&bulk.pair, other), None);
            bulk.pair.ends[0].cancel_request(other).unwrap();
            let turns = bulk.turns_until(|bulk| end_of(&bulk.pair, other) == CANCELLED);
            assert!(turns <= WORD_AND_ANSWER, "{kind}: {turns} turns");
            bulk.finish();
        });
    }
}

#[test]
fn messages_and_notifications_pass_bulk() {
    of_each_kind(|mut bulk| {
        let end = bulk.sender;
        // One that goes ahead, and one whose receive must be known.
        let sends = [LITTLE, 20].map(|bytes| bulk.post(end, Direction::Send, 6, bytes));
        let receives = [LITTLE, 20].map(|bytes| bulk.post(1 - end, Direction::Receive, 6, bytes));
        bulk.pair.ends[end].notify(3).unwrap();
        let done = Some(End::Completed(Outcome::Done));
        let turns = bulk.turns_until(|bulk| {
            let ends = &bulk.pair.ends;
            sends.iter().all(|send| ends[end].posted[*send].end == done)
                && receives.iter().all(|receive| ends[1 - end].posted[*receive].end == done)
                && ends[end].notes.sent.is_empty()
        });
        assert!(turns <= WORD_AND_ANSWER, "{turns} turns");
        bulk.finish();
    });
}

/// Chunks to the end that sends the bulk: its word that it has room for more is on the same link.
#[test]
fn credit_passes_bulk() {
    const CHUNKS: u64 = 20;
    of_each_kind(|mut bulk| {
        let end = bulk.sender;
        let receive = bulk.post(end, Direction::Receive, 7, CHUNKS * u64::from(CHUNK_BYTES));
        bulk.post(1 - end, Direction::Send, 7, CHUNKS * u64::from(CHUNK_BYTES));
        let done = Some(End::Completed(Outcome::Done));
        let turns = bulk.turns_until(|bulk| bulk.pair.ends[end].posted[receive].end == done);
        let for_credit = (CHUNKS as usize).div_ceil(CHANNELS.into());
        assert!(turns <= WORD_AND_ANSWER * (1 + for_credit), "{turns} turns");
        bulk.finish();
    });
}

/// What has begun is finished, and the goodbye is said with its last part.
#[test]
fn a_goodbye_waits_for_the_bulk_that_has_begun_and_no_longer() {
    for end in ENDS {
        of_each_kind(|mut bulk| {
            bulk.pair.ends[end].disconnect().unwrap();
            while bulk.is_under_way() {
                assert!(bulk.pair.ends.iter().all(|end| end.over.is_none()), "it is cut off");
                bulk.turn();
            }
            bulk.pair.ends[1 - end].disconnect().unwrap();
            let mut turns = 0;
            while bulk.pair.ends.iter().any(|end| end.over.is_none()) {
                bulk.turn();
                turns += 1;
                assert!(turns <= 2 * WORD_AND_ANSWER, "it waits for more than the bulk");
            }
            assert_eq!(outcome(&bulk.pair, bulk.transfer), Outcome::Done);
            assert_parted(&mut bulk.pair);
        });
    }
}
