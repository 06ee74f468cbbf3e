//! Arguments of `isend` and `irecv`.
//!
//! § is a section of docs/plugin-contract.md.

use crate::check::checks;
use crate::harness::check_result::{CheckResult, may_die, require, require_rc, strict_refusal};
use crate::harness::comm_pair::{BUFFER_BYTES, CHUNK_BYTES, CommPair};
use crate::harness::fixture::Fixture;
use crate::link::values::PointerReply;

checks! { Requests:
    "requests.irecv_n", "§2.7", irecv_n => "irecv of 0 or 2 buffers returns 3";
    "requests.irecv_no_mhandle", "§2.7", irecv_no_mhandle =>
        "irecv without a registration returns 3";
    "requests.isend_no_mhandle", "§2.7", isend_no_mhandle =>
        "isend without a registration returns 3";
    "requests.isend_negative", "§2.7", isend_negative => "isend refuses a negative size";
    "requests.irecv_negative", "§2.7", irecv_negative => "irecv refuses a negative size";
    "requests.isend_below", "§2.7", isend_below => "isend refuses data below the registration";
    "requests.isend_past", "§2.7", isend_past => "isend refuses data past the registration";
    "requests.refusal_harmless", "§2.7", refusal_harmless =>
        "a refused isend or irecv changes nothing";
    "requests.isend_unaligned", "§8", isend_unaligned =>
        "data may begin anywhere in the registration";
    "requests.irecv_wild_data", "§2.6", wild_data => "a device receive never uses its data pointer";
    "requests.irecv_small_mhandle", "§2.6", small_mhandle =>
        "a device receive takes any device registration";
    "requests.irecv_shared_page", "§2.6", shared_page =>
        "device receives that all name one page leave it unchanged";
    "requests.tags_null", "§2.8", tags_null => "the tags of irecv may be NULL";
    "requests.tags_ignored", "§2.8", tags_ignored => "tags match nothing: order does";
    #[destructive]
    "requests.null_comm", "§2.7", null_comm => "isend and irecv refuse a NULL comm";
    #[destructive]
    "requests.irecv_on_send_comm", "§2.7", wrong_direction => "irecv refuses a send comm";
}

/// Calls irecv with tag 0.
fn irecv(
    pair: &CommPair,
    n: i32,
    data: u64,
    bytes: i32,
    mhandle: u64,
) -> CheckResult<PointerReply> {
    pair.receiver.irecv(pair.recv_comm, n, data, bytes, Some(0), mhandle)
}

/// Calls isend with tag 0.
fn isend(pair: &CommPair, data: u64, bytes: i32, mhandle: u64) -> CheckResult<PointerReply> {
    pair.sender.isend(pair.send_comm, data, bytes, 0, mhandle)
}

fn irecv_n(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    for n in [0, 2, -1] {
        let reply = irecv(&pair, n, pair.incoming.at, 100, pair.incoming.mhandle)?;
        require_rc(&format!("irecv with n = {n}"), reply.rc, 3)?;
    }
    pair.transfer(fixture, 100, 1)
}

fn irecv_no_mhandle(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    require_rc("irecv with a NULL mhandle", irecv(&pair, 1, pair.incoming.at, 100, 0)?.rc, 3)?;
    pair.transfer(fixture, 100, 1)
}

fn isend_no_mhandle(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    require_rc("isend with a NULL mhandle", isend(&pair, pair.outgoing.at, 100, 0)?.rc, 3)?;
    pair.transfer(fixture, 100, 1)
}

fn isend_negative(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    strict_refusal(
        "isend of -1 bytes",
        isend(&pair, pair.outgoing.at, -1, pair.outgoing.mhandle)?.rc,
    )
}

fn irecv_negative(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    strict_refusal(
        "irecv of -1 bytes",
        irecv(&pair, 1, pair.incoming.at, -1, pair.incoming.mhandle)?.rc,
    )
}

fn isend_below(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let reply = isend(&pair, pair.outgoing.at - 4096, 100, pair.outgoing.mhandle)?;
    strict_refusal("isend from below the registration", reply.rc)
}

fn isend_past(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let reply = isend(&pair, pair.outgoing.at + BUFFER_BYTES - 50, 100, pair.outgoing.mhandle)?;
    strict_refusal("isend that ends past the registration", reply.rc)
}

fn refusal_harmless(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    // More refusals than a comm has requests: no refusal may hold a request.
    for _ in 0..20 {
        require_rc("isend with a NULL mhandle", isend(&pair, pair.outgoing.at, 100, 0)?.rc, 3)?;
        require_rc(
            "irecv with n = 2",
            irecv(&pair, 2, pair.incoming.at, 100, pair.incoming.mhandle)?.rc,
            3,
        )?;
        require_rc("irecv with a NULL mhandle", irecv(&pair, 1, pair.incoming.at, 100, 0)?.rc, 3)?;
    }
    (0..20).try_for_each(|seed| pair.transfer(fixture, 500, seed))
}

