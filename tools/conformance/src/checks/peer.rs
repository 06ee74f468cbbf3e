//! A peer that closes or dies, in every phase. A plugin may report it or stay silent; it may not
//! crash, hang or invent data.
//!
//! § is a section of docs/plugin-contract.md.

use std::collections::VecDeque;
use std::time::Duration;

use crate::check::checks;
use crate::harness::agent_process::AgentProcess;
use crate::harness::calls::CommKind;
use crate::harness::check_result::{CheckResult, EarlyEnd, differs, fail, require, skip};
use crate::harness::comm_pair::{CHUNK_BYTES, CommPair, test_once};
use crate::harness::fixture::Fixture;
use crate::harness::observation::Observation;
use crate::harness::pending_pair::PendingPair;
use crate::link::values::{DeviceArgument, TestReply};

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

/// Time for which a check watches the survivor.
const WATCH: Duration = Duration::from_millis(600);
/// Bytes that no machine's sockets hold while no end receives.
const MORE_THAN_BUFFERED: u64 = 1 << 30;

/// Fate of a watched request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestFate {
    Done,
    Failed,
    Silent,
}

/// Tests a request for a while: every answer must be one that a dead peer allows.
fn watch(process: &AgentProcess, request: u64) -> CheckResult<RequestFate> {
    watch_for(process, request, WATCH, WATCH)
}

/// Watches a request: for `first` until it ends, and after an rc 2 for `then` until it completes
/// all the same.
fn watch_for(
    process: &AgentProcess,
    request: u64,
    first: Duration,
    then: Duration,
) -> CheckResult<RequestFate> {
    let mut observation = Observation::lasting(first);
    while observation.continues() {
        match process.test(request)? {
            TestReply { rc: 0, done: 0, .. } => {}
            TestReply { rc: 0, done: 1, .. } => return Ok(RequestFate::Done),
            TestReply { rc: 2, done: 0, .. } => {
                // Not sticky in the original (§2.9): the data may still come, so this is not the
                // end yet.
                return watch_after_error(process, request, then);
            }
            TestReply { rc, done, .. } => {
                return Err(fail("rc 0, or rc 2 without done", format!("rc {rc}, done {done}")));
            }
        }
    }
    Ok(RequestFate::Silent)
}

/// Watches a request after an rc 2: either the error stays, or the request completes.
fn watch_after_error(
    process: &AgentProcess,
    request: u64,
    patience: Duration,
) -> CheckResult<RequestFate> {
    let mut observation = Observation::lasting(patience);
    while observation.continues() {
        let TestReply { rc, done, .. } = process.test(request)?;
        match (rc, done) {
            (0, 1) => return Ok(RequestFate::Done),
            (0 | 2, 0) => {}
            _ => return Err(fail("rc 0 or 2 after an rc 2", format!("rc {rc}, done {done}"))),
        }
    }
    Ok(RequestFate::Failed)
}

fn closed_idle(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receive = pair.receive(0, 1000)?;
    pair.receiver.test(receive.request)?;
    pair.sender.close(CommKind::Send, pair.send_comm)?;
    let end = watch_for(&pair.receiver, receive.request, fixture.share(1, 4), WATCH)?;
    require(end == RequestFate::Failed, "test returns 2", || format!("{end:?}"))
}

fn closed_after(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receive = pair.receive(0, 5000)?;
    let send = pair.send(0, 5000, 1)?;
    // The receiver calls nothing before the close: all that it gets, it gets afterwards.
    let mut observation = Observation::lasting(fixture.share(1, 4));
    while !test_once(&pair.sender, send, "send")? {
        if !observation.continues() {
            // A sender that waits for the receiver cannot have closed before it.
            return Err(differs("a small send is not done before the receiver calls test"));
        }
    }
    pair.sender.close(CommKind::Send, pair.send_comm)?;
    let patience = fixture.share(1, 4);
    let end = watch_for(&pair.receiver, receive.request, patience, patience)?;
    require(end == RequestFate::Done, "the message arrives, after one rc 2 at most", || {
        format!("{end:?}")
    })?;
    pair.check(&receive, 5000, 1)?;
    pair.consume(&receive)
}

