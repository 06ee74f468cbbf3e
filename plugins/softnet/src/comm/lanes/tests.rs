//! Tests of lanes over sockets of this process.

use std::io::{Read, Write};
use std::net::TcpListener;

use socket2::SockRef;

use super::*;
use crate::comm::zerocopy::ZeroCopy;
use crate::hooks::HookSet;
#[cfg(feature = "hooks")]
use crate::hooks::{Hooks, SocketHooks};
use crate::memory::{BounceBuffer, Piece, idle_stream};
use crate::sync::Waker;

/// Returns connected sockets, ours and the peer's. With `is_small` they hold few bytes, and the
/// peer reads none.
fn sockets(count: usize, is_small: bool) -> (Vec<TcpStream>, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    if is_small {
        SockRef::from(&listener).set_recv_buffer_size(4096).expect("an option");
    }
    let address = listener.local_addr().expect("address");
    let connect = |_| {
        let ours = TcpStream::connect(address).expect("connects");
        let theirs = listener.accept().expect("it has come").0;
        ours.set_nonblocking(true).expect("a flag");
        theirs.set_nonblocking(true).expect("a flag");
        (ours, theirs)
    };
    (0..count).map(connect).unzip()
}

fn in_clear(sockets: Vec<TcpStream>) -> Vec<Connection> {
    sockets.into_iter().map(Connection::clear).collect()
}

/// Reads all bytes that are there.
fn drain(socket: &mut TcpStream) -> usize {
    let (mut place, mut total) = (vec![0; STEP_BYTES], 0);
    while let Ok(bytes @ 1..) = socket.read(&mut place) {
        total += bytes;
    }
    total
}

fn options(hooks: HookSet, zerocopy: ZeroCopy) -> CommOptions<'static> {
    CommOptions {
        number: 0,
        threads: 0,
        cpus: None,
        recv_sync: false,
        inline_bytes: 0,
        peer_timeout: None,
        zerocopy,
        clears_counts: false,
        hooks,
    }
}

fn harvested(lanes: &Lanes) -> Vec<bool> {
    let mut all = Vec::new();
    lanes.harvest(|_, chunk| all.push(!chunk.failed));
    all
}

#[test]
fn a_step_is_bounded_for_all_lanes_together() {
    let hooks = HookSet::default();
    let (ours, mut theirs) = sockets(3, false);
    let options = options(hooks, ZeroCopy::Off);
    let mut lanes = Lanes::new(in_clear(ours), Side::Send, &options).expect("no threads");
    let bounce = BounceBuffer::new(4 * STEP_BYTES as u64, false).expect("mapping");
    let memory = bounce.region().piece(0, 4 * STEP_BYTES);
    for lane in 0..3 {
        lanes.push(lane, Chunk::new(0, 0, vec![memory]));
    }
    let (mut total, mut steps) = (0, 0);
    while lanes.lanes.iter().any(|lane| lane.has_chunks()) {
        lanes.run();
        steps += 1;
        total += theirs.iter_mut().map(drain).sum::<usize>();
        assert!(total <= steps * STEP_BYTES, "{steps} steps moved {total} bytes");
    }
    assert!(steps >= 12, "{steps} steps");
    assert_eq!(harvested(&lanes), [true; 3]);
}

/// Creates a lane with zero-copy sends to a peer that does not read. Its socket holds the first two
/// chunks, but not the third. Returns `None` when the system wants to copy.
fn held_up(hooks: HookSet, memory: Piece) -> Option<(Lanes, TcpStream)> {
    let (ours, mut theirs) = sockets(1, true);
    SockRef::from(&ours[0]).set_send_buffer_size(200_000).expect("an option");
    let options = options(hooks, ZeroCopy::On);
    let mut lanes = Lanes::new(in_clear(ours), Side::Send, &options).expect("no threads");
    for (number, bytes) in (0..).zip([100_000, 20_000, 900_000]) {
        lanes.push(0, Chunk::new(number, 0, vec![memory.slice(0, bytes)]));
    }
    while lanes.run() != NeedsCall::No {}
    let is_read = lanes.lanes[0].still_reads();
    if !is_read {
        let _ = writeln!(std::io::stderr(), "skipped: the system does not support zero-copy sends");
    }
    is_read.then(|| (lanes, theirs.remove(0)))
}

