//! Host memory, alone and mixed with device memory.
//!
//! § is a section of docs/plugin-contract.md.

use tcpx_sys::{PTR_CUDA, PTR_HOST};

use crate::check::checks;
use crate::harness::check_result::{CheckResult, differs, require, require_rc, skip};
use crate::harness::comm_pair::{BUFFER_BYTES, CommPair};
use crate::harness::fixture::Fixture;
use crate::harness::observation::Observation;
use crate::link::values::TestReply;
use crate::message::unpack_row;

checks! { Host:
    "host.to_host", "§4", to_host => "host to host: the bytes land in place and cnt is 0";
    "host.to_device", "§4", to_device => "host to device: the bytes arrive as entries";
    "host.from_device", "§4", from_device => "device to host: the bytes land in place";
    "host.alignment", "§4", alignment => "host messages begin and end anywhere";
    "host.bounds", "§4", bounds => "a host receive writes nothing around its message";
    "host.order", "§4", order => "window, order and consume are as for device memory";
    "host.mixed_comm", "§4", mixed => "host and device messages alternate on one comm";
    "host.mixed_receives", "§4", mixed_receives =>
        "host receives, and device receives that name one page, alternate on one comm";
}

const SIZES: [u64; 6] = [0, 1, 4097, 65_536, 100_001, 524_288];

/// Moves one message. Returns `false` when a receive into host memory hangs, as it does where the
/// socket is steered to a GPU.
fn transfer_or_hang(
    fixture: &Fixture<'_>,
    pair: &CommPair,
    bytes: u64,
    seed: u64,
) -> CheckResult<bool> {
    let receive = pair.receive(0, bytes)?;
    let send = pair.send(0, bytes, seed)?;
    let mut patience = Observation::lasting(fixture.share(1, 4));
    let (mut sent, mut got) = (false, false);
    while !(sent && got) {
        for (process, request, done) in
            [(&pair.sender, send, &mut sent), (&pair.receiver, receive.request, &mut got)]
        {
            if !*done {
                let TestReply { rc, done: now, .. } = process.test(request)?;
                require_rc("test of the oldest request", rc, 0)?;
                *done = now == 1;
            }
        }
        if !patience.continues() || fixture.has_used(1, 1) {
            return Ok(false);
        }
    }
    pair.check(&receive, bytes, seed)?;
    pair.consume(&receive)?;
    Ok(true)
}

/// Connects a pair with buffers of these types, and moves each size once.
fn every_size(fixture: &Fixture<'_>, send_kind: i32, recv_kind: i32) -> CheckResult<CommPair> {
    if send_kind == PTR_CUDA || recv_kind == PTR_CUDA {
        fixture.require_entries()?;
    }
    let pair = fixture.pair_of(send_kind, recv_kind)?;
    for (seed, bytes) in (0..).zip(SIZES) {
        if transfer_or_hang(fixture, &pair, bytes, seed)? {
            continue;
        }
        require(recv_kind == PTR_HOST, "the message arrives", || format!("not {bytes} bytes"))?;
        return Err(differs(
            "receives into host memory hang, as in 3.1.9 where the socket is steered to a GPU",
        ));
    }
    Ok(pair)
}

fn to_host(fixture: &Fixture<'_>) -> CheckResult {
    let pair = every_size(fixture, PTR_HOST, PTR_HOST)?;
    for slot in 0..SIZES.len() as u64 {
        let cnt = pair.receiver.word(unpack_row::count_address(pair.queue.meta, slot))?;
        require(cnt == 0, "cnt 0 for host receives", || format!("{cnt} in slot {slot}"))?;
    }
    Ok(())
}

fn to_device(fixture: &Fixture<'_>) -> CheckResult {
    every_size(fixture, PTR_HOST, PTR_CUDA).map(drop)
}

fn from_device(fixture: &Fixture<'_>) -> CheckResult {
    every_size(fixture, PTR_CUDA, PTR_HOST).map(drop)
}

fn alignment(fixture: &Fixture<'_>) -> CheckResult {
    let pair = working_host_pair(fixture)?;
    for (seed, (from, to)) in (0..).zip([(1, 0), (0, 3), (4095, 4097), (17, 100_003)]) {
        let receive = pair.receive(to, 30_001)?;
        let send = pair.send(from, 30_001, seed)?;
        pair.complete(fixture, send, &receive)?;
        pair.check(&receive, 30_001, seed)?;
        pair.consume(&receive)?;
    }
    Ok(())
}

