//! Progress: which calls move bytes, and that all bytes arrive.
//!
//! § is a section of docs/plugin-contract.md.

use std::time::{Duration, Instant};

use crate::check::checks;
use crate::harness::calls::{RegisteredBuffer, run_streams};
use crate::harness::check_result::{CheckResult, differs, require, skip};
use crate::harness::comm_pair::{CHUNK_BYTES, CommPair, test_once};
use crate::harness::fixture::Fixture;
use crate::harness::observation::Observation;
use crate::link::values::{Stream, StreamQueue};
use crate::message::unpack_row;

checks! { Progress:
    "progress.none_without_test", "§2.7", none => "nothing moves before the sender calls test";
    "progress.receiver_needs_test", "§2.7", receiver =>
        "a receive publishes nothing before test is called";
    "progress.oldest_drives_all", "§2.9", oldest => "testing the oldest moves the later ones along";
    "progress.one_a_call", "§8", one_a_call => "a test call starts one of the queued sends";
    "progress.eager", "§2.9", eager::<1000> =>
        "a small send completes before the peer posts a receive";
    "progress.eager_large", "§8", eager::<100_000> =>
        "a send of 100 KB completes before the peer posts a receive";
    "progress.rendezvous", "§3.2", rendezvous => "with RECV_SYNC=1 a send waits for its receive";
    "progress.small_messages", "§2.7", small => "4000 messages of 64 bytes in a full window";
    "progress.recycling", "§3.6", recycling =>
        "1 GiB, or the bytes that options or time allow, with every page given back";
    "progress.held_back", "§3.6", held_back => "consuming after a full window lets the rest arrive";
}

/// Time for which a check watches for an event that must not happen.
const QUIET: Duration = Duration::from_millis(300);

fn none(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receive = pair.receive(0, 4096)?;
    let send = pair.send(0, 4096, 1)?;
    let mut observation = Observation::lasting(QUIET);
    while observation.continues() {
        let done = test_once(&pair.receiver, receive.request, "receive")?;
        require(!done, "nothing arrives before the sender calls test", || {
            "the receive was done".to_owned()
        })?;
    }
    pair.complete(fixture, send, &receive)?;
    pair.check(&receive, 4096, 1)?;
    pair.consume(&receive)
}

fn receiver(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.unpack_pair()?;
    let first_count = unpack_row::count_address(pair.queue.meta, 0);
    let before = pair.receiver.word(first_count)?;
    let receive = pair.receive(0, 4096)?;
    let send = pair.send(0, 4096, 1)?;
    let mut observation = Observation::lasting(QUIET);
    let mut sent = false;
    while observation.continues() {
        sent = sent || test_once(&pair.sender, send, "send")?;
        let cnt = pair.receiver.word(first_count)?;
        require(cnt == before, "cnt as it was before the receiver calls test", || {
            format!("{before}, then {cnt}")
        })?;
    }
    let sends: &[u64] = if sent { &[] } else { &[send] };
    pair.complete_all(fixture, sends, &[receive])?;
    pair.check(&receive, 4096, 1)?;
    pair.consume(&receive)
}

fn oldest(fixture: &Fixture<'_>) -> CheckResult {
    const COUNT: u64 = 8;
    let pair = fixture.pair()?;
    // The oldest send is large and its receive comes last in time, so that its test is called
    // often.
    let sends: Vec<u64> =
        (0..COUNT).map(|i| pair.send(i * CHUNK_BYTES, 50_000, i)).collect::<CheckResult<_>>()?;
    let receives: Vec<_> =
        (0..COUNT).map(|i| pair.receive(i * CHUNK_BYTES, 50_000)).collect::<CheckResult<_>>()?;
    pair.complete_all(fixture, &sends, &receives)?;
    for (seed, receive) in (0..).zip(&receives) {
        pair.check(receive, 50_000, seed)?;
        pair.consume(receive)?;
    }
    Ok(())
}

fn one_a_call(fixture: &Fixture<'_>) -> CheckResult {
    const COUNT: u64 = 16;
    let pair = fixture.pair()?;
    let receives: Vec<_> =
        (0..COUNT).map(|i| pair.receive(i * 4096, 1000)).collect::<CheckResult<_>>()?;
    let sends: Vec<u64> =
        (0..COUNT).map(|i| pair.send(i * 4096, 1000, i)).collect::<CheckResult<_>>()?;
    let sent = usize::from(test_once(&pair.sender, sends[0], "send")?);
    let mut observation = Observation::lasting(QUIET);
    let mut moved = 0;
    while observation.continues() {
        if let Some(receive) = receives.get(moved) {
            moved += usize::from(test_once(&pair.receiver, receive.request, "receive")?);
        }
    }
    pair.complete_all(fixture, &sends[sent..], &receives[moved..])?;
    for (seed, receive) in (0..).zip(&receives) {
        pair.check(receive, 1000, seed)?;
        pair.consume(receive)?;
    }
    if moved <= 1 {
        return Ok(());
    }
    Err(differs(format!("one test call moved {moved} of {COUNT} sends; in 3.1.9 it moves one")))
}