#[test]
fn a_chunk_is_finished_when_the_system_has_read_it() {
    let hooks = HookSet::default();
    let bounce = BounceBuffer::new(1 << 20, false).expect("mapping");
    let memory = bounce.region().piece(0, 1 << 20);
    let Some((mut lanes, mut peer)) = held_up(hooks, memory) else { return };
    assert!(harvested(&lanes).is_empty(), "the first two are out, and still read");
    assert!(lanes.has_room(0), "they take no room");
    let (mut total, end) = (0, Instant::now() + Duration::from_secs(60));
    let mut finished = 0;
    while finished < 3 {
        total += drain(&mut peer);
        lanes.run();
        let now = harvested(&lanes);
        assert!(now.iter().all(|&is_whole| is_whole));
        finished += now.len();
        assert!(finished == 0 || total >= 50_000, "{total} bytes were read");
        assert!(Instant::now() < end);
    }
    assert!(!lanes.lanes[0].still_reads());
}

/// Expects that only ones have come, and not all of the first chunk, when the connection is reset.
fn expect_reset(mut peer: TcpStream) {
    peer.set_nonblocking(false).expect("a flag");
    let mut got = Vec::new();
    let error = peer.read_to_end(&mut got).expect_err("it was reset");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert!(got.len() < 100_000 && got.iter().all(|&byte| byte == 1));
}

#[test]
fn memory_is_not_read_after_its_send_has_failed() {
    let hooks = HookSet::default();
    let bounce = BounceBuffer::new(1 << 20, false).expect("mapping");
    let memory = bounce.region().piece(0, 1 << 20);
    memory.write(&[1; 1 << 20]);
    let Some((lanes, peer)) = held_up(hooks, memory) else { return };
    lanes.kill(0, &"the test");
    assert_eq!(harvested(&lanes), [false; 3]);
    memory.write(&[2; 1 << 20]);
    expect_reset(peer);
    assert!(lanes.lanes[0].readiness().is_none(), "the caller does not wait");
}

#[cfg(feature = "hooks")]
#[test]
fn a_lane_that_dies_in_silence_stays_connected() {
    struct SilentHooks;
    impl SocketHooks for SilentHooks {
        fn is_silent(&self) -> bool {
            true
        }
    }
    impl Hooks for SilentHooks {
        fn socket(&self, _: u64, _: Side, _: SocketRole) -> Option<Box<dyn SocketHooks>> {
            Some(Box::new(Self))
        }
    }
    let hooks = HookSet::by(&SilentHooks);
    let bounce = BounceBuffer::new(1 << 20, false).expect("mapping");
    let memory = bounce.region().piece(0, 1 << 20);
    let Some((lanes, mut peer)) = held_up(hooks, memory) else { return };
    lanes.kill(0, &"the test");
    assert!(harvested(&lanes).is_empty(), "no completion is reported");
    assert!(lanes.lanes[0].still_reads(), "its memory must not change");
    let mut total = 0;
    wait_until(|| {
        total += drain(&mut peer);
        !lanes.lanes[0].still_reads()
    });
    assert!(total >= 120_000, "{total} bytes: two chunks and part of the third were out");
    let error = peer.read(&mut [0; 1]).expect_err("no more has come");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn nothing_is_read_after_the_end() {
    let hooks = HookSet::default();
    let bounce = BounceBuffer::new(1 << 20, false).expect("mapping");
    let memory = bounce.region().piece(0, 1 << 20);
    memory.write(&[1; 1 << 20]);
    let Some((mut lanes, peer)) = held_up(hooks, memory) else { return };
    lanes.stop();
    memory.write(&[2; 1 << 20]);
    expect_reset(peer);
}

/// Returns a comm's lanes with one helper thread, which sleeps.
fn helped(sockets: Vec<TcpStream>, side: Side) -> Lanes {
    let hooks = HookSet::default();
    let options = CommOptions { threads: 1, ..options(hooks, ZeroCopy::Off) };
    let lanes = Lanes::new(in_clear(sockets), side, &options).expect("a thread");
    wait_until(|| is_helper_asleep(&lanes));
    lanes
}

fn is_helper_asleep(lanes: &Lanes) -> bool {
    lanes.helpers.as_ref().is_some_and(|helpers| helpers.is_asleep(0))
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end);
        std::thread::yield_now();
    }
}

