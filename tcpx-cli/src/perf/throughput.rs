//! The same bytes from client to server in each iteration, in turns over the session and over plain sockets.
//!
//! The receiver's clock runs from its "go", given once its receive is posted, until the last byte is in place. The
//! sender's runs from the arrival of that "go" until its send is complete. Filling, poisoning and verifying are outside.
//!
//! Of a batch of messages, the posts are inside: "go" comes before them, and a third way is the same bytes in large
//! messages.

use std::time::Instant;

use tcpx_core::Session;

use super::baseline::RawSockets;
use super::pattern::{Mismatch, Pattern};
use super::posts;
use super::progress::Progress;
use super::report::LARGE_BYTES;
use super::samples::nanos;
use super::session_lane::SessionLane;
use super::{CaseRun, WAYS};
use crate::bootstrap::{CaseTimes, Link, Message, Mode};
use crate::end::Role;
use crate::failure::Failure;
use crate::meeting::Agreement;

/// A way for the bytes of one iteration to get from client to server.
pub(super) trait Lane {
    /// For errors.
    fn name(&self) -> &'static str;

    /// Sender: puts the pattern where the message is sent from.
    fn fill(&mut self, pattern: Pattern, bytes: u64) -> Result<(), Failure>;

    /// Sender: sends it, until the memory may be used again.
    fn send(&mut self, bytes: u64) -> Result<(), Failure>;

    /// Receiver: makes sure that no byte at the destination is right already.
    fn poison(&mut self, pattern: Pattern, bytes: u64) -> Result<(), Failure>;

    /// Receiver: is ready for the message from now on.
    fn post(&mut self, bytes: u64) -> Result<(), Failure>;

    /// Receiver: waits for the last byte.
    fn wait(&mut self) -> Result<(), Failure>;

    /// Receiver: whether every byte is right.
    fn check(&mut self, pattern: Pattern, bytes: u64) -> Result<Option<Mismatch>, Failure>;
}

/// Measures one size. Both ends walk through the same iterations.
pub(super) fn measure(
    link: &mut Link,
    session: &Session,
    agreement: &Agreement,
    run: CaseRun<'_>,
    raw: Option<&mut RawSockets>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let (total, timeout) = (run.total_bytes(), link.timeout());
    let memory = session.allocate(total, agreement.memory.memory_type())?;
    let lane =
        |name, posts| SessionLane::new(session, agreement.peer(), name, memory, posts, timeout);
    let (mut own, mut large) = match run.plan.mode {
        Mode::Messages(batch) => {
            let posts = posts::large(memory, total, LARGE_BYTES);
            let large = lane("the session in large messages", posts);
            (lane("the session", posts::small(memory, batch, run.bytes)), Some(large))
        }
        Mode::Throughput | Mode::Latency => {
            (lane("the session", posts::whole(memory, total)), None)
        }
    };
    let mut ways = vec![Way { kind: Kind::Own, lane: &mut own }];
    ways.extend(large.as_mut().map(|lane| Way { kind: Kind::Large, lane }));
    ways.extend(raw.map(|lane| Way { kind: Kind::Raw, lane }));
    let times = take_turns(link, agreement.role, run, &mut ways, progress)?;
    drop((own, large));
    session.deregister_memory(memory)?;
    Ok(times)
}

/// Whose times a lane's are.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Own,
    Large,
    Raw,
}

struct Way<'a> {
    kind: Kind,
    lane: &'a mut dyn Lane,
}

fn take_turns(
    link: &mut Link,
    role: Role,
    run: CaseRun<'_>,
    ways: &mut [Way<'_>],
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let mut times = CaseTimes::default();
    for iteration in 0..run.iterations() {
        for turn in 0..ways.len() {
            // None of them always comes first.
            let index = (turn + iteration as usize) % ways.len();
            let Way { kind, lane } = &mut ways[index];
            let message = run.first_message + WAYS * iteration + index as u64;
            let pattern = Pattern::new(run.plan.seed, message);
            let is_batch = matches!(run.plan.mode, Mode::Messages(_));
            let step = Step { pattern, bytes: run.total_bytes(), is_batch };
            let nanos = match role {
                Role::Client => step.send(link, *lane)?,
                Role::Server => {
                    let (nanos, mismatch) = step.receive(link, *lane)?;
                    note(&mut times, mismatch, iteration, step.bytes, lane.name());
                    nanos
                }
            };
            if run.is_counted(iteration) {
                let list = match kind {
                    Kind::Own => &mut times.session_ns,
                    Kind::Large => &mut times.large_ns,
                    Kind::Raw => &mut times.raw_ns,
                };
                list.push(nanos);
            }
            let (lane, bytes) = (lane.name(), step.bytes);
            tracing::debug!(iteration, lane, bytes, nanos, "iteration");
        }
        progress.step();
    }
    Ok(times)
}

/// Remembers the first wrong byte of a case.
pub(super) fn note(
    times: &mut CaseTimes,
    mismatch: Option<Mismatch>,
    iteration: u64,
    bytes: u64,
    lane: &str,
) {
    if let Some(mismatch) = mismatch {
        let text = || format!("{bytes} bytes over {lane}, iteration {iteration}: {mismatch}");
        times.mismatch.get_or_insert_with(text);
    }
}

/// The bytes of one iteration over one lane.
struct Step {
    pattern: Pattern,
    bytes: u64,
    /// Whether posting is part of what is measured.
    is_batch: bool,
}

impl Step {
    fn send(&self, link: &mut Link, lane: &mut dyn Lane) -> Result<u64, Failure> {
        lane.fill(self.pattern, self.bytes)?;
        link.receive_go()?;
        let start = Instant::now();
        lane.send(self.bytes)?;
        Ok(nanos(start.elapsed()))
    }

    fn receive(
        &self,
        link: &mut Link,
        lane: &mut dyn Lane,
    ) -> Result<(u64, Option<Mismatch>), Failure> {
        lane.poison(self.pattern, self.bytes)?;
        if !self.is_batch {
            lane.post(self.bytes)?;
        }
        let start = Instant::now();
        link.send(&Message::Go)?;
        if self.is_batch {
            lane.post(self.bytes)?;
        }
        lane.wait()?;
        let time = nanos(start.elapsed());
        Ok((time, lane.check(self.pattern, self.bytes)?))
    }
}
