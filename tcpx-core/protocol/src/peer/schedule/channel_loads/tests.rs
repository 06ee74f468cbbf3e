//! Tests of the dealing of chunks, some of them over sockets and NICs in virtual time.

use std::collections::VecDeque;

use super::*;
use crate::plans::plan::Members;

const CHUNK: u32 = 512 << 10;
const MIB: u64 = 1 << 20;

fn as_fast(channels: u16) -> ChannelLoads {
    ChannelLoads::new(channels, CHUNK, CHUNK / 8)
}

fn deal(loads: &mut ChannelLoads, bytes: u64) -> u16 {
    let first_channel = loads.take(bytes, CHUNK);
    let members = Members::Many(Vec::new());
    let (offset, chunk_bytes, gathered) = (0, CHUNK, None);
    let channels = loads.set();
    let plan = ChunkPlan { members, offset, bytes, chunk_bytes, first_channel, channels, gathered };
    loads.dealt(&plan);
    first_channel
}

/// Deals chunks by single ones, and always this many are under way. Each channel sends a chunk
/// in as many turns as `slowness` says. Returns how many each has sent, and the turns until all
/// have.
fn send<const N: usize>(
    loads: &mut ChannelLoads,
    slowness: [u64; N],
    chunks: u64,
    ahead: u64,
) -> ([u64; N], u64) {
    let (mut queued, mut sent, mut left) = ([0; N], [0; N], chunks);
    for turn in 1.. {
        while left > 0 && queued.iter().sum::<u64>() < ahead {
            queued[usize::from(deal(loads, CHUNK.into()))] += 1;
            left -= 1;
        }
        for channel in 0..N {
            if queued[channel] > 0 && turn % slowness[channel] == 0 {
                queued[channel] -= 1;
                sent[channel] += 1;
                loads.finished(Some(channel as u16), CHUNK.into());
            }
        }
        if sent.iter().sum::<u64>() == chunks {
            return (sent, turn);
        }
    }
    unreachable!("turns do not end")
}

/// Channels that are as fast get as much, in turns, and it matters only where they differ by a
/// chunk.
#[test]
fn chunks_go_to_the_channel_that_has_the_least() {
    let mut loads = as_fast(3);
    assert!(!loads.differ());
    assert_eq!(deal(&mut loads, 4 * u64::from(CHUNK)), 0);
    // Two chunks on the first channel, one on each of the others.
    assert!(loads.differ());
    assert_eq!([(); 2].map(|()| deal(&mut loads, CHUNK.into())), [1, 2]);
    assert!(!loads.differ());
    loads.finished(Some(1), 1);
    assert_eq!((loads.differ(), loads.first()), (false, 1));
    loads.finished(None, CHUNK.into());
    loads.finished(Some(9), CHUNK.into());
    loads.finished(Some(2), u64::MAX);
    assert_eq!((loads.differ(), loads.first()), (true, 2));
}

/// Two channels, one four times as fast as the other, end at the same time, but for a chunk of
/// the slow one; and so do eight as fast ones.
#[test]
fn channels_end_together_however_fast_they_are() {
    let mut loads = as_fast(2);
    let warmed_up = send(&mut loads, [4, 1], 100, 8);
    assert!(warmed_up.1 <= 88, "{warmed_up:?}");
    for _ in 0..20 {
        let ([slow, fast], turns) = send(&mut loads, [4, 1], 50, 8);
        assert!(turns <= 44 && slow + fast == 50, "{slow} and {fast} in {turns}");
    }
    let mut loads = as_fast(8);
    let (sent, turns) = send(&mut loads, [1; 8], 800, 32);
    assert_eq!((sent, turns), ([100; 8], 100));
    assert!(!loads.differ());
}

/// Half as slow again is not slower: channels of one NIC are never quite as fast.
#[test]
fn small_differences_do_not_count() {
    let mut loads = as_fast(2);
    send(&mut loads, [5, 4], 200, 8);
    assert!(!loads.differ());
    send(&mut loads, [8, 4], 200, 8);
    assert!(loads.differ());
}

