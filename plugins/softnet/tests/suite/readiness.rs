//! Callers that wait for edges. A wake-up that is lost leaves the test waiting until it fails.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tcpx_sys::{CommDescriptor, PTR_HOST};
use tcpx_testkit::{PATIENCE, again, in_own_process, process, until};

use crate::support::edges::{Edges, descriptors, needs_call};
use crate::support::exchange::{SIZES, exchange_with};
use crate::support::{self, KINDS, Memory, Net, Receiver, Sender};

const LARGE: usize = 32 << 20;
const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;

fn net() -> Net {
    support::net(|settings| {
        settings.sockets = 2;
        settings.chunk_bytes = 100_000;
    })
}

/// Moves messages of every size with a window of this many requests, on edges alone. How often the
/// two ends waited.
fn exchange_on_edges(pair: (Sender, Receiver), kind: c_int, window: usize) -> u64 {
    let (sender, receiver) = &pair;
    let sends = Edges::of(sender.net, sender.comm);
    let receives = Edges::of(sender.net, receiver.comm);
    let [small @ .., large] = SIZES;
    let sizes = (0..33).map(|k| small[k * 7 % small.len()] + k / small.len());
    let sizes: Vec<_> = sizes.chain([large]).collect();
    let waits = (
        |request| assert_eq!(sends.finish(request), 0),
        |request| assert_eq!(receives.finish(request), 0),
    );
    exchange_with(pair, (kind, kind), &sizes, window, waits);
    sends.waits.load(Ordering::Relaxed) + receives.waits.load(Ordering::Relaxed)
}

/// Settings as variables of the environment.
type Variables<'a> = &'a [(&'a str, &'a str)];

const HELPERS: (&str, &str) = ("TCPX_SOFT_HELPERS", "1");
const RECV_SYNC: (&str, &str) = ("NCCL_GPUDIRECTTCPX_RECV_SYNC", "1");
const IN_PLACE: (&str, &str) = ("TCPX_SOFT_ZEROCOPY", "on");
const FEW_PAGES: (&str, &str) = ("TCPX_SOFT_POOL_BYTES", "8388608");
const ONE_SOCKET: (&str, &str) = ("NCCL_NSOCKS_PERTHREAD", "1");
const TWO_THREADS: (&str, &str) = ("NCCL_SOCKET_NTHREADS", "2");
const EIGHT_SOCKETS: (&str, &str) = ("NCCL_NSOCKS_PERTHREAD", "8");
/// A step moves all chunks of a lane that are so small.
const SMALL_CHUNKS: (&str, &str) = ("NCCL_DYNAMIC_CHUNK_SIZE", "5000");
const SHAPE: (&str, &str) = ("TCPX_SOFT_SHAPE", "fragments,short,again,delay,starve");

const ENCRYPTED: (&str, &str) = (support::ENCRYPTED, "1");
/// What a socket does, without fragments: these are cut by what the socket shows.
const PAUSES: (&str, &str) = ("TCPX_SOFT_SHAPE", "short,again,delay,starve");

