//! Client of one-sided operations: prepares operations once, and posts them.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use tcpx_core::{Error, RemoteKey};

use super::end::{ExportedKey, Layout, OneSidedEnd, Turn, TurnEnd};
use super::requests::{Request, UnderWay};
use crate::failure::Failure;
use crate::output::Progress;
use crate::perf::operations::Direction;
use crate::perf::pattern::{Content, Mismatch};
use crate::perf::plan::Go;
use crate::perf::processor::{ProcessorTimes, Stopwatch};
use crate::perf::samples::nanos;
use crate::perf::times::{CaseTimes, MOST_UNDER_WAY};
use crate::rendezvous::SessionLink;

pub(super) fn measure(
    link: &mut SessionLink<'_>,
    end: &OneSidedEnd<'_>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let ExportedKey(key) = link.receive()?;
    let key = RemoteKey::deserialize(&key).map_err(Error::from)?;
    let ranges = Request::prepare(end, &key, Layout::Ranges)?;
    let whole = Request::prepare(end, &key, Layout::Whole)?;
    let (mut times, turns) = (CaseTimes::default(), end.turns());
    for turn in &turns {
        let (requests, series) = match turn.layout {
            Layout::Ranges => (&ranges, &mut times.session_ns),
            Layout::Whole => (&whole, &mut times.large_ns),
        };
        let mut processor = None;
        let nanos = run_turn(link, end, turn, |link| match end.turns.is_latency {
            true => one_by_one(link, end, turn, requests),
            false => {
                let (time, each) = stream(link, end, requests)?;
                processor = Some((time, each)).filter(|_| end.costs_count(turn));
                Ok(vec![time.elapsed_ns])
            }
        });
        let (nanos, mismatch) = nanos?;
        let is_counted = |(iteration, _): &(u64, u64)| end.case.is_counted(*iteration);
        let measured = turn.iterations.clone().zip(nanos).filter(is_counted);
        series.extend(measured.map(|(_, nanos)| nanos));
        if let Some((time, each)) = processor {
            times.count(time);
            let room = MOST_UNDER_WAY.saturating_sub(times.under_way_ns.len());
            times.under_way_ns.extend(each.into_iter().take(room));
        }
        times.note(mismatch, turn.iterations.start, turn.payload.bytes, "reads");
        if turn.layout == Layout::Ranges {
            progress.steps(end.case.counted_of(&turn.iterations));
        }
    }
    let mut turn = turns.last().cloned().unwrap_or_else(|| end.repost_turn());
    if end.case.is_first {
        turn = end.repost_turn();
        let (nanos, mismatch) =
            run_turn(link, end, &turn, |link| reposts(link, end, &turn, &ranges))?;
        times.repost_ns = nanos;
        times.note(mismatch, 0, turn.payload.bytes, "reads that were posted again");
    }
    if end.one_sided.direction == Direction::Write {
        let mismatch = end.buffer.check(turn.payload)?;
        times.note(mismatch, 0, turn.payload.bytes, "the memory that was written from");
    }
    Ok(times)
}

/// Fills or poisons the memory, calls `run` when the server is ready, reports the end of the turn,
/// and verifies. Returns the result of `run`, and the first wrong byte.
fn run_turn<T>(
    link: &mut SessionLink<'_>,
    end: &OneSidedEnd<'_>,
    turn: &Turn,
    run: impl FnOnce(&mut SessionLink<'_>) -> Result<T, Failure>,
) -> Result<(T, Option<Mismatch>), Failure> {
    let (content, is_read) = match end.one_sided.direction {
        Direction::Write => (Content::Sent, false),
        Direction::Read => (Content::Poison, true),
    };
    end.buffer.write(content, turn.payload)?;
    let Go = link.receive()?;
    let outcome = run(link)?;
    link.send(&TurnEnd)?;
    let mismatch = if is_read { end.buffer.check(turn.payload)? } else { None };
    Ok((outcome, mismatch))
}

/// Returns the time of each request, in ns.
fn one_by_one(
    link: &mut SessionLink<'_>,
    end: &OneSidedEnd<'_>,
    turn: &Turn,
    requests: &[Request],
) -> Result<Vec<u64>, Failure> {
    let mut under_way = UnderWay::new(requests);
    let time = |slot| {
        let start = Instant::now();
        under_way.post(slot)?;
        under_way.wait(link, end)?;
        Ok(nanos(start.elapsed()))
    };
    let slots = turn.iterations.clone().zip(0..requests.len());
    slots.map(|(_, slot)| slot).map(time).collect()
}

/// Returns the times of all requests of a turn, together and of each, in ns. One for each slot is
/// under way; when one has ended it is posted again.
fn stream(
    link: &mut SessionLink<'_>,
    end: &OneSidedEnd<'_>,
    requests: &[Request],
) -> Result<(ProcessorTimes, Vec<u64>), Failure> {
    let uses = requests.len() * end.turns.rounds as usize;
    let (mut under_way, mut each) = (UnderWay::new(requests), Vec::with_capacity(uses));
    let watch = Stopwatch::start();
    let mut posted = Vec::with_capacity(requests.len());
    for slot in 0..requests.len() {
        posted.push(Instant::now());
        under_way.post(slot)?;
    }
    while each.len() < uses {
        let slot = under_way.wait(link, end)?;
        each.push(nanos(posted[slot].elapsed()));
        if each.len() + requests.len() <= uses {
            posted[slot] = Instant::now();
            under_way.post(slot)?;
        }
    }
    Ok((watch.read(), each))
}

/// Returns the processor time that each post takes of this thread, in ns.
fn reposts(
    link: &mut SessionLink<'_>,
    end: &OneSidedEnd<'_>,
    turn: &Turn,
    requests: &[Request],
) -> Result<Vec<u64>, Failure> {
    let mut under_way = UnderWay::new(requests);
    let time = |_| {
        let start = processor_nanos();
        under_way.post(0)?;
        let end_of_post = processor_nanos();
        under_way.wait(link, end)?;
        Ok(end_of_post.saturating_sub(start))
    };
    turn.iterations.clone().map(time).collect()
}

/// Returns the processor time of this thread, in ns.
fn processor_nanos() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(u64::MAX)
}
