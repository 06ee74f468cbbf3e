//! Tests of lanes, helper threads and the bell in any order of their steps. A caller that sleeps is
//! woken, whatever it waits for, and no chunk is left on the lanes.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::SockRef;

use super::*;
use crate::comm::edges::Edges;
use crate::comm::zerocopy::ZeroCopy;
use crate::hooks::HookSet;
use crate::memory::BounceBuffer;
use crate::sync::exploration::{explore, many};
use crate::sync::thread;

/// Orders of each scenario in each run of the tests.
const FEW: usize = 40;
/// Orders in a deep run. TCPX_TEST_INTERLEAVINGS asks for others.
const MANY: usize = 100;
/// Number of bytes that a helper thread moves, or a caller in its place.
const LONG: usize = HELPER_BYTES + 1;
/// Chunks of each lane, and number of bytes that its socket holds: more than one chunk has, or
/// fewer.
const SHAPES: [(&[usize], usize); 3] =
    [(&[100, LONG, 200], LONG / 2), (&[LONG, LONG], 4 * LONG), (&[1, 2, 3], 4 * LONG)];

/// Whether a caller has received in place of a helper thread.
static RECEIVED_BY_CALLER: AtomicBool = AtomicBool::new(false);

/// Lanes of one comm, and the script of what happens on them.
#[derive(Clone, Copy)]
struct Scenario {
    side: Side,
    chunks: &'static [usize],
    socket_bytes: usize,
    lanes: usize,
    threads: usize,
    /// Number of steps after which the caller watches the descriptors. Before, it calls again and
    /// again.
    watches_after: usize,
}

impl Scenario {
    fn run(self, memory: &BounceBuffer) {
        let (ours, theirs): (Vec<_>, Vec<_>) =
            (0..self.lanes).map(|_| connected(self.socket_bytes)).unzip();
        let options = CommOptions { threads: self.threads, ..options() };
        let lanes =
            Lanes::new(ours.into_iter().map(Connection::clear).collect(), self.side, &options)
                .expect("threads");
        let peers: Vec<_> = theirs.into_iter().map(|socket| self.peer(socket)).collect();
        let mut caller = TestCaller { lanes, edges: None, steps: 0, harvested: 0 };
        for &bytes in self.chunks {
            for lane in 0..self.lanes {
                let piece = memory.region().piece(0, bytes);
                caller.lanes.push(lane, Chunk::new(0, 0, vec![piece]));
            }
            // The next chunks come when these are under way, or long done.
            caller.step(self.watches_after);
        }
        while caller.harvested < self.lanes * self.chunks.len() {
            caller.sleep();
            caller.step(self.watches_after);
        }
        for peer in peers {
            peer.join().expect("it has moved all");
        }
        for lane in &caller.lanes.lanes {
            assert!(!lane.has_work() && lane.has_at_most(0), "{lane:?}");
        }
    }

    /// The other end of one socket.
    fn peer(self, mut socket: UnixStream) -> thread::JoinHandle<()> {
        let side = self.side;
        let interest = if side == Side::Send { Interest::Read } else { Interest::Write };
        let mut place = vec![0; self.socket_bytes];
        let run = move || {
            let mut left: usize = self.chunks.iter().sum();
            while left > 0 {
                wait(&[(socket.as_fd(), interest)], None).expect("poll");
                let most = left.min(place.len());
                let moved = match side {
                    Side::Send => socket.read(&mut place),
                    Side::Recv => socket.write(&place[..most]),
                };
                left -= moved.or_else(nothing).expect("it is connected");
            }
        };
        thread::Builder::new().name("peer".to_owned()).spawn(run).expect("a thread")
    }
}

/// Calls `test` again and again, or sleeps in between.
struct TestCaller {
    lanes: Lanes,
    edges: Option<Edges>,
    steps: usize,
    harvested: usize,
}

impl TestCaller {
    /// Does what a call of `test` does.
    fn step(&mut self, watches_after: usize) {
        if self.steps == watches_after {
            self.edges = Some(Edges::of(&self.lanes.descriptors().expect("a bell")));
        }
        self.steps += 1;
        while self.run() == NeedsCall::AtOnce {
            RECEIVED_BY_CALLER.store(true, Ordering::Relaxed);
        }
    }

    /// Moves what there is, and returns the answer to whether to call again.
    fn run(&mut self) -> NeedsCall {
        let needs_call = self.lanes.run();
        self.lanes.harvest(|_, chunk| {
            assert!(!chunk.failed);
            self.harvested += 1;
        });
        let watches = self.edges.is_some();
        match needs_call {
            NeedsCall::No => assert!(watches),
            NeedsCall::Soon => assert!(!watches),
            NeedsCall::AtOnce => assert!(watches && self.lanes.side == Side::Recv),
        }
        needs_call
    }

    fn sleep(&self) {
        match &self.edges {
            Some(edges) => edges.wait(),
            None => shuttle::thread::yield_now(),
        }
    }
}

fn nothing(error: io::Error) -> io::Result<usize> {
    if error.kind() == io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) }
}

/// Returns sockets that pass on at once what is written to them.
fn connected(bytes: usize) -> (TcpStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    for socket in [&ours, &theirs] {
        socket.set_nonblocking(true).expect("a flag");
        SockRef::from(socket).set_send_buffer_size(bytes).expect("an option");
    }
    (OwnedFd::from(ours).into(), theirs)
}

fn options() -> CommOptions<'static> {
    CommOptions {
        number: 0,
        threads: 0,
        cpus: None,
        recv_sync: false,
        inline_bytes: 0,
        peer_timeout: None,
        zerocopy: ZeroCopy::Off,
        clears_counts: false,
        hooks: HookSet::default(),
    }
}

fn explore_all(side: Side, times: usize) {
    let memory = BounceBuffer::new(1 << 20, false).expect("mapping");
    let memory: &BounceBuffer = Box::leak(Box::new(memory));
    for (chunks, socket_bytes) in SHAPES {
        for (lanes, threads) in [(1, 1), (2, 1), (2, 2)] {
            for watches_after in [0, 1, usize::MAX] {
                let scenario =
                    Scenario { side, chunks, socket_bytes, lanes, threads, watches_after };
                explore(times, move || scenario.run(memory));
            }
        }
    }
}

#[test]
fn a_sleeping_caller_is_woken_for_every_receive() {
    explore_all(Side::Recv, FEW);
    assert!(RECEIVED_BY_CALLER.load(Ordering::Relaxed));
}

#[test]
fn a_sleeping_caller_is_woken_for_every_send() {
    explore_all(Side::Send, FEW);
}

#[test]
#[ignore = "deep: 5,400 orders"]
fn a_sleeping_caller_is_woken_in_any_of_many_orders() {
    explore_all(Side::Recv, many(MANY));
    explore_all(Side::Send, many(MANY));
}
