//! One message each way at once in each iteration.
//!
//! Both receives are posted before the "go". From then on each end's clock runs until its received
//! bytes are in place. Its own send may take longer, and is waited for after that.

use std::time::Instant;

use tcpx_core::{Post, Transfer};

use super::case::PlannedCase;
use super::contents::Contents;
use super::data_path::Payload;
use super::pattern::{Content, Mismatch, Pattern};
use super::plan::{Go, WAYS};
use super::samples::nanos;
use super::times::CaseTimes;
use super::together::Together;
use crate::failure::Failure;
use crate::output::Progress;
use crate::rendezvous::{Agreed, Role};

/// Measures one part of a size. Both ends walk through the same iterations.
pub(super) fn measure(
    agreed: &mut Agreed<'_>,
    case: PlannedCase<'_>,
    together: Option<&Together>,
    progress: &Progress,
) -> Result<CaseTimes, Failure> {
    let (session, budget) = (agreed.session, agreed.link.budget());
    let (bytes, memory_type) = (case.total_bytes(), agreed.memory.memory_type());
    let memories = [session.allocate(bytes, memory_type)?, session.allocate(bytes, memory_type)?];
    let [outgoing, incoming] = memories.map(|memory| Contents { session, memory, budget });
    let mut times = CaseTimes::default();
    for iteration in 0..case.iterations {
        let message = case.first_message + WAYS * iteration;
        let payload = |from: Role| {
            let pattern = Pattern::new(case.plan.seed, message + u64::from(from == Role::Server));
            Payload { pattern, bytes }
        };
        let (ours, theirs) = (payload(agreed.role), payload(agreed.role.other()));
        outgoing.write(Content::Sent, ours)?;
        incoming.write(Content::Poison, theirs)?;
        let receive = session.create_transfer(agreed.peer())?;
        receive.post_recv(post(&incoming, bytes))?;
        // The other end learns of it before it hears "go".
        session.progress();
        let send = session.create_transfer(agreed.peer())?;
        go(agreed, together)?;
        let (time, mismatch) = exchange(&outgoing, &incoming, theirs, &send, &receive)?;
        times.note(mismatch, iteration, bytes, "the session");
        times.session_ns.extend(case.is_counted(iteration).then_some(time));
        progress.step("");
    }
    for memory in memories {
        session.deregister_memory(memory)?;
    }
    Ok(times)
}

fn post(contents: &Contents<'_>, bytes: u64) -> Post {
    Post { memory: contents.memory, offset: 0, bytes, tag: 0 }
}

/// Both ends are ready, and know it.
fn go(agreed: &mut Agreed<'_>, together: Option<&Together>) -> Result<(), Failure> {
    match agreed.role {
        Role::Client => {
            agreed.link.send(&Go)?;
            let Go = agreed.link.receive()?;
        }
        Role::Server => {
            let Go = agreed.link.receive()?;
            if let Some(together) = together {
                together.meet(1, agreed.link.budget().step())?;
            }
            agreed.link.send(&Go)?;
        }
    }
    Ok(())
}

/// Returns the time until the received bytes are in place, in ns, and the first wrong byte in them.
fn exchange(
    outgoing: &Contents<'_>,
    incoming: &Contents<'_>,
    theirs: Payload,
    send: &Transfer,
    receive: &Transfer,
) -> Result<(u64, Option<Mismatch>), Failure> {
    let start = Instant::now();
    send.post_send(post(outgoing, theirs.bytes))?;
    incoming.budget.wait(receive)?;
    let time = nanos(start.elapsed());
    outgoing.budget.wait(send)?;
    Ok((time, incoming.check(theirs)?))
}
