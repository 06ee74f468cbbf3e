//! As much of everything as a peer can say: memory stays bounded, and comes back.

use std::time::{Duration, Instant};

use tcpx_testkit::in_own_process;
use tcpx_tests::proxy::kind;

use super::arena::BYTES;
use super::frames::{
    WireRange, chunks, forget, keys, list, list_of, notify, read, write, write_now,
};
use super::target::{CLOSE_TIMEOUT, LONG, TargetSetup};

const LIST: u32 = 1 << 20;
const REQUEST: u64 = 77 << 32 | 5;
/// What a machine under load may be late by.
const SLACK: Duration = Duration::from_secs(30);
/// Most requests of a kind under way, and ranges of all lists.
const MOST_ASKED: u64 = 1024;
const MOST_RANGES: usize = 1 << 22;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line for it");
    line.split_whitespace().next().and_then(|it| it.parse().ok()).expect("a number")
}

fn names() -> impl Iterator<Item = u64> {
    (0..MOST_ASKED).map(|number| REQUEST + (number << 32))
}

/// Every other byte of what is exported: nothing lies one behind the other.
fn scattered(count: u64) -> Vec<WireRange> {
    (0..count).map(|number| (0, 2 * number, 1)).collect()
}

/// As many writes as a peer may have, but for one that asks whether they were handled, and none of
/// them sends a byte.
#[test]
fn memory_comes_back_from_writes_that_never_come() {
    let setup = TargetSetup::new();
    let hostile = setup.hostile("hostile");
    hostile.send_frames(&list(LIST, true, &hostile.write_key, &[(0, 0, LONG)]));
    hostile.send_frames(&names().skip(1).flat_map(|name| write(name, LIST)).collect::<Vec<u8>>());
    hostile.wait_until_handled();
    let start = Instant::now();
    setup.target.unexport(&setup.writable).expect("the peer that keeps it is ended");
    let took = start.elapsed();
    assert!(took >= CLOSE_TIMEOUT, "it has had its time: {took:?}");
    assert!(took < CLOSE_TIMEOUT + SLACK, "{took:?}");
    setup.target.create_transfer("hostile").map(drop).expect_err("it was ended");
    hostile.end();
    setup.end("writes that never come");
}

/// As many reads as a peer may have, and no byte of them is taken.
#[test]
fn memory_of_unreceived_reads_is_freed() {
    let setup = TargetSetup::new();
    let hostile = setup.hostile("hostile");
    hostile.send_frames(&list(LIST, false, &hostile.read_key, &[(0, 0, BYTES)]));
    hostile.send_frames(&names().flat_map(|name| read(name, LIST)).collect::<Vec<u8>>());
    hostile.wait_until_handled();
    let start = Instant::now();
    setup.target.unexport(&setup.readable).expect("the peer that keeps it is ended");
    let took = start.elapsed();
    assert!(took < CLOSE_TIMEOUT + SLACK, "{took:?}");
    hostile.end();
    setup.end("reads that are not received");
}

/// The list begins, and its ranges never come: nothing is set aside for it.
#[test]
fn a_list_takes_no_memory_before_its_ranges_come() {
    in_own_process!();
    let setup = TargetSetup::new();
    let hostile = setup.hostile("hostile");
    let before = resident_kib();
    let begun = list_of(LIST, true, (1 << 20, 1 << 20), 1 << 40);
    hostile.send_frames(&[begun.clone(), keys(LIST, &[hostile.write_key]), begun].concat());
    setup.assert_disconnected(&hostile, "a second list");
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 20_000, "{grown} KiB for a list without its ranges");
    hostile.end();
    setup.end("a list without end");
}

#[test]
#[ignore = "deep: millions of ranges"]
fn lists_without_end_are_bounded() {
    in_own_process!();
    const RANGES: usize = 8_000;
    let setup = TargetSetup::new();
    let hostile = setup.hostile("hostile");
    let all = scattered(RANGES as u64);
    let before = resident_kib();
    for number in 0..(MOST_RANGES / RANGES) as u32 {
        hostile.send_frames(&list(LIST + number, true, &hostile.write_key, &all));
    }
    hostile.wait_until_handled();
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 150_000, "{grown} KiB for all lists that a peer may have");
    hostile.send_frames(&list(LIST - 1, true, &hostile.write_key, &all));
    setup.assert_disconnected(&hostile, "a list more than there may be");
    hostile.end();
    setup.end("lists");
}