#[test]
fn short_chunks_are_moved_by_the_caller_and_wake_no_thread() {
    let (ours, mut theirs) = sockets(1, false);
    let mut lanes = helped(ours, Side::Send);
    let bounce = BounceBuffer::new(1 << 20, false).expect("mapping");
    let memory = bounce.region().piece(0, 10_000);
    let mut moved_here = 0;
    for _ in 0..100 {
        // On its way to sleep the helper looks once more, and may find the chunk.
        wait_until(|| is_helper_asleep(&lanes));
        lanes.push(0, Chunk::new(0, 0, vec![memory]));
        lanes.run();
        moved_here += usize::from(harvested(&lanes) == [true] && !lanes.notified[0]);
        let mut total = 0;
        wait_until(|| {
            total += drain(&mut theirs[0]);
            total == 10_000
        });
        wait_until(|| !lanes.lanes[0].has_work());
        harvested(&lanes);
    }
    assert!(moved_here > 50, "{moved_here} of 100");
}

#[test]
fn long_chunks_and_full_sockets_are_left_to_the_helper() {
    for bytes in [CALLER_BYTES, CALLER_BYTES + 1] {
        let (ours, mut theirs) = sockets(1, true);
        SockRef::from(&ours[0]).set_send_buffer_size(4096).expect("an option");
        let mut lanes = helped(ours, Side::Send);
        let bounce = BounceBuffer::new(1 << 20, false).expect("mapping");
        lanes.push(0, Chunk::new(0, 0, vec![bounce.region().piece(0, bytes)]));
        lanes.run();
        assert!(lanes.notified[0]);
        let mut total = 0;
        wait_until(|| {
            total += drain(&mut theirs[0]);
            total == bytes
        });
        wait_until(|| harvested(&lanes) == [true]);
    }
}

#[test]
fn a_chunk_waits_for_the_gpu_that_copies_it_and_those_before_it_do_not() {
    let Some(gpu) = tcpx_cuda::test_gpu() else { return };
    let bounce = BounceBuffer::new(1 << 20, false).expect("mapping");
    for (threads, bytes) in [(0, CALLER_BYTES), (1, CALLER_BYTES), (1, 2 * CALLER_BYTES)] {
        let (ours, mut theirs) = sockets(1, false);
        let options = CommOptions { threads, ..options(HookSet::default(), ZeroCopy::Off) };
        let mut lanes = Lanes::new(in_clear(ours), Side::Send, &options).expect("threads");
        let mut stream = idle_stream(&gpu).expect("it opens");
        let chunk = |number| Chunk::new(number, 0, vec![bounce.region().piece(0, bytes)]);
        lanes.push(0, chunk(0));
        lanes.push(0, chunk(1).copied_at(stream.watch(1)));
        let has_helper = threads > 0;
        let mut total = 0;
        wait_until(|| {
            lanes.run();
            total += drain(&mut theirs[0]);
            total == bytes && (!has_helper || is_helper_asleep(&lanes))
        });
        assert_eq!(harvested(&lanes), [true]);
        wait_until(|| {
            assert!(lanes.run() >= NeedsCall::Soon, "no descriptor shows it");
            assert_eq!(drain(&mut theirs[0]), 0, "bytes that are not there");
            !has_helper || lanes.helpers.as_ref().is_some_and(|it| it.awaits_copy(0))
        });
        let entered = gpu.enter().expect("the GPU is there");
        stream.mark().expect("a mark");
        drop(entered);
        wait_until(|| stream.reached().expect("no error") == 1);
        lanes.note_copied(0);
        wait_until(|| {
            lanes.run();
            total += drain(&mut theirs[0]);
            total == 2 * bytes
        });
        wait_until(|| harvested(&lanes) == [true]);
    }
}