/// Connects a pair with host buffers; skips the check where its receives hang.
fn working_host_pair(fixture: &Fixture<'_>) -> CheckResult<CommPair> {
    let pair = fixture.pair_of(PTR_HOST, PTR_HOST)?;
    if transfer_or_hang(fixture, &pair, 1000, 1)? {
        Ok(pair)
    } else {
        Err(skip("receives into host memory hang here"))
    }
}

fn bounds(fixture: &Fixture<'_>) -> CheckResult {
    const MARK: u8 = 0xa5;
    let pair = working_host_pair(fixture)?;
    let (at, whole) = (pair.incoming.at, 64 * 1024_usize);
    pair.receiver.write(at, vec![MARK; whole])?;
    // The receive is posted for more bytes than are sent: the rest must stay unwritten.
    let receive = pair.receive(4096, 50_000)?;
    let send = pair.send(0, 20_000, 1)?;
    pair.complete(fixture, send, &receive)?;
    pair.check(&receive, 20_000, 1)?;
    pair.consume(&receive)?;
    let bytes = pair.receiver.read(at, whole as u32)?;
    let around = bytes[..4096].iter().chain(&bytes[4096 + 20_000..]);
    let touched = around.filter(|&&byte| byte != MARK).count();
    require(touched == 0, "nothing written around the message", || format!("{touched} bytes"))
}

fn order(fixture: &Fixture<'_>) -> CheckResult {
    let pair = working_host_pair(fixture)?;
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for i in 0..16 {
        receives.push(pair.receive(i * 65_536, 60_000)?);
        sends.push(pair.send(i * 65_536, 60_000 - i, i)?);
    }
    require_rc("the 17th irecv", pair.irecv(pair.incoming.at, 100)?.rc, 3)?;
    require_rc("the 17th isend", pair.isend(pair.outgoing.at, 100)?.rc, 3)?;
    require_rc("irecvConsumed before done", pair.irecv_consumed(receives[0].request)?, 3)?;
    pair.complete_all(fixture, &sends, &receives)?;
    require_rc(
        "irecvConsumed of the second before the first",
        pair.irecv_consumed(receives[1].request)?,
        3,
    )?;
    for (seed, receive) in (0..).zip(&receives) {
        pair.check(receive, 60_000 - seed, seed)?;
        pair.consume(receive)?;
    }
    Ok(())
}

fn mixed(fixture: &Fixture<'_>) -> CheckResult {
    fixture.require_entries()?;
    let device = fixture.pair_of(PTR_CUDA, PTR_CUDA)?;
    let from = device.sender.allocate_registered(device.send_comm, BUFFER_BYTES, PTR_HOST)?;
    // Device receives take messages from host memory and from device memory by turns.
    let mut host = device;
    let device_buffer = host.outgoing;
    for seed in 0..12 {
        host.outgoing = if seed % 2 == 0 { from } else { device_buffer };
        host.transfer(fixture, 1 + seed * 5000, seed)?;
    }
    Ok(())
}

fn mixed_receives(fixture: &Fixture<'_>) -> CheckResult {
    const PAGE_BYTES: u64 = 4096;
    const PAGE_SEED: u64 = 99;
    const STEP: u64 = 65_536;
    fixture.require_entries()?;
    working_host_pair(fixture)?;
    let mut pair = fixture.pair_of(PTR_HOST, PTR_CUDA)?;
    let place = pair.receiver.allocate_registered(pair.recv_comm, BUFFER_BYTES, PTR_HOST)?;
    let page = pair.receiver.allocate_registered(pair.recv_comm, PAGE_BYTES, PTR_CUDA)?;
    pair.receiver.fill(page.at, PAGE_BYTES, PAGE_SEED)?;
    let bytes_of = |seed: u64| 1 + seed * 4000;
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for seed in 0..16 {
        let (buffer, offset) = if seed % 2 == 0 { (place, seed * STEP) } else { (page, 0) };
        pair.incoming = buffer;
        receives.push(pair.receive(offset, bytes_of(seed))?);
        sends.push(pair.send(seed * STEP, bytes_of(seed), seed)?);
    }
    pair.complete_all(fixture, &sends, &receives)?;
    for (seed, receive) in (0..).zip(&receives) {
        if seed % 2 == 0 {
            let wrong = pair.receiver.verify(receive.place, bytes_of(seed), seed)?;
            require(wrong.is_none(), "a host message in place", || format!("{wrong:x?}"))?;
        } else {
            pair.check(receive, bytes_of(seed), seed)?;
        }
        pair.consume(receive)?;
    }
    let wrong = pair.receiver.verify(page.at, PAGE_BYTES, PAGE_SEED)?;
    require(wrong.is_none(), "the page as it was", || format!("{wrong:x?}"))
}