#[test]
fn lists_that_are_forgotten_leave_nothing() {
    in_own_process!();
    let setup = TargetSetup::new();
    let hostile = setup.hostile("hostile");
    let frames = list(LIST, true, &hostile.write_key, &scattered(20_000));
    let send_lists = |times: usize| {
        (0..times).for_each(|_| hostile.send_frames(&[&frames[..], &forget(LIST)].concat()));
        hostile.wait_until_handled();
        resident_kib()
    };
    let before = send_lists(5);
    let grown = send_lists(100).saturating_sub(before);
    assert!(grown < 10_000, "{grown} KiB for lists that were forgotten");
    hostile.end();
    setup.end("lists that are forgotten");
}

/// Reads whose bytes all lie apart are scheduled, their list is forgotten, and the peer does not
/// take them.
#[test]
fn unreceived_reads_are_bounded() {
    in_own_process!();
    let setup = TargetSetup::new();
    let hostile = setup.hostile("hostile");
    let all = list(LIST, false, &hostile.read_key, &scattered(65_536));
    let before = resident_kib();
    hostile.send_frames(&all);
    hostile.send_frames(&names().take(400).flat_map(|name| read(name, LIST)).collect::<Vec<u8>>());
    // The round that deals anything deals all that may be under way.
    hostile.receive_frame(kind::CHUNKS);
    hostile.wait_until_handled();
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 100_000, "{grown} KiB for reads that are not received");
    hostile.end();
    setup.end("reads that are not received");
}

/// Frames of chunks of writes come, and the chunks do not.
#[test]
#[ignore = "deep: millions of ranges"]
fn empty_chunks_are_bounded() {
    in_own_process!();
    const EACH: u64 = 4096;
    let setup = TargetSetup::new();
    let hostile = setup.hostile("hostile");
    let count = 65_536;
    hostile.send_frames(&list(LIST, true, &hostile.write_key, &scattered(count)));
    let before = resident_kib();
    for name in names().take(400) {
        let receive = hostile.begin_write(name, LIST);
        let frames = (0..count).step_by(EACH as usize);
        hostile.send_frames(&frames.flat_map(|at| chunks(receive, at, EACH)).collect::<Vec<u8>>());
    }
    hostile.wait_until_handled();
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 100_000, "{grown} KiB for frames whose chunks do not come");
    hostile.end();
    setup.end("chunks of nothing");
}

/// Requests that are refused at once, one after the other, by a peer that never reads its link.
#[test]
fn unread_answers_are_bounded() {
    in_own_process!();
    let setup = TargetSetup::new();
    let hostile = setup.hostile("hostile");
    hostile.send_frames(&list(LIST, true, &hostile.read_key, &[(0, 0, 1)]));
    hostile.stop_reading();
    let before = resident_kib();
    let requests: Vec<u8> = (0..1000).flat_map(|_| write_now(REQUEST, LIST, &[0])).collect();
    let mut sent = 0;
    while !setup.has_disconnected(&hostile) {
        assert!(sent < 2_000_000, "it is still there");
        hostile.send_frames(&requests);
        sent += 1000;
    }
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 20_000, "{grown} KiB after {sent} requests");
    hostile.end();
    setup.end("answers that are not read");
}

/// Faster than they are read, past what the buffer takes.
#[test]
fn notifications_past_the_buffer_end_the_peer() {
    in_own_process!();
    let setup = TargetSetup::new();
    for (index, (bytes, count, most)) in
        [(60_000, 100, 17), (0, 1_000_000, 16_384)].into_iter().enumerate()
    {
        let hostile = setup.hostile(&format!("hostile {index}"));
        let before = resident_kib();
        let notes = notify(&vec![9; bytes]).repeat(count.min(1_000));
        (0..count.div_ceil(1_000)).for_each(|_| hostile.send_frames(&notes));
        setup.assert_disconnected(&hostile, "notifications");
        let grown = resident_kib().saturating_sub(before);
        assert!(grown < 20_000, "{grown} KiB for a buffer of 1 MiB");
        let mut notes = Vec::new();
        setup.target.poll_notifications(&mut notes, count).expect("no fork");
        assert!((1..=most).contains(&notes.len()), "{} were taken in", notes.len());
        hostile.end();
    }
    setup.end("notifications");
}
