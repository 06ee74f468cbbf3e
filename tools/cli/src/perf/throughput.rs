//! Throughput: the same bytes from one end to the other in each iteration, in turns over the
//! session and over plain sockets.

use super::baseline::PlainSockets;
use super::case::PlannedCase;
use super::data_path::{DataPath, PathStep, Payload};
use super::gate::Gate;
use super::pattern::{Content, Mismatch, Pattern};
use super::plan::{Go, LARGE_BYTES, MAX_PATHS, Mode, Receives};
use super::posts;
use super::processor::{ProcessorTimes, Stopwatch};
use super::session_path::SessionPath;
use super::test_buffer::TestBuffer;
use super::times::CaseTimes;
use crate::failure::Failure;
use crate::output::Progress;
use crate::rendezvous::{ConnectedEnd, SessionLink};

/// Measures one size. Both ends walk through the same iterations.
pub(super) fn measure(
    connected: &mut ConnectedEnd<'_>,
    case: PlannedCase<'_>,
    plain: Option<&mut PlainSockets>,
    gate: Gate<'_>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let (session, peer) = (connected.session, connected.peer());
    let (total, budget) = (case.total_bytes(), connected.link.budget());
    let memory = session.allocate(total, connected.memory.memory_type())?;
    let path = |name, posts| {
        let buffer = TestBuffer { session, memory, budget };
        SessionPath { buffer, peer, name, posts, transfer: None }
    };
    let (mut own, mut large) = match case.plan.mode {
        Mode::Messages(batch) => {
            let posts = posts::large(memory, total, LARGE_BYTES);
            let large = path("the session in large messages", posts);
            (path("the session", posts::small(memory, batch, case.bytes)), Some(large))
        }
        _ => (path("the session", posts::whole(memory, total)), None),
    };
    let mut ways = vec![MeasuredPath { series: |times| &mut times.session_ns, path: &mut own }];
    ways.extend(
        large.as_mut().map(|path| MeasuredPath { series: |times| &mut times.large_ns, path }),
    );
    ways.extend(plain.map(|path| MeasuredPath { series: |times| &mut times.raw_ns, path }));
    let times = take_turns(connected, case, &mut ways, gate, progress)?;
    drop((own, large));
    session.deregister_memory(memory)?;
    Ok(times)
}

/// Index of the path that the figures of the processor are of.
const SESSION: usize = 0;

/// Data path, and the series of its times.
struct MeasuredPath<'a> {
    series: fn(&mut CaseTimes) -> &mut Vec<u64>,
    path: &'a mut dyn DataPath,
}

fn take_turns(
    connected: &mut ConnectedEnd<'_>,
    case: PlannedCase<'_>,
    ways: &mut [MeasuredPath<'_>],
    gate: Gate<'_>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let mut times = CaseTimes::default();
    let (is_sender, bytes) = (connected.role == case.plan.sender(), case.total_bytes());
    let is_ahead = case.plan.receives == Receives::Ahead;
    for iteration in 0..case.iterations {
        for turn in 0..ways.len() {
            // The paths take the first turn alternately.
            let index = (turn + iteration as usize) % ways.len();
            let MeasuredPath { series, path } = &mut ways[index];
            let message = case.first_message + MAX_PATHS * iteration + index as u64;
            let payload = Payload { pattern: Pattern::new(case.plan.seed, message), bytes };
            let time = match is_sender {
                true => send(&mut connected.link, *path, payload)?,
                false => {
                    let (time, mismatch) =
                        receive(&mut connected.link, *path, payload, is_ahead, gate)?;
                    times.note(mismatch, iteration, bytes, path.name());
                    time
                }
            };
            if case.is_counted(iteration) {
                series(&mut times).push(time.elapsed_ns);
                if index == SESSION {
                    times.count(time);
                }
            }
            let nanos = time.elapsed_ns;
            tracing::debug!(iteration, path = path.name(), bytes, nanos, "iteration");
        }
        progress.steps(u64::from(case.is_counted(iteration)));
    }
    Ok(times)
}

fn send(
    link: &mut SessionLink<'_>,
    path: &mut dyn DataPath,
    payload: Payload,
) -> Result<ProcessorTimes, Failure> {
    path.run(PathStep::Prepare(Content::Sent), payload)?;
    let Go = link.receive()?;
    let watch = Stopwatch::start();
    path.run(PathStep::Send, payload)?;
    Ok(watch.read())
}

fn receive(
    link: &mut SessionLink<'_>,
    path: &mut dyn DataPath,
    payload: Payload,
    is_ahead: bool,
    gate: Gate<'_>,
) -> Result<(ProcessorTimes, Option<Mismatch>), Failure> {
    path.run(PathStep::Prepare(Content::Poison), payload)?;
    if is_ahead {
        path.run(PathStep::Post, payload)?;
    }
    gate.begin(link.budget().step())?;
    let watch = Stopwatch::start();
    link.send(&Go)?;
    if !is_ahead {
        path.run(PathStep::Post, payload)?;
    }
    path.run(PathStep::Wait, payload)?;
    let time = watch.read();
    Ok((time, path.run(PathStep::Check, payload)?))
}
