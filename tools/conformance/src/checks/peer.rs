//! A peer that goes away, in every phase. A plugin may report it or stay silent; it may not crash,
//! hang or invent data.
//!
//! § is a section of docs/plugin-contract.md.

use std::collections::VecDeque;
use std::time::Duration;

use crate::check::checks;
use crate::harness::calls::CommKind;
use crate::harness::comm_pair::{CHUNK_BYTES, CommPair, step};
use crate::harness::fixture::Fixture;
use crate::harness::observation::Observation;
use crate::harness::pending_pair::PendingPair;
use crate::harness::process::Process;
use crate::harness::verdict::{Halt, Verdict, differs, fail, require, skip};
use crate::link::values::{DeviceArgument, Tested};

checks! { Peer:
    "peer.closed_idle", "§2.9", closed_idle => "a receive from a closed sender ends in rc 2";
    "peer.closed_after_sending", "§2.9", closed_after => "what was sent before the close arrives";
    "peer.closed_unsent", "§2.12", closed_unsent =>
        "a send that was not done may be lost, never torn";
    "peer.closed_receiver", "§2.9", closed_receiver =>
        "a send to a closed receiver does not hang the caller";
    #[destructive]
    "peer.sigpipe", "§2.9", sigpipe => "a send to a closed receiver raises no SIGPIPE";
    "peer.killed_sender", "§2.9", killed_sender => "a killed sender leaves the receiver alive";
    "peer.killed_receiver", "§2.9", killed_receiver => "a killed receiver leaves the sender alive";
    "peer.killed_connector", "§2.5", connector =>
        "a connector killed half-way leaves the listener alive";
    "peer.killed_listener", "§2.4", listener =>
        "a listener killed half-way leaves the connector alive";
    "peer.close_after_death", "§2.12", close_after_death => "a comm whose peer is dead closes";
}

/// Time that the survivor is watched for.
const WATCH: Duration = Duration::from_millis(600);
/// More bytes than any machine's sockets hold while no end receives.
const MOST_TAKEN: u64 = 1 << 30;

/// How watching a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    Failed,
    Silent,
}

/// Tests a request for a while: every answer must be one that a dead peer allows.
fn watch(process: &Process, request: u64) -> Verdict<End> {
    watch_for(process, request, WATCH, WATCH)
}

/// The same, waiting for `first` until something is said, and after an rc 2 for `then` until it is
/// taken back.
fn watch_for(process: &Process, request: u64, first: Duration, then: Duration) -> Verdict<End> {
    let mut observation = Observation::of(first);
    while observation.goes_on() {
        match process.test(request)? {
            Tested { rc: 0, done: 0, .. } => {}
            Tested { rc: 0, done: 1, .. } => return Ok(End::Done),
            Tested { rc: 2, done: 0, .. } => {
                // Not sticky in the original (§2.9): the data may still come, so this is not the
                // end yet.
                return again(process, request, then);
            }
            Tested { rc, done, .. } => {
                return Err(fail("rc 0, or rc 2 without done", format!("rc {rc}, done {done}")));
            }
        }
    }
    Ok(End::Silent)
}

/// After an rc 2: either it stays, or the request completes.
fn again(process: &Process, request: u64, patience: Duration) -> Verdict<End> {
    let mut observation = Observation::of(patience);
    while observation.goes_on() {
        let Tested { rc, done, .. } = process.test(request)?;
        match (rc, done) {
            (0, 1) => return Ok(End::Done),
            (0 | 2, 0) => {}
            _ => return Err(fail("rc 0 or 2 after an rc 2", format!("rc {rc}, done {done}"))),
        }
    }
    Ok(End::Failed)
}

fn closed_idle(fixture: &Fixture<'_>) -> Verdict {
    let pair = fixture.pair()?;
    let receive = pair.receive(0, 1000)?;
    pair.receiver.test(receive.request)?;
    pair.sender.close(CommKind::Send, pair.send_comm)?;
    let end = watch_for(&pair.receiver, receive.request, fixture.share(1, 4), WATCH)?;
    require(end == End::Failed, "test returns 2", || format!("{end:?}"))
}

fn closed_after(fixture: &Fixture<'_>) -> Verdict {
    let pair = fixture.pair()?;
    let receive = pair.receive(0, 5000)?;
    let send = pair.send(0, 5000, 1)?;
    // The receiver keeps still: everything it gets, it gets after the close.
    let mut observation = Observation::of(fixture.share(1, 4));
    while !step(&pair.sender, send, "send")? {
        if !observation.goes_on() {
            // A sender that waits for the receiver cannot have closed before it.
            return Err(differs("a small send is not done before the receiver calls test"));
        }
    }
    pair.sender.close(CommKind::Send, pair.send_comm)?;
    let patience = fixture.share(1, 4);
    let end = watch_for(&pair.receiver, receive.request, patience, patience)?;
    require(end == End::Done, "the message arrives, after one rc 2 at most", || {
        format!("{end:?}")
    })?;
    pair.check(&receive, 5000, 1)?;
    pair.consume(&receive)
}