fn isend_unaligned(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    for (seed, offset) in [1, 3, 100, 4095, 4097].into_iter().enumerate() {
        let (seed, bytes) = (seed as u64, 9999);
        let receive = pair.receive(0, bytes)?;
        let send = pair.send(offset, bytes, seed)?;
        pair.complete(fixture, send, &receive)?;
        pair.check(&receive, bytes, seed)?;
        pair.consume(&receive)?;
    }
    Ok(())
}

/// Moves one message into a receive that `reply` says was posted.
fn transfer_into(
    fixture: &Fixture<'_>,
    pair: &CommPair,
    reply: PointerReply,
    what: &str,
) -> CheckResult {
    require_rc(what, reply.rc, 0)?;
    let receive = pair.count_posted(reply.pointer, pair.incoming.at);
    let send = pair.send(0, 20_000, 6)?;
    pair.complete(fixture, send, &receive)?;
    pair.check(&receive, 20_000, 6)?;
    pair.consume(&receive)
}

fn wild_data(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.unpack_pair()?;
    for data in [0, 1, 0xdead_0000] {
        let reply = irecv(&pair, 1, data, 20_000, pair.incoming.mhandle)?;
        transfer_into(fixture, &pair, reply, &format!("irecv with data {data:#x}"))?;
    }
    Ok(())
}

fn small_mhandle(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.unpack_pair()?;
    let small =
        pair.receiver.allocate_registered(pair.recv_comm, 4096, pair.memory.pointer_type())?;
    let reply = irecv(&pair, 1, pair.incoming.at, 20_000, small.mhandle)?;
    transfer_into(
        fixture,
        &pair,
        reply,
        "irecv of 20000 bytes with the registration of an unrelated page",
    )
}

fn shared_page(fixture: &Fixture<'_>) -> CheckResult {
    const PAGE_BYTES: u64 = 4096;
    const PAGE_SEED: u64 = 99;
    let mut pair = fixture.unpack_pair()?;
    let kind = pair.memory.pointer_type();
    let page = pair.receiver.allocate_registered(pair.recv_comm, PAGE_BYTES, kind)?;
    pair.receiver.fill(page.at, PAGE_BYTES, PAGE_SEED)?;
    pair.incoming = page;
    let messages = (0..).zip([1, 4096, 4097, 65_536, 300_001, CHUNK_BYTES].repeat(2));
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for (seed, bytes) in messages.clone() {
        receives.push(pair.receive(0, bytes)?);
        sends.push(pair.send(seed * CHUNK_BYTES, bytes, seed)?);
    }
    pair.complete_all(fixture, &sends, &receives)?;
    for ((seed, bytes), receive) in messages.zip(&receives) {
        pair.check(receive, bytes, seed)?;
        pair.consume(receive)?;
    }
    let wrong = pair.receiver.verify(page.at, PAGE_BYTES, PAGE_SEED)?;
    require(wrong.is_none(), "the page as it was", || format!("{wrong:x?}"))
}

fn tags_null(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let (comm, data, mhandle) = (pair.recv_comm, pair.incoming.at, pair.incoming.mhandle);
    let reply = pair.receiver.irecv(comm, 1, data, 20_000, None, mhandle)?;
    transfer_into(fixture, &pair, reply, "irecv with NULL tags")
}

fn tags_ignored(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let mut posted = (Vec::new(), Vec::new());
    // The tags of the two ends cross over; the order must win.
    for (seed, tag) in [(1_u64, 5), (2, 777)] {
        let (place, mhandle) = (pair.incoming.at + seed * 4096, pair.incoming.mhandle);
        let reply = pair.receiver.irecv(pair.recv_comm, 1, place, 900, Some(tag), mhandle)?;
        require_rc("irecv", reply.rc, 0)?;
        posted.1.push(pair.count_posted(reply.pointer, place));
        let data = pair.outgoing.at + seed * 4096;
        pair.sender.fill(data, 900, seed)?;
        let mhandle = pair.outgoing.mhandle;
        let reply = pair.sender.isend(pair.send_comm, data, 900, 782 - tag, mhandle)?;
        require_rc("isend", reply.rc, 0)?;
        posted.0.push(reply.pointer);
    }
    pair.complete_all(fixture, &posted.0, &posted.1)?;
    for (seed, receive) in (1..).zip(&posted.1) {
        pair.check(receive, 900, seed)?;
        pair.consume(receive)?;
    }
    Ok(())
}

fn null_comm(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let (data, mhandle) = (pair.outgoing.at, pair.outgoing.mhandle);
    let posted = pair.sender.isend(0, data, 100, 0, mhandle);
    may_die("isend on a NULL comm", posted.map(|reply| reply.rc))?;
    let (data, mhandle) = (pair.incoming.at, pair.incoming.mhandle);
    let posted = pair.receiver.irecv(0, 1, data, 100, None, mhandle);
    may_die("irecv on a NULL comm", posted.map(|reply| reply.rc))
}

fn wrong_direction(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let (comm, data, mhandle) = (pair.send_comm, pair.outgoing.at, pair.outgoing.mhandle);
    let posted = pair.sender.irecv(comm, 1, data, 100, Some(0), mhandle);
    may_die("irecv on a send comm", posted.map(|reply| reply.rc))
}
