//! Conversations whose steps come in any order, by seed: every posted operation ends exactly once,
//! no frame of a correct end is ever an error to the other, and both ends agree on what was moved.

mod requesting;
pub(super) mod tally;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tcpx_testkit::Random;

use super::driver::{CHUNK_BYTES, Check, Driver, Over, ensure};
use super::pair::{ENDS, Pair};
use super::setting::{DEAL_AT_ONCE, FlowSetting, KEEPS_ALL, Setting};
use crate::frames::eager_terms::{EagerOffer, EagerTerms};
use crate::frames::frame::Frame;
use crate::peer::SLICE;
use crate::peer::action::Ending;
use crate::peer::one_sided::local_lists::ListLimits;
use crate::peer::one_sided::{MOST_PLANNED, OneSidedTerms};
use crate::peer::schedule::tuning::{Copier, Tuning};
use crate::types::{Direction, MemoryType};

/// Conversations in each run of the tests.
const FEW: u64 = 4_000;
/// Conversations in a deep run. TCPX_TEST_INTERLEAVINGS asks for others.
const MANY: u64 = 40_000;

/// One conversation after the other, as of sessions that connect again.
struct Story {
    random: Random,
    pair: Pair,
    steps: Vec<String>,
    /// Whether something happened after which operations may be lost: a cut, a failed comm, a leave
    /// too early.
    was_disturbed: bool,
}

/// Returns whether both ends have lost a channel, and no other was left.
fn has_no_channel_left(end: &Driver) -> bool {
    matches!(end.over, Some(Over::Said(Ending::NoChannelLeft(_))))
}

/// Returns an offer of the small messages that an end takes on the link.
fn offer(random: &mut Random) -> EagerOffer {
    EagerOffer {
        bytes: random.pick(&[0, 3, 8, 64, 64, 64]),
        buffer_bytes: random.pick(&[0, 160, 176, 400, 1500, 1500]),
        device_bytes: random.pick(&[0, 5, 40, u64::MAX, u64::MAX, u64::MAX]),
        access_bytes: random.pick(&[0, 0, 60, 300, u64::MAX]),
    }
}

/// Returns how much both ends tell and ask at a time.
fn agreed(random: &mut Random) -> OneSidedTerms {
    OneSidedTerms {
        lists: ListLimits {
            lists: random.pick(&[1, 2, 1000]),
            ranges: random.pick(&[9, 12, 1000]),
        },
        note_bytes: random.pick(&[330, 1000, 100_000]),
        queued_note_bytes: 0,
        asked: random.pick(&[1, 2, 1000]),
        planned: MOST_PLANNED,
        receives_host: true,
        scatters_host: true,
    }
}

/// Makes a setting in which both ends have channels, and make them at once or when something needs
/// them.
fn setting(
    random: &mut Random,
    (channels, on_demand, keeps_chunks): (u16, bool, bool),
    offers: [EagerOffer; 2],
    agreed: OneSidedTerms,
    own: FlowSetting,
) -> Setting {
    let (shortest_chunk, longest_chunk) = random.pick(&[(CHUNK_BYTES, CHUNK_BYTES), (8, 30)]);
    let spare_pages = random.pick(&[None, Some(0), Some(1), Some(5)]);
    Setting {
        channels,
        staging: random.pick(&[0, 0b1, 0b10, 0b101, u16::MAX, u16::MAX]),
        staging_is_late: random.one_in(2),
        copier: random.pick(&[None, Some(Copier::Cpu), Some(Copier::Gpu)]),
        tuning: Tuning {
            shortest_chunk,
            longest_chunk,
            short_bytes: random.pick(&[8, 64, u64::MAX]),
            section_bytes: u64::from(CHUNK_BYTES) * random.pick(&[1, 2, 3]),
            ahead_bytes: random.pick(&[1, 64, 200, 1000]),
            plan_bytes: random.pick(&[0, 20, 1000]),
            link_chunk_bytes: random.pick(&[1, 8, 50, 1000]),
            ..DEAL_AT_ONCE
        },
        has_progress_thread: random.one_in(2),
        is_named: !random.one_in(4),
        slice: random.pick(&[1, 2, 3, SLICE]),
        bounce_pages: spare_pages.map(|spare| spare + u64::from(channels)),
        is_crowded: random.one_in(2),
        eager: EagerTerms::agree(offers[0], offers[1], CHUNK_BYTES),
        link_is_full: random.one_in(4),
        one_sided: OneSidedTerms {
            queued_note_bytes: random.pick(&[330, 1000, 100_000]),
            planned: random.pick(&[1, 500, MOST_PLANNED]),
            receives_host: !random.one_in(8),
            scatters_host: !random.one_in(4),
            ..agreed
        },
        kept: random.pick(&[
            FlowSetting { bytes: KEEPS_ALL.bytes, usual: KEEPS_ALL.usual, ..own },
            FlowSetting { bytes: KEEPS_ALL.bytes, usual: KEEPS_ALL.usual, ..own },
            FlowSetting { bytes: 0, usual: 1, ..own },
            FlowSetting { bytes: 1000, usual: 3, ..own },
        ]),
        keeps_chunks,
        sends_end_late: random.one_in(2),
        on_demand,
    }
}