fn closed_unsent(fixture: &Fixture<'_>) -> Verdict {
    const BYTES: u64 = 400_000;
    let pair = fixture.pair()?;
    let receive = pair.receive(0, BYTES)?;
    let send = pair.send(0, BYTES, 1)?;
    pair.sender.test(send)?;
    pair.sender.close(CommKind::Send, pair.send_comm)?;
    match watch(&pair.receiver, receive.request)? {
        // Then it must be whole.
        End::Done => pair.check(&receive, BYTES, 1)?,
        End::Failed | End::Silent => {}
    }
    pair.receiver.close(CommKind::Recv, pair.recv_comm)
}

fn closed_receiver(fixture: &Fixture<'_>) -> Verdict {
    let pair = fixture.pair()?;
    pair.transfer(fixture, 1000, 1)?;
    pair.receiver.close(CommKind::Recv, pair.recv_comm)?;
    sends_end(&pair)?;
    pair.sender.close(CommKind::Send, pair.send_comm)
}

/// Posts three sends without a receiver: done, failed or silent are all the original's way.
fn sends_end(pair: &CommPair) -> Verdict {
    for seed in 0..3 {
        let send = pair.send(seed * 8192, 8000, seed)?;
        if watch(&pair.sender, send)? != End::Done {
            break;
        }
    }
    Ok(())
}

fn sigpipe(fixture: &Fixture<'_>) -> Verdict {
    let pair = fixture.pair()?;
    pair.transfer(fixture, 1000, 1)?;
    pair.sender.default_sigpipe()?;
    pair.receiver.close(CommKind::Recv, pair.recv_comm)?;
    match sends_end(&pair) {
        Err(Halt::Died { how, .. }) if how.contains("SIGPIPE") => Err(differs(format!(
            "a send to a closed receiver kills the process, as in 3.1.9: {how}"
        ))),
        other => other,
    }
}

fn killed_sender(fixture: &Fixture<'_>) -> Verdict {
    let pair = fixture.pair()?;
    let receives = [pair.receive(0, 400_000)?, pair.receive(524_288, 400_000)?];
    let send = pair.send(0, 400_000, 0)?;
    pair.sender.test(send)?;
    pair.sender.kill();
    if watch(&pair.receiver, receives[0].request)? == End::Done {
        pair.check(&receives[0], 400_000, 0)?;
    }
    Ok(())
}

fn killed_receiver(fixture: &Fixture<'_>) -> Verdict {
    let pair = fixture.pair()?;
    kill_receiver(&pair)
}

/// Kills the receiver while sends are under way, and watches the oldest of them.
fn kill_receiver(pair: &CommPair) -> Verdict {
    let post = |i: u64| pair.send(i % 16 * CHUNK_BYTES, CHUNK_BYTES, i);
    let mut waiting = (0..16).map(post).collect::<Verdict<VecDeque<u64>>>()?;
    // No end receives: the sends that the sockets and the plugin's threads take are done at once,
    // until both are full.
    for posted in 16..MOST_TAKEN / CHUNK_BYTES {
        let Some(oldest) = waiting.pop_front() else { break };
        if !step(&pair.sender, oldest, "send")? {
            pair.receiver.kill();
            return watch(&pair.sender, oldest).map(drop);
        }
        waiting.push_back(post(posted)?);
    }
    Err(skip(format!("{MOST_TAKEN} bytes were sent before the peer could be killed")))
}

fn connector(fixture: &Fixture<'_>) -> Verdict {
    let pending = PendingPair::of_new_processes(fixture)?;
    pending.connect(DeviceArgument::PointsToNull)?;
    pending.accept(DeviceArgument::At(pending.device))?;
    pending.connector.kill();
    // Any later answer but a crash will do: pending, a comm that fails, or an error.
    let mut observation = Observation::of(WATCH);
    while observation.goes_on() {
        let made = pending.accept(DeviceArgument::At(pending.device))?;
        require(matches!(made.rc, 0 | 2 | 3), "accept returns 0, 2 or 3", || made.rc.to_string())?;
        if made.rc != 0 || made.pointer != 0 {
            break;
        }
    }
    pending.listener.devices().map(drop)
}

fn listener(fixture: &Fixture<'_>) -> Verdict {
    let pending = PendingPair::of_new_processes(fixture)?;
    pending.connect(DeviceArgument::PointsToNull)?;
    pending.listener.kill();
    let mut observation = Observation::of(WATCH);
    while observation.goes_on() {
        let made = pending.connect(DeviceArgument::PointsToNull)?;
        require(made.pointer == 0, "no comm with a dead listener", || {
            format!("{:#x}", made.pointer)
        })?;
        require(matches!(made.rc, 0 | 2 | 3), "connect returns 0, 2 or 3", || made.rc.to_string())?;
        if made.rc != 0 {
            break;
        }
    }
    pending.connector.devices().map(drop)
}

fn close_after_death(fixture: &Fixture<'_>) -> Verdict {
    let pair = fixture.pair()?;
    let receive = pair.receive(0, 100_000)?;
    pair.receiver.test(receive.request)?;
    pair.sender.kill();
    watch(&pair.receiver, receive.request)?;
    pair.receiver.close(CommKind::Recv, pair.recv_comm)?;
    let other = fixture.pair()?;
    kill_receiver(&other)?;
    other.sender.close(CommKind::Send, other.send_comm)
}