fn eager<const BYTES: u64>(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let send = pair.send(0, BYTES, 1)?;
    let mut observation = Observation::lasting(fixture.share(1, 6));
    let mut sent = false;
    while !sent && observation.continues() {
        sent = test_once(&pair.sender, send, "send")?;
    }
    let receive = pair.receive(0, BYTES)?;
    pair.complete_all(fixture, if sent { &[] } else { std::slice::from_ref(&send) }, &[receive])?;
    pair.check(&receive, BYTES, 1)?;
    pair.consume(&receive)?;
    if sent {
        Ok(())
    } else {
        Err(differs(format!("a send of {BYTES} bytes waits for its receive; in 3.1.9 it does not")))
    }
}

fn rendezvous(fixture: &Fixture<'_>) -> CheckResult {
    const SYNC: &[(&str, &str)] = &[("NCCL_GPUDIRECTTCPX_RECV_SYNC", "1")];
    fixture.require_available()?;
    let kind = fixture.memory().pointer_type();
    let (sender, receiver) = (fixture.ready_agent_with(SYNC)?, fixture.ready_agent_with(SYNC)?);
    let pair = CommPair::connect(fixture, sender.into(), receiver.into(), kind, kind)?;
    let send = pair.send(0, 1000, 1)?;
    let mut observation = Observation::lasting(QUIET);
    while observation.continues() {
        let done = test_once(&pair.sender, send, "send")?;
        require(!done, "the send waits for the peer's receive", || {
            "it was done without one".to_owned()
        })?;
    }
    let receive = pair.receive(0, 1000)?;
    pair.complete(fixture, send, &receive)?;
    pair.check(&receive, 1000, 1)?;
    pair.consume(&receive)?;
    (2..8).try_for_each(|seed| pair.transfer(fixture, 20_000, seed))
}

/// Has the agents stream messages by themselves until all have arrived, or nothing arrives for a
/// while.
fn stream(
    fixture: &Fixture<'_>,
    pair: &CommPair,
    message_bytes: u32,
    messages: u64,
    first_seed: u64,
) -> CheckResult {
    let stall_ms = u64::try_from(fixture.share(1, 3).as_millis()).unwrap_or(u64::MAX);
    let half = |comm, buffer: RegisteredBuffer| Stream {
        comm,
        mhandle: buffer.mhandle,
        buffer: buffer.at,
        message_bytes,
        messages,
        first_seed,
        stall_ms,
    };
    let queue = (pair.memory.pointer_type() == tcpx_sys::PTR_CUDA).then(|| StreamQueue {
        meta: pair.queue.meta,
        bounce: pair.queue.bounce,
        received: pair.received(),
    });
    run_streams(
        (&pair.sender, half(pair.send_comm, pair.outgoing)),
        (&pair.receiver, half(pair.recv_comm, pair.incoming), queue),
    )?;
    pair.count_received(messages);
    Ok(())
}

fn small(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    stream(fixture, &pair, 64, 4000, 0)
}

fn recycling(fixture: &Fixture<'_>) -> CheckResult {
    const ROUND: u64 = 64;
    /// 128 MiB: fewer messages may fit into fresh pages, so that none has to be recycled.
    const ENOUGH: u64 = 4 * ROUND;
    let total = fixture.plugin.options.recycled_bytes / CHUNK_BYTES;
    let pair = fixture.pair()?;
    let mut messages = 0;
    while messages < ENOUGH || (messages < total && !fixture.has_used(1, 6)) {
        if fixture.has_used(1, 1) {
            return Err(skip(format!(
                "only {messages} messages of 512 KiB moved in the time of the check"
            )));
        }
        stream(fixture, &pair, CHUNK_BYTES as u32, ROUND, messages)?;
        messages += ROUND;
    }
    Ok(())
}

fn held_back(fixture: &Fixture<'_>) -> CheckResult {
    const COUNT: u64 = 16;
    let pair = fixture.pair()?;
    for round in 0..4 {
        let receives: Vec<_> = (0..COUNT)
            .map(|i| pair.receive(i * CHUNK_BYTES, CHUNK_BYTES))
            .collect::<CheckResult<_>>()?;
        let sends: Vec<u64> = (0..COUNT)
            .map(|i| pair.send(i * CHUNK_BYTES, CHUNK_BYTES, round * COUNT + i))
            .collect::<CheckResult<_>>()?;
        let (mut sent, mut consumed) = (0, 0);
        // The check consumes nothing while receives complete; once they stop, each consume must let
        // more complete.
        let mut finished = 0;
        let mut last = Instant::now();
        while sent < sends.len() || consumed < receives.len() {
            if let Some(&send) = sends.get(sent) {
                sent += usize::from(test_once(&pair.sender, send, "send")?);
            }
            if let Some(receive) = receives.get(finished)
                && test_once(&pair.receiver, receive.request, "receive")?
            {
                finished += 1;
                last = Instant::now();
            }
            let stopped = finished == receives.len() || last.elapsed() > QUIET;
            if stopped && consumed < finished {
                pair.check(&receives[consumed], CHUNK_BYTES, round * COUNT + consumed as u64)?;
                pair.consume(&receives[consumed])?;
                consumed += 1;
            }
            require(!fixture.has_used(1, 1), "all 16 receives arrive and are consumed", || {
                format!("{finished} arrived, {consumed} consumed at the deadline")
            })?;
        }
    }
    Ok(())
}
