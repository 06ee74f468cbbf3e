//! Several comms between the same two processes.
//!
//! § is a section of docs/plugin-contract.md.

use std::rc::Rc;

use crate::check::checks;
use crate::harness::agent_process::AgentProcess;
use crate::harness::calls::CommKind;
use crate::harness::check_result::{CheckResult, require_rc};
use crate::harness::comm_pair::{CommPair, PostedReceive};
use crate::harness::fixture::Fixture;
use crate::harness::pending_pair::PendingPair;

checks! { Comms:
    "comms.listeners", "§2.3", listeners => "several listen comms meet their own peers, last first";
    "comms.independent", "§2", independent => "comms have windows and orders of their own";
    "comms.interleaved", "§2", interleaved => "messages on four comms do not mix";
    "comms.both_directions", "§2", both_directions => "a process can send and receive at once";
    "comms.close_one", "§2.12", close_one => "closing one comm leaves the others alone";
}

/// Connects `count` comms between two new processes.
fn comms(fixture: &Fixture<'_>, count: usize) -> CheckResult<Vec<CommPair>> {
    let first = fixture.pair()?;
    let (sender, receiver, kind) =
        (first.sender.clone(), first.receiver.clone(), first.memory.pointer_type());
    let mut all = vec![first];
    for _ in 1..count {
        all.push(CommPair::connect(fixture, sender.clone(), receiver.clone(), kind, kind)?);
    }
    Ok(all)
}

fn listeners(fixture: &Fixture<'_>) -> CheckResult {
    let (sender, receiver): (Rc<AgentProcess>, Rc<AgentProcess>) =
        (fixture.ready_agent()?.into(), fixture.ready_agent()?.into());
    let arrange = |_| PendingPair::between(fixture, Rc::clone(&sender), Rc::clone(&receiver));
    let pending_pairs: Vec<PendingPair> = (0..4).map(arrange).collect::<CheckResult<_>>()?;
    for pending in pending_pairs.iter().rev() {
        pending.establish(fixture)?;
    }
    pending_pairs
        .iter()
        .try_for_each(|pending| receiver.close(CommKind::Listen, pending.listen_comm))
}

fn independent(fixture: &Fixture<'_>) -> CheckResult {
    let pairs = comms(fixture, 2)?;
    // The first comm is full and its oldest receive waits; the second must go on all the same.
    let waiting: Vec<PostedReceive> =
        (0..16).map(|i| pairs[0].receive(i * 8192, 5000)).collect::<CheckResult<_>>()?;
    require_rc(
        "the 17th irecv of the first comm",
        pairs[0].irecv(pairs[0].incoming.at, 100)?.rc,
        3,
    )?;
    for seed in 0..20 {
        pairs[0].receiver.test(waiting[0].request)?;
        pairs[1].transfer(fixture, 9000, seed)?;
    }
    let sends: Vec<u64> =
        (0..16).map(|i| pairs[0].send(i * 8192, 5000, i)).collect::<CheckResult<_>>()?;
    pairs[0].complete_all(fixture, &sends, &waiting)?;
    for (seed, receive) in (0..).zip(&waiting) {
        pairs[0].check(receive, 5000, seed)?;
        pairs[0].consume(receive)?;
    }
    Ok(())
}

fn interleaved(fixture: &Fixture<'_>) -> CheckResult {
    const ROUNDS: u64 = 10;
    let pairs = comms(fixture, 4)?;
    let mut posted: Vec<(Vec<u64>, Vec<PostedReceive>)> =
        vec![(Vec::new(), Vec::new()); pairs.len()];
    let seed = |comm: usize, round: u64| comm as u64 * 1000 + round;
    let bytes = |comm: usize, round: u64| 100 + seed(comm, round) * 7;
    for round in 0..ROUNDS {
        for (comm, pair) in pairs.iter().enumerate() {
            posted[comm].1.push(pair.receive(round * 65_536, bytes(comm, round))?);
            posted[comm].0.push(pair.send(
                round * 65_536,
                bytes(comm, round),
                seed(comm, round),
            )?);
        }
    }
    // Last comm first: none may depend on another.
    for (comm, pair) in pairs.iter().enumerate().rev() {
        pair.complete_all(fixture, &posted[comm].0, &posted[comm].1)?;
        for (round, receive) in (0..).zip(&posted[comm].1) {
            pair.check(receive, bytes(comm, round), seed(comm, round))?;
            pair.consume(receive)?;
        }
    }
    Ok(())
}

fn both_directions(fixture: &Fixture<'_>) -> CheckResult {
    let there = fixture.pair()?;
    let kind = there.memory.pointer_type();
    let back =
        CommPair::connect(fixture, there.receiver.clone(), there.sender.clone(), kind, kind)?;
    for seed in 0..10 {
        let bytes = 1000 + seed * 9000;
        let receives = [there.receive(0, bytes)?, back.receive(0, bytes)?];
        let sends = [there.send(0, bytes, seed)?, back.send(0, bytes, seed + 100)?];
        // Posted on both before either is driven.
        back.complete(fixture, sends[1], &receives[1])?;
        there.complete(fixture, sends[0], &receives[0])?;
        there.check(&receives[0], bytes, seed)?;
        back.check(&receives[1], bytes, seed + 100)?;
        there.consume(&receives[0])?;
        back.consume(&receives[1])?;
    }
    Ok(())
}

fn close_one(fixture: &Fixture<'_>) -> CheckResult {
    let pairs = comms(fixture, 3)?;
    pairs.iter().try_for_each(|pair| pair.transfer(fixture, 20_000, 1))?;
    pairs[1].release()?;
    for seed in 2..20 {
        pairs[0].transfer(fixture, 20_000, seed)?;
        pairs[2].transfer(fixture, 20_000, seed)?;
    }
    Ok(())
}
