//! Messages of one tag: the k-th send meets the k-th receive, whatever way each takes, whichever is
//! posted first, and in whatever order lanes move.

use tcpx_testkit::Random;

use super::driver::{CHUNK_BYTES, Check, End, ensure};
use super::one_sided_crossings::SETTING;
use super::pair::{ENDS, Pair};
use super::setting::{FlowSetting, KEEPS_ALL, Setting};
use crate::frames::eager_terms::{EagerOffer, EagerTerms};
use crate::peer::action::Outcome;
use crate::peer::schedule::tuning::{Copier, Tuning};
use crate::types::{Direction, MemoryType};

/// Conversations in each run of the tests, for each kind of terms.
const FEW: u64 = 400;
/// Conversations in a deep run.
const MANY: u64 = 4_000;

const TAG: i64 = 7;
/// Of a message that travels with its frame, of some that share a chunk, of one that has a few
/// chunks, and of one that is scheduled in sections.
const SIZES: [u64; 7] = [1, 8, 8, 20, CHUNK_BYTES as u64 + 1, 200, 1000];

/// Messages that may travel on the link.
#[derive(Clone, Copy, Debug)]
enum Eager {
    Off,
    /// Only those whose receive is known.
    Delivered,
    /// Also those whose receive is not known.
    Ahead,
}

impl Eager {
    fn terms(self) -> EagerTerms {
        let buffer_bytes = match self {
            Self::Off => return EagerTerms::OFF,
            Self::Delivered => 0,
            // Few have room at a time, so that some go ahead and others wait.
            Self::Ahead => 600,
        };
        let offer = EagerOffer { bytes: 8, buffer_bytes, device_bytes: u64::MAX, access_bytes: 0 };
        EagerTerms::agree(offer, offer, CHUNK_BYTES)
    }
}

fn setting(random: &mut Random, eager: Eager, channels: u16, on_demand: bool) -> Setting {
    Setting {
        channels,
        staging: random.pick(&[0, 0b1, u16::MAX]),
        staging_is_late: random.one_in(2),
        copier: random.pick(&[None, Some(Copier::Cpu)]),
        tuning: Tuning {
            short_bytes: u64::from(CHUNK_BYTES),
            section_bytes: u64::from(CHUNK_BYTES) * 2,
            ahead_bytes: random.pick(&[1, 200]),
            plan_bytes: random.pick(&[0, 1000]),
            ..SETTING.tuning
        },
        bounce_pages: random.pick(&[None, Some(u64::from(channels))]),
        eager: eager.terms(),
        link_is_full: random.one_in(3),
        kept: random.pick(&[
            KEEPS_ALL,
            // Most receives are announced later than they are posted.
            FlowSetting { bytes: 0, least: 256, usual: 2, ..KEEPS_ALL },
        ]),
        keeps_chunks: false,
        sends_end_late: random.one_in(2),
        on_demand,
        ..SETTING
    }
}

/// Messages of one direction: their sizes, and how many of them each end has posted.
struct Queue {
    sizes: Vec<u64>,
    sent: usize,
    received: usize,
}

impl Queue {
    /// Returns the next messages to be posted at one end.
    fn next(&mut self, direction: Direction, most: usize) -> &[u64] {
        let posted = match direction {
            Direction::Send => &mut self.sent,
            Direction::Receive => &mut self.received,
        };
        let from = *posted;
        *posted = self.sizes.len().min(from + most);
        &self.sizes[from..*posted]
    }

    fn is_posted(&self) -> bool {
        self.sent == self.sizes.len() && self.received == self.sizes.len()
    }
}

/// Kind of operations that are posted first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Sends,
    Receives,
    Any,
}

struct Story {
    random: Random,
    pair: Pair,
    /// By the end that sends.
    queues: [Queue; 2],
    first: First,
}

