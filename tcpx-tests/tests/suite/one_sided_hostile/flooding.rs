//! As much of everything as a peer can say: memory stays bounded, and comes back.

use std::time::{Duration, Instant};

use tcpx_testkit::in_own_process;
use tcpx_tests::proxy::kind;

use super::arena::BYTES;
use super::scene::{CLOSE_TIMEOUT, LONG, Scene};
use super::words::{
    WireRange, forget, keys, list, list_of, notify, read, section, write, write_now,
};

const LIST: u32 = 1 << 20;
const REQUEST: u64 = 77 << 32 | 5;
/// What a machine under load may be late by.
const SLACK: Duration = Duration::from_secs(30);
/// Most requests of a kind under way, and ranges of all lists.
const MOST_ASKED: u64 = 1024;
const MOST_RANGES: usize = 1 << 22;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says so");
    line.split_whitespace().next().and_then(|it| it.parse().ok()).expect("a number")
}

fn names() -> impl Iterator<Item = u64> {
    (0..MOST_ASKED).map(|number| REQUEST + (number << 32))
}

/// Every other byte of what is exported: nothing lies one behind the other.
fn scattered(count: u64) -> Vec<WireRange> {
    (0..count).map(|number| (0, 2 * number, 1)).collect()
}

/// As many writes as a peer may have, but for one that asks whether they were heard, and none of
/// them sends a byte.
#[test]
fn memory_comes_back_from_writes_that_never_come() {
    let scene = Scene::new();
    let liar = scene.liar("liar");
    liar.say(&list(LIST, true, &liar.write_key, &[(0, 0, LONG)]));
    liar.say(&names().skip(1).flat_map(|name| write(name, LIST)).collect::<Vec<u8>>());
    liar.wait_until_heard();
    let start = Instant::now();
    scene.target.unexport(&scene.writable).expect("the peer that keeps it is ended");
    let took = start.elapsed();
    assert!(took >= CLOSE_TIMEOUT, "it has had its time: {took:?}");
    assert!(took < CLOSE_TIMEOUT + SLACK, "{took:?}");
    scene.target.create_transfer("liar").map(drop).expect_err("it was ended");
    liar.end();
    scene.end("writes that never come");
}

/// As many reads as a peer may have, and no byte of them is taken.
#[test]
fn memory_of_unreceived_reads_is_freed() {
    let scene = Scene::new();
    let liar = scene.liar("liar");
    liar.say(&list(LIST, false, &liar.read_key, &[(0, 0, BYTES)]));
    liar.say(&names().flat_map(|name| read(name, LIST)).collect::<Vec<u8>>());
    liar.wait_until_heard();
    let start = Instant::now();
    scene.target.unexport(&scene.readable).expect("the peer that keeps it is ended");
    let took = start.elapsed();
    assert!(took < CLOSE_TIMEOUT + SLACK, "{took:?}");
    liar.end();
    scene.end("reads that are not received");
}

/// Announced, and never told: nothing is set aside for it.
#[test]
fn a_list_takes_no_memory_before_its_ranges_come() {
    in_own_process!();
    let scene = Scene::new();
    let liar = scene.liar("liar");
    let before = resident_kib();
    let announced = list_of(LIST, true, (1 << 20, 1 << 20), 1 << 40);
    liar.say(&[announced.clone(), keys(LIST, &[liar.write_key]), announced].concat());
    scene.assert_thrown_out(&liar, "a second list");
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 20_000, "{grown} KiB for a list that was never told");
    liar.end();
    scene.end("a list without end");
}

#[test]
#[ignore = "deep: millions of ranges"]
fn lists_without_end_are_bounded() {
    in_own_process!();
    const RANGES: usize = 8_000;
    let scene = Scene::new();
    let liar = scene.liar("liar");
    let all = scattered(RANGES as u64);
    let before = resident_kib();
    for number in 0..(MOST_RANGES / RANGES) as u32 {
        liar.say(&list(LIST + number, true, &liar.write_key, &all));
    }
    liar.wait_until_heard();
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 150_000, "{grown} KiB for all lists that a peer may tell");
    liar.say(&list(LIST - 1, true, &liar.write_key, &all));
    scene.assert_thrown_out(&liar, "a list more than there may be");
    liar.end();
    scene.end("lists");
}

