//! `irecvConsumed`.
//!
//! § is a section of docs/plugin-contract.md.

use crate::check::checks;
use crate::harness::check_result::{CheckResult, differs, loose_acceptance, require_rc};
use crate::harness::comm_pair::{CommPair, PostedReceive};
use crate::harness::fixture::Fixture;

checks! { Fifo:
    "fifo.consume_early", "§2.10", early => "irecvConsumed before done returns 3";
    "fifo.consume_twice", "§2.10", twice => "a second irecvConsumed returns 3";
    "fifo.consume_out_of_order", "§2.10", out_of_order => "irecvConsumed of the second returns 3";
    "fifo.consume_n", "§2.10", n => "irecvConsumed of two requests returns 3";
    "fifo.consume_null", "§2.10", null => "irecvConsumed of NULL returns 3";
    "fifo.consume_send", "§2.10", send_request => "irecvConsumed of a send frees nothing";
    "fifo.consume_empty_early", "§2.10", empty_early =>
        "an empty receive cannot be consumed before done";
    "fifo.consume_empty_out_of_order", "§2.10", empty_out_of_order =>
        "an empty receive is consumed in its turn";
    "fifo.consume_empty_twice", "§2.10", empty_twice => "an empty receive is consumed once";
}

const BYTES: u64 = 5000;

/// Moves messages of these sizes until they are done at both ends; message i has seed i.
fn finished(
    fixture: &Fixture<'_>,
    pair: &CommPair,
    sizes: &[u64],
) -> CheckResult<Vec<PostedReceive>> {
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for (i, &bytes) in (0..).zip(sizes) {
        receives.push(pair.receive(i * 8192, bytes)?);
        sends.push(pair.send(i * 8192, bytes, i)?);
    }
    pair.complete_all(fixture, &sends, &receives)?;
    Ok(receives)
}

/// Fails unless `irecvConsumed` refuses the request.
fn refused(pair: &CommPair, request: u64, what: &str) -> CheckResult {
    require_rc(what, pair.irecv_consumed(request)?, 3)
}

fn early(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receive = pair.receive(0, BYTES)?;
    refused(&pair, receive.request, "irecvConsumed before anything was sent")?;
    pair.receiver.test(receive.request)?;
    refused(&pair, receive.request, "irecvConsumed of a running receive")?;
    let send = pair.send(0, BYTES, 1)?;
    pair.complete(fixture, send, &receive)?;
    pair.check(&receive, BYTES, 1)?;
    pair.consume(&receive)
}

fn twice(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receives = finished(fixture, &pair, &[BYTES, BYTES])?;
    pair.consume(&receives[0])?;
    refused(&pair, receives[0].request, "a second irecvConsumed")?;
    pair.check(&receives[1], BYTES, 1)?;
    pair.consume(&receives[1])?;
    refused(&pair, receives[1].request, "a second irecvConsumed with nothing left")?;
    pair.transfer(fixture, BYTES, 9)
}

fn out_of_order(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receives = finished(fixture, &pair, &[BYTES, BYTES, BYTES])?;
    refused(&pair, receives[1].request, "irecvConsumed of the second before the first")?;
    refused(&pair, receives[2].request, "irecvConsumed of the third before the first")?;
    for (seed, receive) in (0..).zip(&receives) {
        pair.check(receive, BYTES, seed)?;
        pair.consume(receive)?;
    }
    pair.transfer(fixture, BYTES, 9)
}

fn n(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receives = finished(fixture, &pair, &[BYTES])?;
    for n in [0, 2] {
        let rc = pair.receiver.irecv_consumed(pair.recv_comm, n, receives[0].request)?;
        require_rc(&format!("irecvConsumed with n = {n}"), rc, 3)?;
    }
    pair.consume(&receives[0])
}

fn null(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    refused(&pair, 0, "irecvConsumed of NULL")?;
    let receives = finished(fixture, &pair, &[BYTES])?;
    refused(&pair, 0, "irecvConsumed of NULL")?;
    pair.consume(&receives[0])
}

fn send_request(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let send = pair.send(0, BYTES, 0)?;
    // The send comm belongs to the sender's process, which must make this call.
    let rc = pair.sender.irecv_consumed(pair.send_comm, 1, send)?;
    let accepted = loose_acceptance("irecvConsumed of a send", rc)?;
    let receive = pair.receive(0, BYTES)?;
    pair.complete(fixture, send, &receive)?;
    pair.check(&receive, BYTES, 0)?;
    pair.consume(&receive)?;
    if accepted {
        Ok(())
    } else {
        Err(differs("irecvConsumed of a send returns 3; 3.1.9 returns 0 and does nothing"))
    }
}

/// Passes if `irecvConsumed` refuses. 3.1.9 accepts, and frees another request (§2.10, STRICT).
fn strict(pair: &CommPair, request: u64, what: &str) -> CheckResult {
    if loose_acceptance(what, pair.irecv_consumed(request)?)? {
        return Err(differs(format!("{what} is accepted, as in 3.1.9: another request is freed")));
    }
    Ok(())
}

fn empty_early(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receive = pair.receive(0, 0)?;
    strict(&pair, receive.request, "irecvConsumed of an empty receive before done")?;
    let send = pair.send(0, 0, 0)?;
    pair.complete(fixture, send, &receive)?;
    pair.consume(&receive)?;
    pair.transfer(fixture, BYTES, 1)
}

fn empty_out_of_order(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receives = finished(fixture, &pair, &[BYTES, 0])?;
    strict(&pair, receives[1].request, "irecvConsumed of an empty receive before an earlier one")?;
    pair.check(&receives[0], BYTES, 0)?;
    pair.consume(&receives[0])?;
    pair.consume(&receives[1])?;
    pair.transfer(fixture, BYTES, 9)
}

fn empty_twice(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let receives = finished(fixture, &pair, &[0, BYTES])?;
    pair.consume(&receives[0])?;
    strict(&pair, receives[0].request, "a second irecvConsumed of an empty receive")?;
    pair.check(&receives[1], BYTES, 1)?;
    pair.consume(&receives[1])
}