impl Story {
    fn new(seed: u64, eager: Eager) -> Self {
        let mut random = Random::new(seed);
        let (channels, on_demand) = (1 + random.below(3) as u16, random.one_in(3));
        let settings = ENDS.map(|_| setting(&mut random, eager, channels, on_demand));
        let queues = ENDS.map(|_| Queue {
            sizes: (0..random.below(30)).map(|_| random.pick(&SIZES)).collect(),
            sent: 0,
            received: 0,
        });
        let first = random.pick(&[First::Sends, First::Receives, First::Any]);
        Self { random, pair: Pair::up(settings), queues, first }
    }

    fn tell(&mut self) -> Check {
        while !self.queues.iter().all(Queue::is_posted) {
            self.step()?;
        }
        self.pair.settle()?;
        self.pair.check_at_rest()?;
        for end in ENDS {
            let all = self.queues.iter().map(|queue| queue.sizes.len()).sum::<usize>();
            let posted = &self.pair.ends[end].posted;
            ensure!(posted.len() == all, "{} of {all} are posted", posted.len());
            for message in posted.values() {
                ensure!(message.end == Some(End::Completed(Outcome::Done)), "{message:?}");
            }
        }
        ENDS.into_iter().try_for_each(|end| self.pair.ends[end].disconnect())?;
        self.pair.settle()?;
        // All are done, so what met in the order of the posts met as the k-th the k-th.
        self.pair.check_end(false)
    }

    fn step(&mut self) -> Check {
        let (end, random) = (self.random.below(2), &mut self.random);
        let channel = random.below(self.pair.ends[end].sent.len());
        match random.below(12) {
            0 | 1 => self.post(end),
            2..=5 => self.pair.deliver(end).map(drop),
            6 | 7 => self.pair.send_chunk(end, channel).map(drop),
            8 => self.pair.receive_chunk(end, channel).map(drop),
            9 => self.pair.consume_chunk(end, channel).map(drop),
            10 => self.pair.ends[end].end_send(channel).map(drop),
            _ => {
                self.pair.step_comms(end)?;
                self.pair.ends[end].round().map(drop)
            }
        }
    }

    fn post(&mut self, sender: usize) -> Check {
        let direction = match self.first {
            First::Sends if self.queues[sender].sent < self.queues[sender].sizes.len() => {
                Direction::Send
            }
            First::Receives if self.queues[sender].received < self.queues[sender].sizes.len() => {
                Direction::Receive
            }
            First::Any => self.random.pick(&[Direction::Send, Direction::Receive]),
            First::Sends => Direction::Receive,
            First::Receives => Direction::Send,
        };
        let most = self.random.pick(&[1, 1, 2, 7]);
        let random = &mut self.random;
        let messages: Vec<_> = (self.queues[sender].next(direction, most).iter())
            .map(|bytes| {
                let memory = random.pick(&[MemoryType::Host, MemoryType::Device]);
                (TAG, *bytes, memory, random.one_in(2))
            })
            .collect();
        let end = if direction == Direction::Send { sender } else { 1 - sender };
        self.pair.ends[end].post(direction, &messages)
    }
}

fn send_all_lists(eager: Eager, seeds: u64) {
    for seed in 0..seeds {
        let told = Story::new(seed, eager).tell();
        told.unwrap_or_else(|wrong| panic!("{eager:?}, seed {seed}: {wrong}"));
    }
}

#[test]
fn the_kth_send_of_a_tag_meets_the_kth_receive_on_channels() {
    send_all_lists(Eager::Off, FEW);
}

#[test]
fn the_kth_send_of_a_tag_meets_the_kth_receive_where_short_ones_are_delivered() {
    send_all_lists(Eager::Delivered, FEW);
}

#[test]
fn the_kth_send_of_a_tag_meets_the_kth_receive_where_short_ones_go_ahead() {
    send_all_lists(Eager::Ahead, FEW);
}

#[test]
#[ignore = "deep: 12,000 conversations"]
fn the_kth_send_of_a_tag_meets_the_kth_receive_in_many_orders() {
    for eager in [Eager::Off, Eager::Delivered, Eager::Ahead] {
        send_all_lists(eager, MANY);
    }
}