#[test]
fn lists_that_are_forgotten_leave_nothing() {
    in_own_process!();
    let scene = Scene::new();
    let liar = scene.liar("liar");
    let words = list(LIST, true, &liar.write_key, &scattered(20_000));
    let tell = |times: usize| {
        (0..times).for_each(|_| liar.say(&[&words[..], &forget(LIST)].concat()));
        liar.wait_until_heard();
        resident_kib()
    };
    let before = tell(5);
    let grown = tell(100).saturating_sub(before);
    assert!(grown < 10_000, "{grown} KiB for lists that were forgotten");
    liar.end();
    scene.end("lists that are forgotten");
}

/// Reads whose bytes all lie apart are dealt, their list is forgotten, and the peer does not take
/// them.
#[test]
fn unreceived_reads_are_bounded() {
    in_own_process!();
    let scene = Scene::new();
    let liar = scene.liar("liar");
    let all = list(LIST, false, &liar.read_key, &scattered(65_536));
    let before = resident_kib();
    liar.say(&all);
    liar.say(&names().take(400).flat_map(|name| read(name, LIST)).collect::<Vec<u8>>());
    // The round that deals anything deals all that may be under way.
    liar.hear(kind::CHUNKS);
    liar.wait_until_heard();
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 100_000, "{grown} KiB for reads that are not received");
    liar.end();
    scene.end("reads that are not received");
}

/// The sections of writes are said, and their chunks do not come.
#[test]
#[ignore = "deep: millions of ranges"]
fn empty_chunks_are_bounded() {
    in_own_process!();
    const SECTION: u64 = 4096;
    let scene = Scene::new();
    let liar = scene.liar("liar");
    let count = 65_536;
    liar.say(&list(LIST, true, &liar.write_key, &scattered(count)));
    let before = resident_kib();
    for name in names().take(400) {
        let receive = liar.begin_write(name, LIST);
        let sections = (0..count).step_by(SECTION as usize);
        liar.say(&sections.flat_map(|at| section(receive, at, SECTION)).collect::<Vec<u8>>());
    }
    liar.wait_until_heard();
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 100_000, "{grown} KiB for sections whose chunks do not come");
    liar.end();
    scene.end("sections of nothing");
}

/// Requests that are refused at once, one after the other, by a peer that never reads its link.
#[test]
fn unread_answers_are_bounded() {
    in_own_process!();
    let scene = Scene::new();
    let liar = scene.liar("liar");
    liar.say(&list(LIST, true, &liar.read_key, &[(0, 0, 1)]));
    liar.stop_reading();
    let before = resident_kib();
    let requests: Vec<u8> = (0..1000).flat_map(|_| write_now(REQUEST, LIST, &[0])).collect();
    let mut said = 0;
    while !scene.has_thrown_out(&liar) {
        assert!(said < 2_000_000, "it is still there");
        liar.say(&requests);
        said += 1000;
    }
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 20_000, "{grown} KiB after {said} requests");
    liar.end();
    scene.end("answers that are not read");
}

/// Faster than they are read, past what the buffer takes.
#[test]
fn notifications_past_the_buffer_end_the_peer() {
    in_own_process!();
    let scene = Scene::new();
    for (index, (bytes, count, most)) in
        [(60_000, 100, 17), (0, 1_000_000, 16_384)].into_iter().enumerate()
    {
        let liar = scene.liar(&format!("liar {index}"));
        let before = resident_kib();
        let notes = notify(&vec![9; bytes]).repeat(count.min(1_000));
        (0..count.div_ceil(1_000)).for_each(|_| liar.say(&notes));
        scene.assert_thrown_out(&liar, "notifications");
        let grown = resident_kib().saturating_sub(before);
        assert!(grown < 20_000, "{grown} KiB for a buffer of 1 MiB");
        let mut notes = Vec::new();
        scene.target.poll_notifications(&mut notes, count).expect("no fork");
        assert!((1..=most).contains(&notes.len()), "{} were taken in", notes.len());
        liar.end();
    }
    scene.end("notifications");
}
