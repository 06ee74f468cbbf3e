//! Tests of a send and a receive comm in any order of the steps of their callers and helper
//! threads. Both callers sleep until a descriptor has an edge, and every message comes through.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use socket2::SockRef;
use tcpx_seal::exchange::{Answer, Offer};
use tcpx_seal::secret::SharedSecret;
use tcpx_seal::suite::Suite;
use tcpx_sys::PTR_HOST;

use super::edges::Edges;
use super::zerocopy::ZeroCopy;
use super::{CommOptions, Destination, DeviceContent, NeedsCall, RecvComm, SendComm};
use crate::connect::{Connection, Sockets};
use crate::hooks::HookSet;
use crate::memory::{BounceBuffer, Piece, Registration};
use crate::sync::exploration::{explore, many};
use crate::sync::thread;

/// Orders of each scenario in each run of the tests.
const FEW: usize = 20;
/// Orders in a deep run. TCPX_TEST_INTERLEAVINGS asks for others.
const MANY: usize = 100;
/// Messages on the control socket, in a few chunks, and in more than a lane takes.
const MESSAGES: [u32; 4] = [16, 300, 3000, 100];
const CHUNK_BYTES: u32 = 64;
const INLINE_BYTES: u32 = 20;
/// Number of messages under way at a time.
const POSTED: usize = 2;
/// Fewest bytes that the system gives a socket.
const SOCKET_BYTES: usize = 4608;
const MEMORY: usize = 4096;

/// One comm, and what its callers do.
#[derive(Clone, Copy)]
pub(super) struct Scenario {
    pub(super) lanes: usize,
    pub(super) threads: usize,
    pub(super) recv_sync: bool,
    pub(super) encrypted: bool,
}

/// Memory of the sender and of the receiver.
#[derive(Clone, Copy)]
struct Memory {
    bounce: &'static BounceBuffer,
    sent: Piece,
    received: Piece,
}

impl Scenario {
    fn run(self, memory: Memory) {
        let (ours, theirs) = sockets(self.lanes, self.encrypted);
        let sender = thread::Builder::new().name("sender".to_owned());
        let sender = sender.spawn(move || {
            let comm = SendComm::new(ours, &self.options(), None, None).expect("threads");
            send(comm, memory.sent);
        });
        let (options, bounce) = (self.options(), memory.bounce);
        let comm = RecvComm::new(theirs, &options, bounce, None, DeviceContent::Bytes);
        receive(comm.expect("threads"), memory.received);
        sender.expect("a thread").join().expect("all is sent");
    }

    pub(super) fn options(self) -> CommOptions<'static> {
        CommOptions {
            number: 0,
            threads: self.threads,
            cpus: None,
            recv_sync: self.recv_sync,
            inline_bytes: INLINE_BYTES,
            peer_timeout: None,
            zerocopy: ZeroCopy::Off,
            clears_counts: false,
            hooks: HookSet::default(),
        }
    }
}

pub(super) fn sockets(lanes: usize, encrypted: bool) -> (Sockets, Sockets) {
    let (control, its_control) = connection(encrypted);
    let (data, its_data) = (0..lanes).map(|_| connection(encrypted)).unzip();
    let all = |control, data| Sockets { control, data, chunk_bytes: CHUNK_BYTES, steering: None };
    (all(control, data), all(its_control, its_data))
}

/// Returns both ends of a socket, with their keys.
fn connection(encrypted: bool) -> (Connection, Connection) {
    let (ours, theirs) = connected();
    if !encrypted {
        return (Connection::clear(ours), Connection::clear(theirs));
    }
    let (secret, suite) = (SharedSecret::new([5; 32]), Suite::fastest());
    let offer = Offer::new(&secret, suite, b"").expect("random bytes");
    let answer = Answer::new(&secret, suite, b"", offer.bytes(), b"").expect("the same secret");
    let keys = offer.finish(b"", &answer.bytes).expect("the same secret");
    let end = |socket, keys| Connection { socket, keys: Some(Box::new(keys)) };
    (end(ours, keys), end(theirs, answer.keys))
}

