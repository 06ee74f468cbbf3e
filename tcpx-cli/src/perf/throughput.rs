//! One message from client to server in each iteration, in turns over the session and over plain sockets.
//!
//! The receiver's clock runs from its "go", given once its receive is posted, until the last byte is in place. The
//! sender's runs from the arrival of that "go" until its send is complete. Filling, poisoning and verifying are outside.

use std::time::Instant;

use tcpx_core::Session;

use super::CaseRun;
use super::baseline::RawSockets;
use super::progress::Progress;
use super::session_lane::SessionLane;
use crate::bootstrap::{CaseTimes, Link, Message};
use crate::end::Role;
use crate::failure::Failure;
use crate::meeting::Agreement;
use crate::pattern::{Mismatch, Pattern};
use crate::samples::nanos;

/// A way for one message at a time to get from client to server.
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
    let mut own = SessionLane::new(session, agreement, run.bytes, link.timeout())?;
    let mut lanes: Vec<&mut dyn Lane> = vec![&mut own];
    if let Some(raw) = raw {
        lanes.push(raw);
    }
    let mut times = CaseTimes::default();
    for iteration in 0..run.iterations() {
        for turn in 0..lanes.len() {
            // Neither lane always comes first.
            let lane = (turn + iteration as usize) % lanes.len();
            let message = run.first_message + 2 * iteration + lane as u64;
            let pattern = Pattern::new(run.plan.seed, message);
            let step = Step { pattern, bytes: run.bytes };
            let nanos = match agreement.role {
                Role::Client => step.send(link, lanes[lane])?,
                Role::Server => {
                    let (nanos, mismatch) = step.receive(link, lanes[lane])?;
                    let name = lanes[lane].name();
                    note(&mut times, mismatch, iteration, run.bytes, name);
                    nanos
                }
            };
            if run.is_counted(iteration) {
                let list = if lane == 0 { &mut times.session_ns } else { &mut times.raw_ns };
                list.push(nanos);
            }
            tracing::debug!(
                iteration,
                lane = lanes[lane].name(),
                bytes = run.bytes,
                nanos,
                "iteration"
            );
        }
        progress.step();
    }
    drop(lanes);
    own.close()?;
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

/// One message.
struct Step {
    pattern: Pattern,
    bytes: u64,
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
        lane.post(self.bytes)?;
        let start = Instant::now();
        link.send(&Message::Go)?;
        lane.wait()?;
        let time = nanos(start.elapsed());
        Ok((time, lane.check(self.pattern, self.bytes)?))
    }
}
