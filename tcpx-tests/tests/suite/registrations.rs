#![allow(unsafe_code)]
//! Registrations come and go by the hundred thousand while a peer is up, and leave nothing behind.

use tcpx_core::{Access, MemoryAddress, MemoryId, MemoryType, Post, Session};
use tcpx_testkit::{in_own_process, until};
use tcpx_tests::sessions::{disconnect_both, pair, soft};

/// Pairs of register and deregister; the variable TCPX_TEST_REGISTRATIONS asks for another number.
const PAIRS: u64 = 100_000;
/// The same where there is little time.
const FEW_PAIRS: u64 = 8_000;
/// Interval of registrations at which one moves a message, and so becomes known to the plugin on
/// every channel.
const USED_EVERY: u64 = 50;
/// A leak of 41 bytes for each of [`PAIRS`], or of half a page for each used one, passes this.
const SLACK_KIB: u64 = 4_000;
const BYTES: u64 = 8_192;

/// Open files and resident KiB of this process.
fn footprint() -> (usize, u64) {
    let files = std::fs::read_dir("/proc/self/fd").expect("this is Linux").count();
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = resident.and_then(|text| text.split_whitespace().next()?.parse().ok());
    (files, number.expect("the system says how much is resident"))
}

/// A message from the one registration to the other, driven by this thread alone.
fn transfer(left: &Session, right: &Session, from: MemoryId, to: MemoryId) {
    let post = |memory| Post { memory, offset: 0, bytes: BYTES, tag: 0 };
    let receive = right.create_transfer("left").expect("it is up");
    let send = left.create_transfer("right").expect("it is up");
    receive.post_recv(post(to)).expect("post");
    send.post_send(post(from)).expect("post");
    until("the message has come", || {
        send.is_complete().expect("send") & receive.is_complete().expect("receive")
    });
}

fn pairs(left: &Session, right: &Session, buffers: &[Vec<u8>], count: u64) {
    for number in 0..count {
        // Ranges and kinds vary, so that few registrations are like the one before.
        let buffer = &buffers[(number % buffers.len() as u64) as usize];
        let start = MemoryAddress::from_ptr(buffer[(number % 64 * 8) as usize..].as_ptr());
        let memory = if number % 3 == 0 { MemoryType::Host } else { MemoryType::Device };
        // SAFETY: the buffer is longer than the range, outlives every registration made here, and
        // is only read.
        let from = unsafe { left.register_memory(start, BYTES, memory, Access::ReadOnly) }
            .expect("it fits");
        if number % USED_EVERY == 0 {
            let to = right.allocate(BYTES, memory).expect("there is room");
            transfer(left, right, from, to);
            right.deregister_memory(to).expect("it is free");
        }
        left.deregister_memory(from).expect("it is free");
    }
}

#[test]
fn a_few_leave_files_and_memory_as_they_were() {
    in_own_process!();
    come_and_go(FEW_PAIRS, FEW_PAIRS);
}

#[test]
#[ignore = "deep: a hundred thousand"]
fn they_leave_files_and_memory_as_they_were() {
    in_own_process!();
    let count = match std::env::var("TCPX_TEST_REGISTRATIONS") {
        Ok(text) => text.parse().expect("TCPX_TEST_REGISTRATIONS is a number"),
        Err(_) => PAIRS,
    };
    come_and_go(PAIRS / 3, count);
}

/// Looks at what `count` pairs leave, after others.
fn come_and_go(before_the_first_look: u64, count: u64) {
    let [left, right] = pair(soft().chunk_bytes(4_096));
    let buffers: Vec<Vec<u8>> = (0..10).map(|_| vec![0; BYTES as usize + 512]).collect();
    // Pages of the bounce region, and whatever grows once, are taken before the first look.
    pairs(&left, &right, &buffers, before_the_first_look);
    let before = footprint();
    pairs(&left, &right, &buffers, count);
    let after = footprint();
    println!("{count} pairs: {} -> {} files, {} -> {} KiB", before.0, after.0, before.1, after.1);
    assert_eq!(after.0, before.0, "open files");
    assert!(after.1 <= before.1 + SLACK_KIB, "{} KiB, before {} KiB", after.1, before.1);
    disconnect_both(&left, &right);
}