/// A channel that was far too slow is tried again before long, and gets as much as another once
/// it is as fast.
#[test]
fn a_channel_that_was_slow_is_tried_again() {
    let mut loads = as_fast(2);
    let ([slow, _], _) = send(&mut loads, [100, 1], 400, 8);
    assert!((1..=12).contains(&slow), "{slow}");
    send(&mut loads, [1, 1], 64, 8);
    let (sent, turns) = send(&mut loads, [1, 1], 100, 8);
    assert_eq!((sent, turns), ([50, 50], 50));
}

/// A channel that sends nothing holds no more than it was dealt, and the other goes on.
#[test]
fn a_channel_that_stands_still_gets_no_more() {
    let mut loads = as_fast(2);
    let mut dealt = [0; 2];
    for _ in 0..1000 {
        let channel = usize::from(deal(&mut loads, CHUNK.into()));
        dealt[channel] += 1;
        loads.finished(Some(1), CHUNK.into());
    }
    assert!(dealt[0] <= 2 && dealt[1] >= 998, "{dealt:?}");
}

/// Bytes that a socket takes ahead of its NIC. With half as many left it takes more.
const UNSENT: u64 = MIB;
/// Steps of a second.
const STEPS: u64 = 10_000;

/// A NIC and the socket before it.
struct Nic {
    bytes_a_step: u64,
    chunks: VecDeque<(u64, u64)>,
    unsent: u64,
    is_full: bool,
}

impl Nic {
    /// Takes what the socket has room for. Returns the bytes of each chunk that it has all of.
    fn take(&mut self) -> Vec<u64> {
        let mut done = Vec::new();
        self.is_full &= self.unsent >= UNSENT / 2;
        while !self.is_full
            && let Some((bytes, left)) = self.chunks.front_mut()
        {
            let some = (UNSENT - self.unsent).min(*left);
            *left -= some;
            self.unsent += some;
            self.is_full = self.unsent == UNSENT;
            if *left == 0 {
                done.push(*bytes);
                self.chunks.pop_front();
            }
        }
        done
    }

    fn send(&mut self) {
        self.unsent = self.unsent.saturating_sub(self.bytes_a_step);
    }

    fn is_idle(&self) -> bool {
        self.chunks.is_empty() && self.unsent == 0
    }
}

/// Sends messages that are posted together over NICs of these MB/s, again and again. Returns the
/// share of what all carry that the last of these rounds have reached, in percent, and how much of
/// their bytes went over the first.
fn percent(rates: &[u64], (messages, bytes): (u64, u64), rounds: u64) -> [u64; 2] {
    let mut loads = as_fast(rates.len() as u16);
    let nic = |rate| Nic {
        bytes_a_step: rate * 1_000_000 / STEPS,
        chunks: VecDeque::new(),
        unsent: 0,
        is_full: false,
    };
    let mut nics: Vec<Nic> = rates.iter().map(|rate| nic(*rate)).collect();
    let [mut steps, mut over_first] = [0; 2];
    for round in 0..rounds {
        let (mut left, mut under_way) = (vec![bytes; messages as usize], 0);
        loads.rewind_if_idle();
        loop {
            while under_way < 4 * rates.len() as u64 * u64::from(CHUNK)
                && let Some(at) = left.iter().position(|left| *left > 0)
            {
                let section = next(&mut loads, left[at], at + 1 == left.len());
                for (channel, chunk) in section {
                    nics[usize::from(channel)].chunks.push_back((chunk, chunk));
                    left[at] -= chunk;
                    under_way += chunk;
                    over_first += if channel == 0 && 2 * round >= rounds { chunk } else { 0 };
                }
            }
            for (channel, nic) in (0..).zip(&mut nics) {
                for done in nic.take() {
                    loads.finished(Some(channel), done);
                    under_way -= done;
                }
                nic.send();
            }
            steps += u64::from(2 * round >= rounds);
            if left.iter().all(|left| *left == 0) && nics.iter().all(Nic::is_idle) {
                break;
            }
        }
    }
    let sent = messages * bytes * (rounds - rounds.div_ceil(2));
    let carried: u64 = nics.iter().map(|nic| nic.bytes_a_step).sum::<u64>() * steps;
    [sent * 100 / carried, over_first * 100 / sent]
}