/// Two pairs at once, which share the bounce pages, move messages on edges with each of these
/// settings, in processes of their own.
macro_rules! moves_with {
    ($($variables:expr),+ $(,)?) => {
        if process::role().is_some() {
            return move_on_edges();
        }
        for variables in [$($variables as Variables<'_>),+] {
            let usual = [("NCCL_DYNAMIC_CHUNK_SIZE", "65536"), ("NCCL_NSOCKS_PERTHREAD", "2")];
            process::pass(again!("pairs").envs(usual).envs(variables.iter().copied()));
        }
    };
}

fn move_on_edges() {
    let net = support::net_of_environment(|settings| {
        settings.interfaces = Some("=lo".to_owned());
    });
    let secret = support::secret_of_environment();
    let mut waits = 0;
    for (kind, window) in [(KINDS[0], 1), (KINDS[0], 16), (KINDS[1], 1), (KINDS[1], 4)] {
        let pairs = [net.pair_with(secret), net.pair_with(secret)];
        waits += std::thread::scope(|scope| {
            let exchange = |pair| scope.spawn(move || exchange_on_edges(pair, kind, window));
            pairs.map(exchange).map(|thread| thread.join().expect("no loss")).iter().sum::<u64>()
        });
    }
    assert!(waits > 0, "it was called all the time");
}

#[test]
fn one_socket_with_small_chunks() {
    moves_with!(&[ONE_SOCKET, SMALL_CHUNKS]);
}

#[test]
fn helper_threads() {
    moves_with!(&[HELPERS, TWO_THREADS]);
}

#[test]
fn sends_that_wait_for_their_receives() {
    moves_with!(&[RECV_SYNC]);
}

#[test]
fn sends_in_place() {
    moves_with!(&[IN_PLACE, HELPERS]);
}

#[test]
fn few_bounce_pages() {
    moves_with!(&[FEW_PAGES]);
}

#[test]
fn encrypted_sockets() {
    moves_with!(&[ENCRYPTED], &[ENCRYPTED, HELPERS, RECV_SYNC]);
}

#[test]
fn tiny_pieces_pauses_and_no_pages() {
    moves_with!(&[SHAPE, HELPERS]);
}

#[test]
#[ignore = "deep: every other mix of settings"]
fn other_mixes_of_settings() {
    moves_with!(
        &[EIGHT_SOCKETS],
        &[HELPERS, ONE_SOCKET],
        &[RECV_SYNC, HELPERS],
        &[IN_PLACE, ONE_SOCKET, SMALL_CHUNKS],
        &[IN_PLACE, EIGHT_SOCKETS],
        &[("TCPX_SOFT_ZEROCOPY", "auto")],
        &[FEW_PAGES, HELPERS],
        &[ENCRYPTED, HELPERS, ONE_SOCKET, SMALL_CHUNKS],
        &[ENCRYPTED, EIGHT_SOCKETS, RECV_SYNC],
        &[ENCRYPTED, IN_PLACE, FEW_PAGES],
    );
}

#[test]
#[ignore = "deep: further mixes of settings"]
fn other_mixes_with_faults() {
    moves_with!(
        &[SHAPE],
        &[ENCRYPTED, PAUSES, HELPERS],
        &[ENCRYPTED, PAUSES],
        &[("TCPX_SOFT_ORIGINAL", "piecemeal")]
    );
}

#[test]
fn watched_descriptors() {
    in_own_process!();
    let net = net();
    let (sender, receiver) = net.pair();
    let events = |comm, capacity| {
        let (rc, all, count) = descriptors(comm, capacity);
        assert_eq!((rc, count), (0, 3), "two data sockets, then the control socket");
        all.iter().map(|it: &CommDescriptor| it.events).collect::<Vec<_>>()
    };
    assert_eq!(events(sender.comm, 10), [OUT, OUT, OUT]);
    assert_eq!(events(receiver.comm, 10), [IN, IN, IN]);
    assert_eq!((events(receiver.comm, 2), events(receiver.comm, 0)), (vec![IN, IN], vec![]));
    assert_eq!(descriptors(sender.comm, 10), descriptors(sender.comm, 10), "they stay the same");
    assert_eq!((needs_call(sender.comm), needs_call(receiver.comm)), ((0, 0), (0, 0)), "idle");
    let (_, listen) = net.listen();
    assert_eq!((net.close(sender.comm), net.close(receiver.comm)), (0, 0));
    for wrong in [listen, sender.comm, ptr::null_mut()] {
        assert_eq!((descriptors(wrong, 10).0, needs_call(wrong)), (3, (3, 7)));
    }
    assert_eq!(net.close_listen(listen), 0);
}

#[test]
fn a_comm_that_waits_makes_no_edges_and_needs_no_calls() {
    in_own_process!();
    let net = net();
    let (sender, mut receiver) = net.pair();
    let mut memory = Memory::patterned(LARGE, 0);
    let (_, mhandle) = net.register(sender.comm, memory.data(), LARGE, PTR_HOST);
    let edges = [sender.comm, receiver.comm].map(|comm| Edges::of(net, comm));
    // At the start every descriptor that is ready has one edge.
    edges.iter().for_each(|edges| while edges.wait(Duration::ZERO) {});
    let (_, recv) = receiver.post(memory.data(), LARGE, mhandle);
    assert_eq!(needs_call(receiver.comm), (0, 2), "posted and not tested");
    assert_eq!((net.test(recv), needs_call(receiver.comm)), ((0, 0), (0, 0)));
    assert!(!edges[1].wait(Duration::ZERO));
    let (_, send) = net.isend(sender.comm, memory.data(), LARGE as c_int, mhandle);
    until("the sockets are full", || {
        assert_eq!(net.test(send), (0, 0), "it does not fit the sockets");
        needs_call(sender.comm) == (0, 0)
    });
    assert!(edges[1].wait(PATIENCE), "bytes have come");
    std::thread::scope(|scope| {
        let [sends, receives] = &edges;
        let (send, recv) = (send.addr(), recv.addr());
        let sending = scope.spawn(move || sends.finish(ptr::without_provenance_mut(send)));
        assert_eq!(receives.finish(ptr::without_provenance_mut(recv)), 0);
        assert_eq!(sending.join().expect("no loss"), 0);
    });
    assert_eq!((net.close(sender.comm), net.close(receiver.comm)), (0, 0));
}

#[test]
fn a_peer_that_goes_is_an_edge() {
    in_own_process!();
    let net = net();
    let mut memory = Memory::patterned(LARGE, 0);
    for bytes in [0, LARGE] {
        let (sender, mut receiver) = net.pair();
        let (_, mhandle) = net.register(sender.comm, memory.data(), LARGE, PTR_HOST);
        let edges = Edges::of(net, receiver.comm);
        let (_, recv) = receiver.post(memory.data(), LARGE, mhandle);
        if bytes > 0 {
            let (_, send) = net.isend(sender.comm, memory.data(), LARGE as c_int, mhandle);
            assert_eq!(net.test(send), (0, 0));
        }
        assert_eq!(net.test(recv), (0, 0));
        assert_eq!(net.close(sender.comm), 0);
        assert_eq!(edges.finish(recv), 2);
        assert_eq!(net.close(receiver.comm), 0);
    }
    let (sender, receiver) = net.pair();
    let (_, mhandle) = net.register(sender.comm, memory.data(), LARGE, PTR_HOST);
    let edges = Edges::of(net, sender.comm);
    let (_, send) = net.isend(sender.comm, memory.data(), LARGE as c_int, mhandle);
    assert_eq!(net.test(send), (0, 0));
    assert_eq!(net.close(receiver.comm), 0);
    assert_eq!(edges.finish(send), 2);
    assert_eq!(net.close(sender.comm), 0);
}