fn conversation(random: &mut Random) -> Pair {
    let (count, on_demand) = (1 + random.below(3) as u16, random.one_in(3));
    let channels = (count, on_demand, count > 1 && random.one_in(2));
    let [left, right] = ENDS.map(|_| offer(random));
    let agreed = agreed(random);
    // What is a peer's own, both ends know.
    let own = random.pick(&[
        KEEPS_ALL,
        FlowSetting { least: 1, least_unexpected: 0, ..KEEPS_ALL },
        FlowSetting { least: 2, least_unexpected: 200, ..KEEPS_ALL },
    ]);
    let settings =
        [[left, right], [right, left]].map(|offers| setting(random, channels, offers, agreed, own));
    if random.one_in(3) { Pair::new(settings) } else { Pair::up(settings) }
}

impl Story {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let pair = conversation(&mut random);
        Self { random, pair, steps: Vec::new(), was_disturbed: false }
    }

    fn tell(&mut self) -> Check {
        loop {
            let steps = 10 + self.random.below(60);
            for _ in 0..steps {
                let end = self.random.below(2);
                self.step(end)?;
            }
            self.close()?;
            if !self.random.one_in(4) {
                return Ok(());
            }
            self.write_down("they connect again".into());
            self.pair = conversation(&mut self.random);
            self.was_disturbed = false;
        }
    }

    /// Makes one step at one end.
    fn step(&mut self, end: usize) -> Check {
        match self.random.below(70) {
            0..=9 => self.post(end),
            10..=13 => self.cancel(end),
            14..=22 => {
                self.write_down(format!("{end} reads a frame"));
                self.pair.deliver(end).map(drop)
            }
            23..=27 => {
                let channel = self.random.below(self.pair.ends[end].sent.len());
                self.write_down(format!("{end} sends a chunk on channel {channel}"));
                self.pair.send_chunk(end, channel).map(drop)
            }
            28..=32 => {
                let channel = self.random.below(self.pair.ends[end].sent.len());
                self.write_down(format!("{end} receives a chunk on channel {channel}"));
                self.pair.receive_chunk(end, channel).map(drop)
            }
            33 | 34 => {
                self.write_down(format!("comms of {end} come up"));
                self.pair.step_comms(end).map(drop)
            }
            35 => {
                self.write_down(format!("{end} is named"));
                self.pair.ends[end].input(|protocol| protocol.handle_named())
            }
            36 => {
                let time = Duration::from_millis(self.random.below(2000) as u64);
                self.write_down(format!("{time:?} pass"));
                self.pair.pass(time)?;
                // An end that was silent for too long is given up.
                self.was_disturbed |= self.pair.has_given_up();
                Ok(())
            }
            37 if self.pair.may_see_link_end(end) => {
                self.write_down(format!("{end} sees the end of its link"));
                self.pair.see_link_end(end)
            }
            38 if self.random.one_in(6) => {
                self.write_down(format!("{end} leaves"));
                self.leave(end)
            }
            39 if self.random.one_in(60) => self.disturb(end),
            40 | 41 => {
                self.write_down(format!("a round of {end} begins"));
                self.pair.ends[end].round().map(drop)
            }
            42..=44 => {
                let channel = self.random.below(self.pair.ends[end].sent.len());
                self.write_down(format!("{end} consumes a chunk of channel {channel}"));
                self.pair.consume_chunk(end, channel).map(drop)
            }
            45 => {
                self.write_down(format!("others share the bounce buffer of {end}"));
                if let Some(bounce) = self.pair.ends[end].bounce() {
                    bounce.disturb(&mut self.random);
                }
                Ok(())
            }
            46..=48 => {
                let channel = self.random.below(self.pair.ends[end].sent.len());
                self.write_down(format!("{end} closes channel {channel} if it is lost"));
                self.pair.ends[end].close_channel(channel).map(drop)
            }
            49 if self.random.one_in(2) => self.lose_channel(end),
            50.. => self.step_request(end),
            _ => Ok(()),
        }
    }

    fn post(&mut self, end: usize) -> Check {
        let direction = self.random.pick(&[Direction::Send, Direction::Receive]);
        let count = self.random.pick(&[1, 1, 1, 1, 2, 5, 9]);
        let messages: Vec<(i64, u64, MemoryType, bool)> = (0..count)
            .map(|_| {
                let tag = [0, 1, 1 << 32][self.random.below(3)];
                let bytes = self.random.pick(&[8, 8, 8, 8, 8, 8, 12, 0, 3, 64, 65, 300, 1000]);
                let memory = self.random.pick(&[MemoryType::Host, MemoryType::Device]);
                (tag, bytes, memory, self.random.one_in(2))
            })
            .collect();
        self.write_down(format!("{end} posts {direction:?} {messages:?}"));
        self.pair.ends[end].post(direction, &messages)
    }

    /// Loses a channel at one end or at both, with what is under way on it.
    fn lose_channel(&mut self, end: usize) -> Check {
        let driver = &self.pair.ends[end];
        let channels = driver.kept.len();
        let is_known = driver.kept.iter().any(|kept| kept.is_lost);
        if !driver.setting.keeps_chunks || is_known && !self.random.one_in(3) {
            return Ok(());
        }
        let channel = self.random.below(channels);
        let still_arrive = ENDS.map(|_| self.random.pick(&[0, 0, 1, 2, 1000]));
        self.write_down(format!("channel {channel} goes down, and {end} learns of it"));
        self.pair.take_down(channel, still_arrive);
        self.pair.ends[end].fail_channel(channel)?;
        self.was_disturbed |= self.pair.ends[end].over == Some(Over::ByDriver);
        if self.random.one_in(3) && !self.was_disturbed {
            self.write_down("so does the other end".into());
            self.pair.ends[1 - end].fail_channel(channel)?;
            self.was_disturbed |= self.pair.ends[1 - end].over == Some(Over::ByDriver);
        }
        Ok(())
    }

    fn cancel(&mut self, end: usize) -> Check {
        let posted: Vec<_> = self.pair.ends[end].posted.keys().collect();
        if posted.is_empty() {
            return Ok(());
        }
        let transfer = self.random.pick(&posted);
        self.write_down(format!("{end} cancels {:?}", self.pair.ends[end].posted[transfer]));
        self.pair.ends[end].cancel(transfer)
    }

    /// Leaves. Leaving before the peer can be up is an abort, after which what the peer posts is
    /// lost.
    fn leave(&mut self, end: usize) -> Check {
        self.pair.ends[end].disconnect()?;
        self.was_disturbed |= self.pair.ends[end].over == Some(Over::ByDriver);
        Ok(())
    }

    /// Cuts the link after any frame, or has a comm fail at one end.
    fn disturb(&mut self, end: usize) -> Check {
        self.was_disturbed = true;
        if self.random.one_in(2) {
            let read = ENDS.map(|_| self.random.below(4));
            self.write_down(format!("the link is cut after {read:?} frames"));
            self.pair.cut(read);
            return Ok(());
        }
        self.write_down(format!("a comm of {end} fails"));
        self.pair.ends[end].outbox.push_back(Frame::Abort("a comm has failed".into()));
        self.pair.ends[end].end(Over::ByDriver)
    }

    /// Brings both ends to their end, whatever is under way.
    fn close(&mut self) -> Check {
        self.write_down("everything comes to its end".into());
        for end in ENDS {
            self.pair.ends[end].input(|protocol| protocol.handle_named())?;
        }
        self.pair.settle()?;
        self.was_disturbed |= self.pair.ends.iter().any(has_no_channel_left);
        if !self.was_disturbed {
            self.pair.check_at_rest()?;
        }
        let first = self.random.below(2);
        self.leave(first)?;
        if self.random.one_in(2) {
            self.pair.settle()?;
        }
        self.leave(1 - first)?;
        self.pair.settle()?;
        self.was_disturbed |= self.pair.ends.iter().any(has_no_channel_left);
        self.pair.check_end(self.was_disturbed)?;
        let parted = Over::Said(Ending::Goodbye);
        let is_parted = ENDS.iter().all(|end| self.pair.ends[*end].over == Some(parted.clone()));
        let overs = ENDS.map(|end| &self.pair.ends[end].over);
        ensure!(self.was_disturbed || is_parted, "they part so: {overs:?}");
        Ok(())
    }

    fn write_down(&mut self, step: String) {
        if TELLS.with(Cell::get) {
            self.steps.push(step);
        }
    }
}

