//! The three closes.
//!
//! § is a section of docs/plugin-contract.md.

use std::thread;
use std::time::{Duration, Instant};

use crate::check::checks;
use crate::harness::calls::CommKind;
use crate::harness::check_result::{CheckResult, EarlyEnd, differs, require, require_rc};
use crate::harness::fixture::Fixture;
use crate::harness::pending_pair::PendingPair;
use crate::link::values::DeviceArgument;

checks! { Lifecycle:
    "lifecycle.close_null", "§2.12", null => "closing a NULL comm returns 0";
    "lifecycle.close_listen_early", "§2.5", listen_early => "closeListen without a peer returns 0";
    #[destructive]
    "lifecycle.close_listen_pending", "§2.5", listen_pending =>
        "closeListen during a pending accept returns 0";
    "lifecycle.close_listen_after_accept", "§2.12", listen_late =>
        "closeListen after accept leaves the comm";
    "lifecycle.close_in_flight", "§2.12", in_flight =>
        "closing with requests in flight returns 0 and soon";
    "lifecycle.close_unconsumed", "§2.12", unconsumed =>
        "closeRecv with unconsumed receives returns 0";
    "lifecycle.close_leaks_nothing", "§8", leaks =>
        "connecting and closing leaves no descriptor or thread";
}

fn null(fixture: &Fixture<'_>) -> CheckResult {
    let process = fixture.ready_agent()?;
    for kind in [CommKind::Send, CommKind::Recv, CommKind::Listen] {
        process.close(kind, 0)?;
    }
    Ok(())
}

fn listen_early(fixture: &Fixture<'_>) -> CheckResult {
    let process = fixture.ready_agent()?;
    let (comm, _) = fixture.listen(&process)?;
    process.close(CommKind::Listen, comm)
}

fn listen_pending(fixture: &Fixture<'_>) -> CheckResult {
    let pending = PendingPair::of_new_processes(fixture)?;
    let reply = pending.accept(DeviceArgument::At(pending.device))?;
    require_rc("accept without a peer", reply.rc, 0)?;
    let rc = pending.listener.close_listen(pending.listen_comm)?;
    require_rc("closeListen during accept", rc, 0)?;
    // A peer that connects now finds no listener; neither end may crash over it.
    for _ in 0..20 {
        let reply = pending.connect(DeviceArgument::PointsToNull)?;
        require(reply.pointer == 0, "no comm with a closed listener", || {
            format!("{:#x}", reply.pointer)
        })?;
        if reply.rc != 0 {
            break;
        }
    }
    match pending.listener.devices() {
        Ok(_) => Ok(()),
        Err(EarlyEnd::Died { how, .. }) => {
            Err(differs(format!("the process ends later, as in 3.1.9: {how}")))
        }
        Err(other) => Err(other),
    }
}

fn listen_late(fixture: &Fixture<'_>) -> CheckResult {
    // Every pair closes its listener as soon as accept is through.
    let pair = fixture.pair()?;
    pair.transfer(fixture, 10_000, 1)
}

fn in_flight(fixture: &Fixture<'_>) -> CheckResult {
    const BYTES: u64 = 256 * 1024;
    let pair = fixture.pair()?;
    for i in 0..4 {
        let receive = pair.receive(i * BYTES, BYTES)?;
        let send = pair.send(i * BYTES, BYTES, i)?;
        if i == 0 {
            // The requests are under way, and stay unfinished.
            pair.sender.test(send)?;
            pair.receiver.test(receive.request)?;
        }
    }
    pair.sender.close(CommKind::Send, pair.send_comm)?;
    pair.receiver.close(CommKind::Recv, pair.recv_comm)
}

fn unconsumed(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let mut posted = (Vec::new(), Vec::new());
    for i in 0..3 {
        posted.1.push(pair.receive(i * 4096, 4096)?);
        posted.0.push(pair.send(i * 4096, 4096, i)?);
    }
    pair.complete_all(fixture, &posted.0, &posted.1)?;
    pair.sender.close(CommKind::Send, pair.send_comm)?;
    pair.receiver.close(CommKind::Recv, pair.recv_comm)
}

/// Pause between two counts of what an agent holds.
const COUNT_PAUSE: Duration = Duration::from_millis(2);

fn leaks(fixture: &Fixture<'_>) -> CheckResult {
    // With the first, four accepts: in 3.1.9 each takes more than 5 s.
    const ROUNDS: u64 = 2;
    let pair = fixture.pair()?;
    pair.transfer(fixture, 1000, 1)?;
    let round = |seed| {
        let other = pair.connect_another(fixture)?;
        other.transfer(fixture, 1000, seed)?;
        other.release()
    };
    // What two comms at once need may be kept for the next time.
    round(0)?;
    let before = (pair.sender.resources()?, pair.receiver.resources()?);
    (1..=ROUNDS).try_for_each(round)?;
    // Helper threads may still be on their way out when close returns.
    let patience = Instant::now() + fixture.share(1, 4);
    loop {
        let after = (pair.sender.resources()?, pair.receiver.resources()?);
        let descriptors = after.0.descriptors <= before.0.descriptors
            && after.1.descriptors <= before.1.descriptors;
        if descriptors && after.0.threads <= before.0.threads && after.1.threads <= before.1.threads
        {
            return Ok(());
        }
        let is_over = Instant::now() > patience || fixture.has_used(1, 1);
        require(!is_over, "as many descriptors and threads as before", || {
            format!("{before:?} before and {after:?} after {ROUNDS} more comms")
        })?;
        // The system reports no event when a thread of another process ends.
        thread::sleep(COUNT_PAUSE);
    }
}