/// Deals the next section of a message with this much left. Returns its chunks.
fn next(loads: &mut ChannelLoads, left: u64, is_last: bool) -> Vec<(u16, u64)> {
    let (channel, bytes, chunk) = match loads.differ() {
        true => {
            let channel = if is_last { loads.first_of_last(left) } else { loads.first() };
            let chunk = loads.chunk_bytes_on(channel);
            (channel, chunk.min(left), chunk as u32)
        }
        false => (loads.first(), left.min(4 * MIB), CHUNK),
    };
    let channels = loads.channels.len() as u16;
    loads.go_behind(channel, bytes, chunk);
    let (members, offset, gathered) = (Members::Many(Vec::new()), 0, None);
    let plan = ChunkPlan {
        members,
        offset,
        bytes,
        chunk_bytes: chunk,
        first_channel: channel,
        channels: loads.set(),
        gathered,
    };
    loads.dealt(&plan);
    let chunk = u64::from(chunk);
    let chunks = (0..bytes.div_ceil(chunk))
        .map(|index| ((channel + index as u16) % channels, (bytes - index * chunk).min(chunk)));
    chunks.collect()
}

/// Two NICs of unequal speed carry nearly what both carry from 16 MiB on, and so do messages that
/// are posted together. Were as much dealt to each, 40, 66 and 18 percent would be reached.
#[test]
fn unequal_nics_carry_what_both_carry() {
    for (rates, message, least) in [
        ([50, 200], (1, 16 * MIB), 95),
        ([50, 200], (1, 64 * MIB), 95),
        ([50, 200], (8, MIB), 95),
        ([50, 200], (8, 4 * MIB), 95),
        ([200, 50], (1, 16 * MIB), 95),
        ([100, 200], (1, 16 * MIB), 95),
        ([20, 200], (1, 16 * MIB), 90),
        ([20, 200], (1, 64 * MIB), 90),
    ] {
        let [reached, over_first] = percent(&rates, message, 20);
        assert!(reached >= least, "{rates:?}, {message:?}: {reached} percent");
        let even = rates[0] * 100 / rates.iter().sum::<u64>();
        assert!(over_first.abs_diff(even) <= 4, "{rates:?}, {message:?}: {over_first}");
    }
}

/// Channels that are as fast are dealt to as if their speed were not looked at: in turns.
#[test]
fn nics_of_one_speed_are_dealt_to_in_turns() {
    for channels in [1, 2, 3, 4, 8] {
        let rates = vec![100; channels];
        for message in
            [(1, MIB), (1, 4 * MIB), (1, 16 * MIB), (1, 64 * MIB), (8, MIB), (8, 4 * MIB)]
        {
            let chunks = message.0 * message.1 / u64::from(CHUNK);
            let most = chunks.div_ceil(channels as u64) + 1;
            let even = chunks as f64 / channels as f64 / most as f64;
            let [reached, _] = percent(&rates, message, 20);
            assert!(reached as f64 >= 90.0 * even, "{channels}, {message:?}: {reached} percent");
        }
    }
}

#[test]
fn what_is_sent_alone_goes_to_the_channel_that_was_used_last() {
    let mut loads = as_fast(4);
    let mut next = |finished: &[u16]| {
        finished.iter().for_each(|channel| loads.finished(Some(*channel), 1000));
        loads.rewind_if_idle();
        deal(&mut loads, 1000)
    };
    assert_eq!([next(&[]), next(&[0]), next(&[0])], [0, 0, 0]);
    // Not alone: by turns.
    assert_eq!([next(&[]), next(&[0]), next(&[])], [1, 2, 3]);
    assert_eq!(next(&[1, 2, 3]), 0);
}
