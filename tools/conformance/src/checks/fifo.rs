//! Order of `test`, and its outputs.
//!
//! § is a section of docs/plugin-contract.md.

use crate::check::checks;
use crate::harness::agent_process::AgentProcess;
use crate::harness::check_result::{CheckResult, fail, may_die, require, require_rc};
use crate::harness::comm_pair::{CommPair, PostedReceive, test_once};
use crate::harness::fixture::Fixture;
use crate::link::values::{TestReply, UNTOUCHED_INT};

checks! { Fifo:
    "fifo.receive_out_of_order", "§2.9", receive_order =>
        "the second receive is not done before the first";
    "fifo.send_out_of_order", "§2.9", send_order => "the second send is not done before the first";
    "fifo.receive_done_once", "§2.9", receive_once => "a receive is reported done once";
    "fifo.send_done_once", "§2.9", send_once => "a send is reported done once";
    "fifo.refusal_not_fatal", "§2.9", not_fatal => "a refused test leaves the comm in order";
    "fifo.test_null", "§2.9", test_null => "test of NULL returns 3";
    "fifo.done_written", "§2.9", done_written => "test writes 0 to done while the request runs";
    "fifo.sizes_untouched", "§2.9", sizes_untouched => "test never writes its sizes";
    "fifo.iflush_size", "§2.11", iflush_size =>
        "iflush returns the received size of an unconsumed receive";
    "fifo.iflush_size_differs", "§2.11", iflush_differs =>
        "iflush returns the size that was sent, not the size that was posted";
    "fifo.iflush_n", "§2.11", iflush_n => "iflush of two buffers returns 3";
    #[destructive]
    "fifo.iflush_null", "§2.11", iflush_null => "iflush of a NULL request is refused";
}

const BYTES: u64 = 5000;

/// Posts two messages at both ends; message i has seed i.
fn post_two(pair: &CommPair) -> CheckResult<([u64; 2], [PostedReceive; 2])> {
    let receives = [pair.receive(0, BYTES)?, pair.receive(8192, BYTES)?];
    let sends = [pair.send(0, BYTES, 0)?, pair.send(8192, BYTES, 1)?];
    Ok((sends, receives))
}

/// Tests a request that is not the oldest: rc 0 or 3, never done.
fn too_early(process: &AgentProcess, request: u64) -> CheckResult {
    let TestReply { rc, done, .. } = process.test(request)?;
    require(rc == 0 || rc == 3, "test of a later request returns 0 or 3", || rc.to_string())?;
    require(done == 0, "test of a later request is not done", || format!("rc {rc}, done {done}"))
}

/// Completes, checks and consumes both messages in the right order.
fn in_order(
    fixture: &Fixture<'_>,
    pair: &CommPair,
    sends: &[u64],
    receives: &[PostedReceive],
) -> CheckResult {
    pair.complete_all(fixture, sends, receives)?;
    check_and_consume(pair, receives)
}

/// Checks and consumes finished receives.
fn check_and_consume(pair: &CommPair, receives: &[PostedReceive]) -> CheckResult {
    for (seed, receive) in (0..).zip(receives) {
        pair.check(receive, BYTES, seed)?;
        pair.consume(receive)?;
    }
    Ok(())
}

/// Polls of a later request, while the oldest has all that it needs to complete.
const EARLY_POLLS: usize = 60;

fn receive_order(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let (sends, receives) = post_two(&pair)?;
    let mut sent = 0;
    for _ in 0..EARLY_POLLS {
        if let Some(&send) = sends.get(sent) {
            sent += usize::from(test_once(&pair.sender, send, "send")?);
        }
        too_early(&pair.receiver, receives[1].request)?;
    }
    in_order(fixture, &pair, &sends[sent..], &receives)
}

fn send_order(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let (sends, receives) = post_two(&pair)?;
    let mut got = 0;
    for _ in 0..EARLY_POLLS {
        too_early(&pair.sender, sends[1])?;
        if let Some(receive) = receives.get(got) {
            got += usize::from(test_once(&pair.receiver, receive.request, "receive")?);
        }
    }
    pair.complete_all(fixture, &sends, &receives[got..])?;
    check_and_consume(&pair, &receives)
}

/// Tests a request that was reported done already: rc 0 or 3, never done again.
fn require_done_once(process: &AgentProcess, request: u64) -> CheckResult {
    for _ in 0..5 {
        let TestReply { rc, done, .. } = process.test(request)?;
        require(rc == 0 || rc == 3, "test of a finished request returns 0 or 3", || {
            rc.to_string()
        })?;
        require(done == 0, "a finished request is not done again", || {
            format!("rc {rc}, done {done}")
        })?;
    }
    Ok(())
}

