//! Slots of the unpack queue.
//!
//! § is a section of docs/plugin-contract.md.

use tcpx_sys::{UNPACK_QUEUE_DEPTH, UnpackNetDeviceHandle};

use crate::check::checks;
use crate::harness::check_result::{CheckResult, require};
use crate::harness::comm_pair::CommPair;
use crate::harness::fixture::Fixture;
use crate::message::unpack_row;

checks! { Queue:
    "queue.slots", "§1.5", slots => "the k-th receive uses slot k mod 16, empty ones included";
    "queue.one_slot_each", "§3.5", one_slot => "a receive writes the cnt of its own slot only";
    "queue.cnt_stale", "§3.5", stale => "cnt is not the new count before done";
    "queue.empty_cnt", "§3.5", empty => "an empty message leaves cnt 0";
    "queue.head", "§3.5", head => "the plugin never writes head";
    "queue.final", "§3.5", r#final => "cnt and row stay until the receive is consumed";
}

/// Bytes from the start of the device struct to its `head`.
const HEAD_OFFSET: u64 = std::mem::offset_of!(UnpackNetDeviceHandle, head) as u64;

const DEPTH: u64 = UNPACK_QUEUE_DEPTH as u64;

/// Returns the `cnt` of every slot.
fn counts(pair: &CommPair) -> CheckResult<Vec<u64>> {
    (0..DEPTH)
        .map(|slot| pair.receiver.word(unpack_row::count_address(pair.queue.meta, slot)))
        .collect()
}

fn slots(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.unpack_pair()?;
    for k in 0..2 * DEPTH + 8 {
        // Every message has another size, so a row of another slot cannot pass for this one's.
        let bytes = if k % 5 == 3 { 0 } else { 1000 + k * 37 };
        pair.transfer(fixture, bytes, k)?;
    }
    Ok(())
}

fn one_slot(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.unpack_pair()?;
    for k in 0..DEPTH + 4 {
        let before = counts(&pair)?;
        let receive = pair.receive(0, 20_000)?;
        let send = pair.send(0, 20_000 - k, k)?;
        pair.complete(fixture, send, &receive)?;
        let after = counts(&pair)?;
        for slot in (0..DEPTH).filter(|&slot| slot != k % DEPTH) {
            let (was, is) = (before[slot as usize], after[slot as usize]);
            require(was == is, "the cnt of other slots as it was", || {
                format!("receive {k} changed slot {slot} from {was} to {is}")
            })?;
        }
        pair.consume(&receive)?;
    }
    Ok(())
}

fn stale(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.unpack_pair()?;
    // One round of the ring with large messages leaves their counts in the slots.
    for k in 0..DEPTH {
        pair.transfer(fixture, 200_000, k)?;
    }
    let old = counts(&pair)?[0];
    let receive = pair.receive(0, 100)?;
    let send = pair.send(0, 100, 50)?;
    // The sender does all it can; the receiver calls no test, so it may publish nothing.
    for _ in 0..200 {
        if pair.sender.test(send)?.done == 1 {
            break;
        }
        let cnt = counts(&pair)?[0];
        require(cnt == old, "the count of request k-16 until test is called", || {
            format!("{cnt} after {old}")
        })?;
    }
    let cnt = counts(&pair)?[0];
    require(cnt == old, "the count of request k-16 until test is called", || {
        format!("{cnt} after {old}")
    })?;
    loop {
        let tested = pair.receiver.test(receive.request)?;
        let cnt = counts(&pair)?[0];
        if tested.done == 1 {
            break;
        }
        require(cnt == old || cnt == 0, "the old count or 0 before done", || {
            format!("{cnt} after {old}")
        })?;
        require(!fixture.has_used(1, 1), "the receive is done", || {
            "not at the deadline".to_owned()
        })?;
    }
    pair.check(&receive, 100, 50)?;
    pair.consume(&receive)
}

fn empty(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.unpack_pair()?;
    for k in 0..DEPTH {
        pair.transfer(fixture, 5000, k)?;
    }
    for slot in 0..3 {
        let receive = pair.receive(0, 0)?;
        let send = pair.send(0, 0, 0)?;
        pair.complete(fixture, send, &receive)?;
        let cnt = counts(&pair)?[slot];
        require(cnt == 0, "cnt 0", || cnt.to_string())?;
        pair.consume(&receive)?;
    }
    Ok(())
}

fn head(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.unpack_pair()?;
    let handle_head =
        |pair: &CommPair| pair.receiver.word(pair.device_struct.wrapping_add(HEAD_OFFSET));
    for k in 0..DEPTH + 4 {
        pair.transfer(fixture, 5000, k)?;
        let head = handle_head(&pair)?;
        require(head == u64::MAX, "head 2^64-1", || format!("{head:#x} after {} receives", k + 1))?;
    }
    Ok(())
}

fn r#final(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.unpack_pair()?;
    let receive = pair.receive(0, 100_000)?;
    let send = pair.send(0, 100_000, 1)?;
    pair.complete(fixture, send, &receive)?;
    let row = pair.row(&receive)?;
    for k in 1..DEPTH {
        let receive = pair.receive(0, 3000)?;
        let send = pair.send(0, 3000, k)?;
        pair.complete(fixture, send, &receive)?;
    }
    let now = pair.row(&receive)?;
    require(now == row, "the row as it was", || {
        format!("{} entries, then {}", row.len(), now.len())
    })?;
    pair.check(&receive, 100_000, 1)?;
    pair.consume(&receive)
}
