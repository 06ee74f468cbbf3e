//! One message each way at once in each iteration.
//!
//! Both receives are posted before the "go". From then on each end's clock runs until its received
//! bytes are in place. Its own send may take longer, and is waited for after that.

use tcpx_core::{Post, Transfer};

use super::case::PlannedCase;
use super::data_path::Payload;
use super::gate::Gate;
use super::pattern::{Content, Mismatch, Pattern};
use super::plan::{Go, MAX_PATHS};
use super::processor::{ProcessorTimes, Stopwatch};
use super::test_buffer::TestBuffer;
use super::times::CaseTimes;
use crate::failure::Failure;
use crate::output::Progress;
use crate::rendezvous::{ConnectedEnd, Role};

/// Measures one part of a size. Both ends walk through the same iterations.
pub(super) fn measure(
    connected: &mut ConnectedEnd<'_>,
    case: PlannedCase<'_>,
    gate: Gate<'_>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let (session, budget) = (connected.session, connected.link.budget());
    let (bytes, memory_type) = (case.total_bytes(), connected.memory.memory_type());
    let memories = [session.allocate(bytes, memory_type)?, session.allocate(bytes, memory_type)?];
    let [outgoing, incoming] = memories.map(|memory| TestBuffer { session, memory, budget });
    let mut times = CaseTimes::default();
    for iteration in 0..case.iterations {
        let message = case.first_message + MAX_PATHS * iteration;
        let payload = |from: Role| {
            let pattern = Pattern::new(case.plan.seed, message + u64::from(from == Role::Server));
            Payload { pattern, bytes }
        };
        let (ours, theirs) = (payload(connected.role), payload(connected.role.other()));
        outgoing.write(Content::Sent, ours)?;
        incoming.write(Content::Poison, theirs)?;
        let receive = session.create_transfer(connected.peer())?;
        receive.post_recv(post(&incoming, bytes))?;
        // The posted receive is sent to the other end before "go".
        session.progress();
        let send = session.create_transfer(connected.peer())?;
        go(connected, gate)?;
        let (time, mismatch) = exchange(&outgoing, &incoming, theirs, &send, &receive)?;
        times.note(mismatch, iteration, bytes, "the session");
        if case.is_counted(iteration) {
            times.session_ns.push(time.elapsed_ns);
            times.count(time);
        }
        progress.steps(u64::from(case.is_counted(iteration)));
    }
    for memory in memories {
        session.deregister_memory(memory)?;
    }
    Ok(times)
}

fn post(buffer: &TestBuffer<'_>, bytes: u64) -> Post {
    Post { memory: buffer.memory, offset: 0, bytes, tag: 0 }
}

/// Both ends are ready, and know it.
fn go(connected: &mut ConnectedEnd<'_>, gate: Gate<'_>) -> Result<(), Failure> {
    match connected.role {
        Role::Client => {
            gate.ready(connected.link.budget().step())?;
            connected.link.send(&Go)?;
            let Go = connected.link.receive()?;
            gate.begin(connected.link.budget().step())?;
        }
        Role::Server => {
            let Go = connected.link.receive()?;
            gate.begin(connected.link.budget().step())?;
            connected.link.send(&Go)?;
        }
    }
    Ok(())
}

/// Returns the times until the received bytes are in place, and the first wrong byte in them.
fn exchange(
    outgoing: &TestBuffer<'_>,
    incoming: &TestBuffer<'_>,
    theirs: Payload,
    send: &Transfer,
    receive: &Transfer,
) -> Result<(ProcessorTimes, Option<Mismatch>), Failure> {
    let watch = Stopwatch::start();
    send.post_send(post(outgoing, theirs.bytes))?;
    incoming.budget.wait(receive)?;
    let time = watch.read();
    outgoing.budget.wait(send)?;
    Ok((time, incoming.check(theirs)?))
}
