//! Client of one-sided operations: prepares operations once, and posts them.

use std::collections::VecDeque;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use tcpx_core::{Error, MemoryRange, Operation, RemoteKey, RemoteRange};

use super::end::{ExportedKey, Layout, OneSidedEnd, Turn, TurnEnd};
use crate::failure::Failure;
use crate::output::Progress;
use crate::perf::pattern::{Content, Mismatch};
use crate::perf::plan::{Direction, Go};
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
    let ranges = prepare(end, &key, Layout::Ranges)?;
    let whole = prepare(end, &key, Layout::Whole)?;
    let (mut times, turns) = (CaseTimes::default(), end.turns());
    for turn in &turns {
        let (operations, series) = match turn.layout {
            Layout::Ranges => (&ranges, &mut times.session_ns),
            Layout::Whole => (&whole, &mut times.large_ns),
        };
        let mut processor = None;
        let nanos = run_turn(link, end, turn, || match end.turns.is_latency {
            true => one_by_one(end, turn, operations),
            false => {
                let (time, each) = stream(end, operations)?;
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
        let (nanos, mismatch) = run_turn(link, end, &turn, || reposts(end, &turn, &ranges))?;
        times.repost_ns = nanos;
        times.note(mismatch, 0, turn.payload.bytes, "reads that were posted again");
    }
    if end.one_sided.direction == Direction::Write {
        let mismatch = end.buffer.check(turn.payload)?;
        times.note(mismatch, 0, turn.payload.bytes, "the memory that was written from");
    }
    Ok(times)
}

/// Prepares an operation for each slot.
fn prepare(
    end: &OneSidedEnd<'_>,
    key: &RemoteKey,
    layout: Layout,
) -> Result<Vec<Operation>, Failure> {
    let operation = |slot| {
        let (offsets, bytes) = end.ranges(layout, slot);
        let memory = end.buffer.memory;
        let local = offsets.iter().map(|&offset| MemoryRange { memory, offset, bytes });
        let remote = offsets.iter().map(|&offset| RemoteRange { key, offset, bytes });
        let (local, remote) = (local.collect::<Vec<_>>(), remote.collect::<Vec<_>>());
        let kind = end.one_sided.direction.kind();
        Ok(end.buffer.session.prepare(end.peer, kind, &local, &remote)?)
    };
    (0..end.turns.slots).map(operation).collect()
}

/// Fills or poisons the memory, calls `run` when the server is ready, reports the end of the turn,
/// and verifies. Returns the result of `run`, and the first wrong byte.
fn run_turn<T>(
    link: &mut SessionLink<'_>,
    end: &OneSidedEnd<'_>,
    turn: &Turn,
    run: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, Option<Mismatch>), Failure> {
    let (content, is_read) = match end.one_sided.direction {
        Direction::Write => (Content::Sent, false),
        Direction::Read => (Content::Poison, true),
    };
    end.buffer.write(content, turn.payload)?;
    let Go = link.receive()?;
    let outcome = run()?;
    link.send(&TurnEnd)?;
    let mismatch = if is_read { end.buffer.check(turn.payload)? } else { None };
    Ok((outcome, mismatch))
}

/// Returns the time of each operation, in ns.
fn one_by_one(
    end: &OneSidedEnd<'_>,
    turn: &Turn,
    operations: &[Operation],
) -> Result<Vec<u64>, Failure> {
    let time = |(_, operation): (u64, &Operation)| {
        let start = Instant::now();
        operation.post(None)?;
        end.buffer.budget.wait_operation(operation)?;
        Ok(nanos(start.elapsed()))
    };
    turn.iterations.clone().zip(operations).map(time).collect()
}

/// Returns the times of all operations of a turn, together and of each, in ns. One operation for
/// each slot is under way; the oldest is waited for.
fn stream(
    end: &OneSidedEnd<'_>,
    operations: &[Operation],
) -> Result<(ProcessorTimes, Vec<u64>), Failure> {
    let uses = operations.len() * end.turns.rounds as usize;
    let (mut posted, mut each) = (VecDeque::new(), Vec::with_capacity(uses));
    let watch = Stopwatch::start();
    let mut wait = |operation: &Operation, posted: Option<Instant>| {
        end.buffer.budget.wait_operation(operation)?;
        each.extend(posted.map(|posted| nanos(posted.elapsed())));
        Ok::<_, Failure>(())
    };
    for round in 0..end.turns.rounds {
        for operation in operations {
            if round > 0 {
                wait(operation, posted.pop_front())?;
            }
            posted.push_back(Instant::now());
            operation.post(None)?;
        }
    }
    for operation in operations {
        wait(operation, posted.pop_front())?;
    }
    Ok((watch.read(), each))
}

/// Returns the processor time that each post takes of this thread, in ns.
fn reposts(
    end: &OneSidedEnd<'_>,
    turn: &Turn,
    operations: &[Operation],
) -> Result<Vec<u64>, Failure> {
    let Some(operation) = operations.first() else { return Ok(Vec::new()) };
    let time = |_| {
        let start = processor_nanos();
        operation.post(None)?;
        let end_of_post = processor_nanos();
        end.buffer.budget.wait_operation(operation)?;
        Ok(end_of_post.saturating_sub(start))
    };
    turn.iterations.clone().map(time).collect()
}

/// Returns the processor time of this thread, in ns.
fn processor_nanos() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(u64::MAX)
}
