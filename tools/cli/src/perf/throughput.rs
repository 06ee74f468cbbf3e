//! Throughput: the same bytes from client to server in each iteration, in turns over the session
//! and over plain sockets.

use std::time::Instant;

use super::baseline::PlainSockets;
use super::case::PlannedCase;
use super::contents::Contents;
use super::data_path::{DataPath, Payload, Step};
use super::pattern::{Content, Mismatch, Pattern};
use super::plan::{Go, LARGE_BYTES, Mode, Receives, WAYS};
use super::posts;
use super::samples::nanos;
use super::session_path::SessionPath;
use super::times::CaseTimes;
use super::together::Together;
use crate::failure::Failure;
use crate::output::Progress;
use crate::rendezvous::{Agreed, Role, SessionLink};

/// Measures one size. Both ends walk through the same iterations.
pub(super) fn measure(
    agreed: &mut Agreed<'_>,
    case: PlannedCase<'_>,
    plain: Option<&mut PlainSockets>,
    together: Option<&Together>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let (session, peer) = (agreed.session, agreed.peer());
    let (total, budget) = (case.total_bytes(), agreed.link.budget());
    let memory = session.allocate(total, agreed.memory.memory_type())?;
    let path = |name, posts| {
        let contents = Contents { session, memory, budget };
        SessionPath { contents, peer, name, posts, transfer: None }
    };
    let (mut own, mut large) = match case.plan.mode {
        Mode::Messages(batch) => {
            let posts = posts::large(memory, total, LARGE_BYTES);
            let large = path("the session in large messages", posts);
            (path("the session", posts::small(memory, batch, case.bytes)), Some(large))
        }
        _ => (path("the session", posts::whole(memory, total)), None),
    };
    let mut ways = vec![Way { series: |times| &mut times.session_ns, path: &mut own }];
    ways.extend(large.as_mut().map(|path| Way { series: |times| &mut times.large_ns, path }));
    ways.extend(plain.map(|path| Way { series: |times| &mut times.raw_ns, path }));
    let times = take_turns(agreed, case, &mut ways, together, progress)?;
    drop((own, large));
    session.deregister_memory(memory)?;
    Ok(times)
}

/// Data path, and the series of its times.
struct Way<'a> {
    series: fn(&mut CaseTimes) -> &mut Vec<u64>,
    path: &'a mut dyn DataPath,
}

fn take_turns(
    agreed: &mut Agreed<'_>,
    case: PlannedCase<'_>,
    ways: &mut [Way<'_>],
    together: Option<&Together>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let mut times = CaseTimes::default();
    let (role, bytes) = (agreed.role, case.total_bytes());
    let is_ahead = case.plan.receives == Receives::Ahead;
    for iteration in 0..case.iterations {
        for turn in 0..ways.len() {
            // None of them always comes first.
            let index = (turn + iteration as usize) % ways.len();
            let Way { series, path } = &mut ways[index];
            let message = case.first_message + WAYS * iteration + index as u64;
            let payload = Payload { pattern: Pattern::new(case.plan.seed, message), bytes };
            let nanos = match role {
                Role::Client => send(&mut agreed.link, *path, payload)?,
                Role::Server => {
                    let (nanos, mismatch) =
                        receive(&mut agreed.link, *path, payload, is_ahead, together)?;
                    times.note(mismatch, iteration, bytes, path.name());
                    nanos
                }
            };
            if case.is_counted(iteration) {
                series(&mut times).push(nanos);
            }
            tracing::debug!(iteration, path = path.name(), bytes, nanos, "iteration");
        }
        progress.step("");
    }
    Ok(times)
}

fn send(
    link: &mut SessionLink<'_>,
    path: &mut dyn DataPath,
    payload: Payload,
) -> Result<u64, Failure> {
    path.run(Step::Prepare(Content::Sent), payload)?;
    let Go = link.receive()?;
    let start = Instant::now();
    path.run(Step::Send, payload)?;
    Ok(nanos(start.elapsed()))
}

fn receive(
    link: &mut SessionLink<'_>,
    path: &mut dyn DataPath,
    payload: Payload,
    is_ahead: bool,
    together: Option<&Together>,
) -> Result<(u64, Option<Mismatch>), Failure> {
    path.run(Step::Prepare(Content::Poison), payload)?;
    if is_ahead {
        path.run(Step::Post, payload)?;
    }
    if let Some(together) = together {
        together.meet(1, link.budget().step())?;
    }
    let start = Instant::now();
    link.send(&Go)?;
    if !is_ahead {
        path.run(Step::Post, payload)?;
    }
    path.run(Step::Wait, payload)?;
    let time = nanos(start.elapsed());
    Ok((time, path.run(Step::Check, payload)?))
}