fn closed_unsent(fixture: &Fixture<'_>) -> CheckResult {
    const BYTES: u64 = 400_000;
    let pair = fixture.pair()?;
    let receive = pair.receive(0, BYTES)?;
    let send = pair.send(0, BYTES, 1)?;
    pair.sender.test(send)?;
    pair.sender.close(CommKind::Send, pair.send_comm)?;
    match watch(&pair.receiver, receive.request)? {
        // A message that arrives must be whole.
        RequestFate::Done => pair.check(&receive, BYTES, 1)?,
        RequestFate::Failed | RequestFate::Silent => {}
    }
    pair.receiver.close(CommKind::Recv, pair.recv_comm)
}

fn closed_receiver(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    pair.transfer(fixture, 1000, 1)?;
    pair.receiver.close(CommKind::Recv, pair.recv_comm)?;
    sends_end(&pair)?;
    pair.sender.close(CommKind::Send, pair.send_comm)
}

/// Posts three sends without a receiver. In the original they may be done, fail or stay pending.
fn sends_end(pair: &CommPair) -> CheckResult {
    for seed in 0..3 {
        let send = pair.send(seed * 8192, 8000, seed)?;
        if watch(&pair.sender, send)? != RequestFate::Done {
            break;
        }
    }
    Ok(())
}

fn sigpipe(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    pair.transfer(fixture, 1000, 1)?;
    pair.sender.default_sigpipe()?;
    pair.receiver.close(CommKind::Recv, pair.recv_comm)?;
    match sends_end(&pair) {
        Err(EarlyEnd::Died { how, .. }) if how.contains("SIGPIPE") => Err(differs(format!(
            "a send to a closed receiver kills the process, as in 3.1.9: {how}"
        ))),
        other => other,
    }
}

fn killed_sender(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receives = [pair.receive(0, 400_000)?, pair.receive(524_288, 400_000)?];
    let send = pair.send(0, 400_000, 0)?;
    pair.sender.test(send)?;
    pair.sender.kill();
    if watch(&pair.receiver, receives[0].request)? == RequestFate::Done {
        pair.check(&receives[0], 400_000, 0)?;
    }
    Ok(())
}

fn killed_receiver(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    kill_receiver(&pair)
}

/// Kills the receiver while sends are under way, and watches the oldest of them.
fn kill_receiver(pair: &CommPair) -> CheckResult {
    let post = |i: u64| pair.send(i % 16 * CHUNK_BYTES, CHUNK_BYTES, i);
    let mut waiting = (0..16).map(post).collect::<CheckResult<VecDeque<u64>>>()?;
    // No end receives: sends are done at once until the sockets and the plugin's threads are full.
    for posted in 16..MORE_THAN_BUFFERED / CHUNK_BYTES {
        let Some(oldest) = waiting.pop_front() else { break };
        if !test_once(&pair.sender, oldest, "send")? {
            pair.receiver.kill();
            return watch(&pair.sender, oldest).map(drop);
        }
        waiting.push_back(post(posted)?);
    }
    Err(skip(format!("{MORE_THAN_BUFFERED} bytes were sent before the peer could be killed")))
}

fn connector(fixture: &Fixture<'_>) -> CheckResult {
    let pending = PendingPair::of_new_processes(fixture)?;
    pending.connect(DeviceArgument::PointsToNull)?;
    pending.accept(DeviceArgument::At(pending.device))?;
    pending.connector.kill();
    // Every later result but a crash is right: pending, a comm that fails, or an error.
    let mut observation = Observation::lasting(WATCH);
    while observation.continues() {
        let reply = pending.accept(DeviceArgument::At(pending.device))?;
        require(matches!(reply.rc, 0 | 2 | 3), "accept returns 0, 2 or 3", || {
            reply.rc.to_string()
        })?;
        if reply.rc != 0 || reply.pointer != 0 {
            break;
        }
    }
    pending.listener.devices().map(drop)
}

fn listener(fixture: &Fixture<'_>) -> CheckResult {
    let pending = PendingPair::of_new_processes(fixture)?;
    pending.connect(DeviceArgument::PointsToNull)?;
    pending.listener.kill();
    let mut observation = Observation::lasting(WATCH);
    while observation.continues() {
        let reply = pending.connect(DeviceArgument::PointsToNull)?;
        require(reply.pointer == 0, "no comm with a dead listener", || {
            format!("{:#x}", reply.pointer)
        })?;
        require(matches!(reply.rc, 0 | 2 | 3), "connect returns 0, 2 or 3", || {
            reply.rc.to_string()
        })?;
        if reply.rc != 0 {
            break;
        }
    }
    pending.connector.devices().map(drop)
}

fn close_after_death(fixture: &Fixture<'_>) -> CheckResult {
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
