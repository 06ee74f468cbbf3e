//! Sixteen requests per comm.
//!
//! § is a section of docs/plugin-contract.md.

use tcpx_sys::MAX_REQUESTS;

use crate::check::checks;
use crate::harness::check_result::{CheckResult, differs, require, require_rc};
use crate::harness::comm_pair::{CommPair, PostedReceive};
use crate::harness::fixture::Fixture;
use crate::link::values::{PointerReply, UNTOUCHED};

checks! { Requests:
    "requests.sixteen_sends", "§2.7", sixteen_sends => "a comm holds 16 sends";
    "requests.seventeenth_send", "§2.7", seventeenth_send =>
        "the 17th isend returns 3 and no request";
    "requests.sixteen_receives", "§2.7", sixteen_receives => "a comm holds 16 receives";
    "requests.seventeenth_receive", "§2.7", receive_17 => "the 17th irecv returns 3 and no request";
    "requests.send_retry", "§2.7", send_retry => "a refused isend succeeds once a send is done";
    "requests.receive_retry", "§2.7", receive_retry =>
        "a refused irecv succeeds once a receive is consumed";
    "requests.pointers_reused", "§2.7", reused =>
        "a request has the pointer of the one 16 before it on the comm";
    "requests.unconsumed_count", "§2.7", unconsumed =>
        "finished receives count until they are consumed";
}

const BYTES: u64 = 3000;
const COUNT: u64 = MAX_REQUESTS as u64;

/// Posts 16 sends; message i has seed i.
fn sends(pair: &CommPair) -> CheckResult<Vec<u64>> {
    (0..COUNT).map(|i| pair.send(i * 4096, BYTES, i)).collect()
}

/// Posts 16 receives.
fn receives(pair: &CommPair) -> CheckResult<Vec<PostedReceive>> {
    (0..COUNT).map(|i| pair.receive(i * 4096, BYTES)).collect()
}

/// Fails unless the call returned 3 and wrote no request.
fn refused(what: &str, reply: PointerReply) -> CheckResult {
    require_rc(what, reply.rc, 3)?;
    require(reply.pointer == UNTOUCHED, "an untouched request", || format!("{:#x}", reply.pointer))
}

fn sixteen_sends(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let requests = sends(&pair)?;
    let mut sorted = requests.clone();
    sorted.sort_unstable();
    sorted.dedup();
    require(sorted.len() == requests.len(), "16 different requests", || format!("{requests:x?}"))?;
    let receives = receives(&pair)?;
    pair.complete_all(fixture, &requests, &receives)?;
    in_order(&pair, &receives)
}

fn sixteen_receives(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receives = receives(&pair)?;
    let sends = sends(&pair)?;
    pair.complete_all(fixture, &sends, &receives)?;
    in_order(&pair, &receives)
}

/// Checks and consumes finished receives; message i has seed i.
fn in_order(pair: &CommPair, receives: &[PostedReceive]) -> CheckResult {
    for (seed, receive) in (0..).zip(receives) {
        pair.check(receive, BYTES, seed)?;
        pair.consume(receive)?;
    }
    Ok(())
}

fn seventeenth_send(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    sends(&pair)?;
    for _ in 0..3 {
        refused("the 17th isend", pair.isend(pair.outgoing.at, BYTES)?)?;
    }
    Ok(())
}

fn receive_17(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    receives(&pair)?;
    for _ in 0..3 {
        refused("the 17th irecv", pair.irecv(pair.incoming.at, BYTES)?)?;
    }
    Ok(())
}

fn send_retry(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let mut sends = sends(&pair)?;
    refused("the 17th isend", pair.isend(pair.outgoing.at, BYTES)?)?;
    let mut receives = receives(&pair)?;
    pair.complete(fixture, sends.remove(0), &receives[0])?;
    sends.push(pair.send(COUNT * 4096, BYTES, COUNT)?);
    pair.check(&receives[0], BYTES, 0)?;
    pair.consume(&receives.remove(0))?;
    receives.push(pair.receive(COUNT * 4096, BYTES)?);
    pair.complete_all(fixture, &sends, &receives)?;
    for (seed, receive) in (1..).zip(&receives) {
        pair.check(receive, BYTES, seed)?;
        pair.consume(receive)?;
    }
    Ok(())
}

fn receive_retry(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let mut receives = receives(&pair)?;
    refused("the 17th irecv", pair.irecv(pair.incoming.at, BYTES)?)?;
    let send = pair.send(0, BYTES, 0)?;
    pair.complete(fixture, send, &receives[0])?;
    pair.check(&receives[0], BYTES, 0)?;
    pair.consume(&receives.remove(0))?;
    receives.push(pair.receive(COUNT * 4096, BYTES)?);
    let sends: Vec<u64> =
        (1..=COUNT).map(|i| pair.send(i * 4096, BYTES, i)).collect::<CheckResult<_>>()?;
    pair.complete_all(fixture, &sends, &receives)?;
    for (seed, receive) in (1..).zip(&receives) {
        pair.check(receive, BYTES, seed)?;
        pair.consume(receive)?;
    }
    Ok(())
}

fn reused(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for seed in 0..2 * COUNT + 3 {
        let receive = pair.receive(0, BYTES)?;
        let send = pair.send(0, BYTES, seed)?;
        pair.complete(fixture, send, &receive)?;
        pair.check(&receive, BYTES, seed)?;
        pair.consume(&receive)?;
        receives.push(receive.request);
        sends.push(send);
    }
    for (pointers, what) in [(sends, "sends"), (receives, "receives")] {
        let (later, earlier) = (&pointers[MAX_REQUESTS..], &pointers);
        if later.iter().zip(earlier).any(|(later, earlier)| later != earlier) {
            return Err(differs(format!(
                "the pointers of {what} do not recur every 16; in 3.1.9 they do"
            )));
        }
    }
    Ok(())
}

fn unconsumed(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receives = receives(&pair)?;
    let sends = sends(&pair)?;
    pair.complete_all(fixture, &sends, &receives)?;
    // All are done, none is consumed: the comm is as full as before.
    refused("irecv with 16 finished receives unconsumed", pair.irecv(pair.incoming.at, BYTES)?)?;
    pair.check(&receives[0], BYTES, 0)?;
    pair.consume(&receives[0])?;
    let next = pair.receive(0, BYTES)?;
    let send = pair.send(0, BYTES, 99)?;
    pair.complete(fixture, send, &next)?;
    for (seed, receive) in (1..).zip(&receives[1..]) {
        pair.check(receive, BYTES, seed)?;
        pair.consume(receive)?;
    }
    pair.check(&next, BYTES, 99)?;
    pair.consume(&next)
}