#[test]
fn a_helper_receives_for_a_caller_that_does_not_watch() {
    let (ours, mut theirs) = sockets(1, false);
    let mut lanes = helped(ours, Side::Recv);
    let bounce = BounceBuffer::new(1 << 20, false).expect("mapping");
    lanes.push(0, Chunk::new(0, 0, vec![bounce.region().piece(0, 1000)]));
    assert_eq!(lanes.run(), NeedsCall::Soon);
    assert!(lanes.notified[0]);
    theirs[0].write_all(&[7; 1000]).expect("there is room");
    wait_until(|| harvested(&lanes) == [true]);
}

#[test]
fn a_caller_that_watches_receives_what_is_short() {
    let (ours, mut theirs) = sockets(1, false);
    let mut lanes = helped(ours, Side::Recv);
    assert_eq!(lanes.descriptors().expect("a bell").len(), 2);
    let bounce = BounceBuffer::new(1 << 20, false).expect("mapping");
    let mut received_here = 0;
    for _ in 0..100 {
        wait_until(|| is_helper_asleep(&lanes));
        lanes.push(0, Chunk::new(0, 0, vec![bounce.region().piece(0, 1000)]));
        assert_eq!(lanes.run(), NeedsCall::No, "the socket shows it");
        theirs[0].write_all(&[7; 1000]).expect("there is room");
        let socket = [(lanes.lanes[0].socket().as_fd(), Interest::Read)];
        wait_until(|| {
            // The helper may have been about to sleep, and found the chunk.
            let is_readable = wait(&socket, Some(Duration::ZERO)).expect("poll")[0];
            is_readable || !lanes.lanes[0].has_work()
        });
        lanes.run();
        received_here += usize::from(!lanes.notified[0] && harvested(&lanes) == [true]);
        wait_until(|| !lanes.lanes[0].has_work());
        harvested(&lanes);
    }
    assert!(received_here > 50, "{received_here} of 100");
}

#[test]
fn a_caller_that_watches_leaves_short_lanes_to_a_helper_that_was_notified() {
    let (ours, mut theirs) = sockets(1, false);
    let mut lanes = helped(ours, Side::Recv);
    lanes.descriptors().expect("a bell");
    let bounce = BounceBuffer::new(1 << 20, false).expect("mapping");
    for _ in 0..100 {
        wait_until(|| is_helper_asleep(&lanes));
        let mut left = HELPER_BYTES;
        let mut write = || left -= theirs[0].write(&[7; HELPER_BYTES][..left]).unwrap_or(0);
        write();
        lanes.push(0, Chunk::new(0, 0, vec![bounce.region().piece(0, HELPER_BYTES)]));
        wait_until(|| {
            assert_eq!(lanes.run(), NeedsCall::No);
            write();
            harvested(&lanes) == [true]
        });
    }
}

#[test]
fn helpers_that_cannot_all_start_leave_none_behind() {
    let hooks = HookSet::default();
    let (ours, _theirs) = sockets(2, false);
    let lanes =
        Lanes::new(in_clear(ours), Side::Recv, &options(hooks, ZeroCopy::Off)).expect("lanes");
    let mut wakers = 0;
    let started = HelperThreads::start_with(&lanes.lanes, 2, None, || {
        wakers += 1;
        if wakers == 2 { Err(std::io::ErrorKind::Other.into()) } else { Waker::new() }
    });
    assert!(started.is_err() && wakers == 2);
    for lane in &lanes.lanes {
        assert_eq!(Arc::strong_count(lane), 1, "a thread still has it");
    }
}
