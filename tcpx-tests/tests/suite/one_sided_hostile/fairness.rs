//! Requests of a long list, sent as fast as a peer can: each is 23 bytes, and makes the target look
//! at any number of keys or pieces. A message of another peer has its turn all the same.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tcpx_core::{ExportOptions, MemoryType, Post, RemoteAccess, RemoteKey};
use tcpx_testkit::{PATIENCE, in_own_process};
use tcpx_tests::proxy::kind;

use super::arena::{BYTES, MARGIN};
use super::frames::{
    EndFrame, WireKey, WireRange, list_of_keys, read, read_on_link, why, wire_key,
};
use super::target::{HostilePeer, TargetSetup};

const LIST: u32 = 1 << 20;
const REQUEST: u64 = 77 << 32 | 5;
/// Bytes of reads that are under way at once, where they are answered.
const UNDER_WAY: u64 = 60_000;
/// Refusals that were not read yet: a peer that reads none is thrown out.
const REFUSALS: u64 = 32_768;
/// How long a peer is measured.
const WINDOW: Duration = Duration::from_secs(1);
/// Most processor time of this process, all three peers' together, that half a round trip may take
/// in a debug build. What else runs on the machine is not in it; what the target does for a hostile
/// peer before it turns to the other is.
const BAR: Duration = Duration::from_millis(30);

/// Asks for reads of an open list of `bytes` bytes until `is_over`.
fn read_all(hostile: &HostilePeer, bytes: u64, is_over: &AtomicBool) -> u64 {
    let (mut asked, mut under_way) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        while under_way + bytes <= UNDER_WAY {
            asked += 1;
            hostile.send_frames(&read_on_link(REQUEST + (asked << 32), LIST));
            under_way += bytes;
        }
        // The name comes first, and the number of bytes behind it.
        let part = hostile.receive_frame(kind::LINK_CHUNK);
        under_way -= u64::from(u32::from_le_bytes(part[9..13].try_into().expect("a number")));
    }
    asked
}

/// Does the same with a list that has a key taken back.
fn read_what_is_refused(hostile: &HostilePeer, is_over: &AtomicBool) -> u64 {
    let (mut asked, mut refused) = (0, 0);
    let some: Vec<u8> = (0..REFUSALS / 16).flat_map(|_| read(REQUEST, LIST)).collect();
    while !is_over.load(Ordering::Relaxed) {
        hostile.send_frames(&some);
        asked += REFUSALS / 16;
        while asked - refused > REFUSALS {
            refused += hostile.skip_frames(kind::STOPPED) as u64;
        }
    }
    asked
}

/// Half of a median round trip.
struct HalfRoundTrip {
    time: Duration,
    /// Processor time that this process has used meanwhile.
    used: Duration,
}

fn used() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

/// Of round trips of messages of the witness.
fn half_round_trip(setup: &TargetSetup) -> HalfRoundTrip {
    let is_over = AtomicBool::new(false);
    let ends = [(&setup.witness, "target"), (&setup.target, "witness")].map(|(session, peer)| {
        let memory = session.allocate(64, MemoryType::Host).expect("memory");
        let transfer = || session.create_transfer(peer).expect("they are connected");
        let post = move |tag| Post { memory, offset: 0, bytes: 64, tag };
        (transfer(), transfer(), post)
    });
    let [(pings, pongs, post), (pinged, ponged, post_there)] = &ends;
    let mut times = thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                pinged.post_recv(post_there(1)).expect("they are connected");
                pinged.wait(Some(PATIENCE)).expect("it comes");
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                ponged.post_send(post_there(2)).expect("they are connected");
            }
        });
        let (began, mut times) = (Instant::now(), Vec::new());
        while began.elapsed() < WINDOW {
            let (start, used_before) = (Instant::now(), used());
            pongs.post_recv(post(2)).expect("they are connected");
            pings.post_send(post(1)).expect("they are connected");
            pongs.wait(Some(PATIENCE)).expect("it is answered");
            times.push((start.elapsed(), used() - used_before));
        }
        // The last one is not answered.
        is_over.store(true, Ordering::Relaxed);
        pings.post_send(post(1)).expect("they are connected");
        pings.wait(Some(PATIENCE)).expect("it comes");
        times
    });
    let mut median = |of: fn(&(Duration, Duration)) -> Duration| {
        times.sort_unstable_by_key(of);
        of(&times[times.len() / 2]) / 2
    };
    HalfRoundTrip { time: median(|it| it.0), used: median(|it| it.1) }
}

/// Measures beside a peer that asks for reads of a list of `keys` keys.
fn beside(keys: u64, is_open: bool) -> Duration {
    let setup = TargetSetup::new();
    let hostile = setup.hostile("hostile");
    hostile.withhold(kind::LINK_CHUNK);
    let exported: Vec<RemoteKey> = (0..keys)
        .map(|number| {
            let options = ExportOptions::new(RemoteAccess::Read).range(MARGIN + number, 1);
            setup.target.export(setup.memory, options).expect("it is registered")
        })
        .collect();
    assert!(keys <= BYTES);
    let named: Vec<WireKey> = exported.iter().map(wire_key).collect();
    let ranges: Vec<WireRange> = (0..keys as u32).map(|key| (key, 0, 1)).collect();
    hostile.send_frames(&list_of_keys(LIST, false, &named, &ranges));
    hostile.wait_until_handled();
    if !is_open {
        let last = exported.last().expect("there are some");
        setup.target.unexport(last).expect("nothing uses it");
        hostile.send_frames(&read(REQUEST, LIST));
        assert_eq!(EndFrame::of(&hostile.receive_frame(kind::STOPPED)).why, why::REVOKED);
    }
    let quiet = half_round_trip(&setup);
    let is_over = AtomicBool::new(false);
    let (p50, asked) = thread::scope(|scope| {
        let asked = scope.spawn(|| match is_open {
            true => read_all(&hostile, keys, &is_over),
            false => read_what_is_refused(&hostile, &is_over),
        });
        let p50 = half_round_trip(&setup);
        is_over.store(true, Ordering::Relaxed);
        (p50, asked.join().expect("no panic"))
    });
    assert!(!setup.has_disconnected(&hostile), "it does nothing that it may not");
    let what = if is_open { "open" } else { "refused" };
    let (HalfRoundTrip { time, used }, quiet) = (p50, quiet.time);
    println!(
        "{keys:>6} keys, {what:<7}: p50 {time:>8.1?}, {quiet:.1?} before; {used:.1?} of processors; \
         {asked} reads"
    );
    hostile.end();
    used
}

#[test]
#[ignore = "deep: processor time"]
fn a_message_has_its_turn_beside_reads_of_a_long_list() {
    in_own_process!();
    for (keys, is_open) in [(2_000, true), (30_000, true), (2_000, false), (30_000, false)] {
        let used = beside(keys, is_open);
        assert!(used <= BAR, "{keys} keys, {is_open}: half a round trip takes {used:?}");
    }
}