/// Returns sockets that pass on at once what is written to them.
fn connected() -> (TcpStream, TcpStream) {
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    for socket in [&ours, &theirs] {
        socket.set_nonblocking(true).expect("a flag");
        SockRef::from(socket).set_send_buffer_size(SOCKET_BYTES).expect("an option");
    }
    (OwnedFd::from(ours).into(), OwnedFd::from(theirs).into())
}

fn registered(memory: Piece) -> Arc<Registration> {
    let registration = Registration::new(memory.address(), memory.len() as i64, PTR_HOST);
    Arc::new(registration.expect("good arguments"))
}

fn send(mut comm: SendComm, memory: Piece) {
    let edges = Edges::of(&comm.descriptors().expect("a bell"));
    let mut numbers = Vec::new();
    for (message, bytes) in MESSAGES.into_iter().enumerate() {
        if message >= POSTED {
            finish(&mut comm, &edges, numbers[message - POSTED]);
        }
        let piece = memory.slice(message, bytes as usize);
        numbers.push(comm.post(Some(piece), registered(memory)).expect("there is room"));
    }
    for number in numbers.into_iter().skip(MESSAGES.len() - POSTED) {
        finish(&mut comm, &edges, number);
    }
}

fn receive(mut comm: RecvComm, memory: Piece) {
    let edges = Edges::of(&comm.descriptors().expect("a bell"));
    let mut numbers = Vec::new();
    for (message, bytes) in MESSAGES.into_iter().enumerate() {
        if message >= POSTED {
            finish(&mut comm, &edges, numbers[message - POSTED]);
        }
        let piece = memory.slice(0, bytes as usize);
        let destination = Destination::Host { memory: piece, _registration: registered(memory) };
        numbers.push(comm.post(Some(destination), bytes).expect("there is room"));
    }
    for number in numbers.into_iter().skip(MESSAGES.len() - POSTED) {
        finish(&mut comm, &edges, number);
    }
}

/// Calls that both kinds of comm offer.
trait Comm {
    fn try_finish(&mut self, number: u64) -> bool;
    fn next_call(&self) -> NeedsCall;
}

impl Comm for SendComm {
    fn try_finish(&mut self, number: u64) -> bool {
        self.test(number as u32).expect("it goes").is_some()
    }

    fn next_call(&self) -> NeedsCall {
        self.needs_call()
    }
}

impl Comm for RecvComm {
    fn try_finish(&mut self, number: u64) -> bool {
        let is_done = self.test(number as u32).expect("it comes").is_some();
        if is_done {
            self.consume(number as u32).expect("it is the oldest");
        }
        is_done
    }

    fn next_call(&self) -> NeedsCall {
        self.needs_call()
    }
}

/// Calls `test` until the request is done. Sleeps also where `test` asks to be called again in a
/// while: no message needs the pause to be over.
fn finish(comm: &mut impl Comm, edges: &Edges, number: u64) {
    while !comm.try_finish(number) {
        if comm.next_call() != NeedsCall::AtOnce {
            edges.wait();
        }
    }
}

fn explore_all(times: usize) {
    let bounce: &BounceBuffer =
        Box::leak(Box::new(BounceBuffer::new(1 << 20, false).expect("mapping")));
    let piece = |index| bounce.region().piece(index * MEMORY, MEMORY);
    let memory = Memory { bounce, sent: piece(0), received: piece(1) };
    for (lanes, threads) in [(1, 1), (2, 1), (2, 2), (2, 0)] {
        for (recv_sync, encrypted) in [(false, false), (true, false), (false, true), (true, true)] {
            let scenario = Scenario { lanes, threads, recv_sync, encrypted };
            explore(times, move || scenario.run(memory));
        }
    }
}

#[test]
fn callers_that_sleep_exchange_all_messages() {
    explore_all(FEW);
}

#[test]
#[ignore = "deep: 1,600 orders"]
fn callers_that_sleep_exchange_all_messages_in_any_of_many_orders() {
    explore_all(many(MANY));
}
