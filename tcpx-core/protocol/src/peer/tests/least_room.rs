//! Two ends with the least room for everything: both send, receive, read, write and notify at once,
//! and nothing waits for what waits for it.

use tcpx_testkit::Random;

use super::driver::{CHUNK_BYTES, Check, End};
use super::one_sided_crossings::SETTING;
use super::pair::{ENDS, Pair};
use super::requests::Request;
use super::setting::{AMPLE, FlowSetting, Setting};
use super::ways::{export, prepare_at};
use crate::frames::eager_terms::{EagerOffer, EagerTerms};
use crate::peer::action::Outcome;
use crate::peer::one_sided::OneSidedTerms;
use crate::peer::one_sided::local_lists::ListLimits;
use crate::peer::schedule::tuning::{Copier, Tuning};
use crate::types::memory::OperationKind::{Read, Write};
use crate::types::{Direction, MemoryType, TransferKey, note_cost};

/// Messages of each end.
const EACH: usize = 10_000;
/// Bytes of a message, by its tag.
const SIZES: [u64; 5] = [0, 8, 20, CHUNK_BYTES as u64 + 1, 300];
/// Bytes of a notification. There is room for one at a time.
const NOTE: usize = 40;
const CHANNELS: u16 = 2;
/// Steps between two posts, and posts that are under way until all of them are finished.
const STEPS: usize = 30;
const MOST_UNDER_WAY: usize = 200;

/// Returns a page of each channel, a message ahead or none, a receive, a notification, a request of
/// each kind and a list of two ranges.
fn least(messages_ahead: u64) -> Setting {
    let room = messages_ahead * EagerTerms::cost(8);
    let offer = EagerOffer {
        bytes: 8,
        buffer_bytes: room as u32,
        device_bytes: u64::MAX,
        access_bytes: 107,
    };
    let note_room = note_cost(NOTE);
    Setting {
        channels: CHANNELS,
        bounce_pages: Some(CHANNELS.into()),
        eager: EagerTerms::agree(offer, offer, CHUNK_BYTES),
        tuning: Tuning { link_chunk_bytes: 50, ..SETTING.tuning },
        kept: FlowSetting { bytes: 0, least: 1, usual: 1, least_unexpected: room },
        one_sided: OneSidedTerms {
            lists: ListLimits { lists: 1, ranges: 2 },
            note_bytes: note_room,
            queued_note_bytes: note_room,
            asked: 1,
            planned: 1,
            ..AMPLE
        },
        ..SETTING
    }
}

struct Story {
    random: Random,
    pair: Pair,
    /// Operations on memory of the other end, by end.
    operations: [Vec<TransferKey>; 2],
    /// Posts of those.
    requested: [usize; 2],
    notified: [usize; 2],
    under_way: usize,
}

impl Story {
    fn new(seed: u64, setting: Setting) -> Self {
        let mut pair = Pair::up([setting; 2]);
        ENDS.iter().for_each(|end| (0..2).for_each(|_| export(&mut pair, *end)));
        let operations = ENDS.map(|end| {
            let lengths: [[u64; 2]; 3] = [[5, 3], [60, 40], [200, 300]];
            let listed = lengths.iter().flat_map(|lengths| [(Read, lengths), (Write, lengths)]);
            let listed =
                listed.map(|(kind, lengths)| prepare_at(&mut pair, end, kind, lengths, [0, 1]));
            let mut all: Vec<_> = listed.collect();
            let requests = &mut pair.ends[end].requests;
            let (transfer, request) = (requests.next_transfer(), Request::of_none(requests));
            requests.all.insert(transfer, request);
            all.push(transfer);
            all
        });
        let (requested, notified) = ([0; 2], [0; 2]);
        Self { random: Random::new(seed), pair, operations, requested, notified, under_way: 0 }
    }

    /// Posts one message of each kind at each end, where there may be one.
    fn turn(&mut self, number: usize) -> Check {
        for end in ENDS {
            // Sends of some turns before their receives, and receives before their sends.
            let directions = [Direction::Send, Direction::Receive];
            let direction = directions[(number / 32 + number + end) % 2];
            let other = directions[(number / 32 + number + end + 1) % 2];
            self.message(end, direction, number)?;
            self.message(end, other, number)?;
            let transfer = self.random.pick(&self.operations[end]);
            let note = self.random.one_in(2).then(|| vec![1; NOTE].into());
            self.requested[end] += usize::from(self.pair.ends[end].post_request(transfer, note)?);
            let before = self.pair.ends[end].notes.sent.len();
            self.pair.ends[end].notify(self.random.pick(&[0, NOTE]))?;
            self.notified[end] += self.pair.ends[end].notes.sent.len() - before;
        }
        self.under_way += 4;
        (0..STEPS).try_for_each(|_| self.step())?;
        if self.under_way > MOST_UNDER_WAY {
            self.under_way = 0;
            self.settle()?;
        }
        Ok(())
    }

    /// Sends of both ends of a turn have the same tag, and so the same size.
    fn message(&mut self, end: usize, direction: Direction, number: usize) -> Check {
        let tag = number % SIZES.len();
        let memory = self.random.pick(&[MemoryType::Host, MemoryType::Device]);
        self.pair.ends[end].post(direction, &[(tag as i64, SIZES[tag], memory, false)])
    }

    fn step(&mut self) -> Check {
        let (end, channel) = (self.random.below(2), self.random.below(CHANNELS.into()));
        match self.random.below(16) {
            0..=7 => self.pair.deliver(end).map(drop),
            8 | 9 => self.pair.send_chunk(end, channel).map(drop),
            10 | 11 => self.pair.receive_chunk(end, channel).map(drop),
            12 | 13 => self.pair.consume_chunk(end, channel).map(drop),
            14 => self.pair.ends[end].take_notes(1).map(drop),
            _ => self.pair.ends[end].round().map(drop),
        }
    }

    /// Lets everything end, and every message well.
    fn settle(&mut self) -> Check {
        self.pair.settle()?;
        self.pair.check_at_rest()?;
        let done = Some(End::Completed(Outcome::Done));
        for end in &self.pair.ends {
            let posts = end.requests.all.values().filter_map(|request| request.post.as_ref());
            assert!(posts.clone().all(|post| post.end == done), "{:?}", posts.collect::<Vec<_>>());
            let unfinished = end.posted.values().find(|posted| posted.end != done);
            assert!(unfinished.is_none(), "{unfinished:?}");
        }
        Ok(())
    }
}

fn told(seed: u64, setting: Setting) {
    let mut story = Story::new(seed, setting);
    let told = (0..EACH).try_for_each(|number| story.turn(number)).and_then(|()| story.settle());
    told.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}\n{setting:?}"));
    for end in ENDS {
        let all = story.pair.ends[end].posted.len();
        let (requested, notified) = (story.requested[end], story.notified[end]);
        assert_eq!(all, 2 * EACH);
        assert!(requested + notified > EACH / 2, "{requested} requests, {notified} notifications");
    }
}

#[test]
fn two_ends_with_the_least_room_finish_everything() {
    told(1, least(1));
}

#[test]
fn two_ends_with_the_least_room_and_none_for_messages_ahead_finish_everything() {
    told(2, Setting { copier: Some(Copier::Cpu), ..least(0) });
}

#[test]
fn two_ends_with_the_least_room_and_a_full_link_finish_everything() {
    told(3, Setting { link_is_full: true, sends_end_late: true, ..least(1) });
}