fn receive_once(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let (sends, receives) = post_two(&pair)?;
    pair.complete(fixture, sends[0], &receives[0])?;
    require_done_once(&pair.receiver, receives[0].request)?;
    pair.complete(fixture, sends[1], &receives[1])?;
    // Nothing is in flight any more; neither may be reported again.
    require_done_once(&pair.receiver, receives[0].request)?;
    require_done_once(&pair.receiver, receives[1].request)?;
    check_and_consume(&pair, &receives)
}

fn send_once(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let (sends, receives) = post_two(&pair)?;
    pair.complete(fixture, sends[0], &receives[0])?;
    require_done_once(&pair.sender, sends[0])?;
    pair.complete(fixture, sends[1], &receives[1])?;
    require_done_once(&pair.sender, sends[0])?;
    require_done_once(&pair.sender, sends[1])
}

fn not_fatal(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    for _ in 0..3 {
        let (sends, receives) = post_two(&pair)?;
        for _ in 0..5 {
            too_early(&pair.sender, sends[1])?;
            too_early(&pair.receiver, receives[1].request)?;
        }
        in_order(fixture, &pair, &sends, &receives)?;
    }
    Ok(())
}

fn test_null(fixture: &Fixture<'_>) -> CheckResult {
    let tested = fixture.ready_agent()?.test(0)?;
    require_rc("test of NULL", tested.rc, 3)?;
    require(tested.done != 1, "not done", || "done".to_owned())
}

fn done_written(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receive = pair.receive(0, BYTES)?;
    // The peer sends nothing, so this cannot be done.
    let tested = pair.receiver.test(receive.request)?;
    require_rc("test of a waiting receive", tested.rc, 0)?;
    require(tested.done == 0, "done 0", || tested.done.to_string())
}

fn sizes_untouched(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receive = pair.receive(0, BYTES)?;
    let send = pair.send(0, BYTES, 0)?;
    let (mut sent, mut got) = (false, false);
    while !(sent && got) {
        for (process, request, done) in
            [(&pair.sender, send, &mut sent), (&pair.receiver, receive.request, &mut got)]
        {
            if *done {
                continue;
            }
            let tested = process.test(request)?;
            require_rc("test", tested.rc, 0)?;
            require(tested.sizes == UNTOUCHED_INT, "untouched sizes", || tested.sizes.to_string())?;
            *done = tested.done == 1;
        }
        require(!fixture.has_used(1, 1), "both requests are done", || {
            "not at the deadline".to_owned()
        })?;
    }
    Ok(())
}

/// Returns the size that iflush reports for a finished receive.
fn flushed_size(pair: &CommPair, receive: &PostedReceive) -> CheckResult<i32> {
    let counted = pair.receiver.iflush(pair.recv_comm, 1, receive.request)?;
    require_rc("iflush of a finished receive", counted.rc, 0)?;
    Ok(counted.count)
}

fn iflush_size(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let (sends, receives) = post_two(&pair)?;
    pair.complete_all(fixture, &sends, &receives)?;
    for receive in &receives {
        let size = flushed_size(&pair, receive)?;
        require(size == 5000, "a size of 5000", || size.to_string())?;
    }
    check_and_consume(&pair, &receives)
}

fn iflush_differs(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receive = pair.receive(0, 100_000)?;
    let send = pair.send(0, 12_345, 0)?;
    pair.complete(fixture, send, &receive)?;
    let size = flushed_size(&pair, &receive)?;
    if size == 100_000 {
        return Err(fail("the 12345 bytes that were sent", "the 100000 that were posted"));
    }
    require(size == 12_345, "a size of 12345", || size.to_string())?;
    pair.check(&receive, 12_345, 0)?;
    pair.consume(&receive)
}

fn iflush_n(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receive = pair.receive(0, BYTES)?;
    let send = pair.send(0, BYTES, 0)?;
    pair.complete(fixture, send, &receive)?;
    for n in [0, 2] {
        let counted = pair.receiver.iflush(pair.recv_comm, n, receive.request)?;
        require_rc(&format!("iflush with n = {n}"), counted.rc, 3)?;
    }
    Ok(())
}

fn iflush_null(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    may_die(
        "iflush of a NULL request",
        pair.receiver.iflush(pair.recv_comm, 1, 0).map(|counted| counted.rc),
    )
}