thread_local! {
    /// Whether steps are written down: only of a story that is known to end badly.
    static TELLS: Cell<bool> = const { Cell::new(false) };
}

/// Tells the story of a seed. Returns its fault as an error, and its steps.
fn tell(seed: u64) -> Result<(), (String, Vec<String>)> {
    let mut story = Story::new(seed);
    let told = catch_unwind(AssertUnwindSafe(|| story.tell()));
    let told = told.unwrap_or_else(|_| Err("it panics".to_owned()));
    told.map_err(|wrong| (wrong, std::mem::take(&mut story.steps)))
}

fn send_all_lists(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        if tell(seed).is_ok() {
            continue;
        }
        TELLS.with(|tells| tells.set(true));
        let (wrong, steps) = tell(seed).expect_err("a seed tells one story");
        panic!("seed {seed}: {wrong}\n{}", steps.join("\n"));
    }
}

fn many() -> u64 {
    let asked = std::env::var("TCPX_TEST_INTERLEAVINGS").ok();
    asked.map_or(MANY, |asked| asked.parse().expect("a number"))
}

#[test]
fn any_interleaving_ends_every_operation_once() {
    tally::send_all_and_count(FEW, false);
}

#[test]
#[ignore = "deep: 40,000 conversations"]
fn any_of_many_interleavings_ends_every_operation_once() {
    tally::send_all_and_count(many(), true);
}
