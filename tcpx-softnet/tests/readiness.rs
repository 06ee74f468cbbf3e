//! Callers that wait for edges. A wake-up that is lost leaves the test waiting until it fails.

mod support;

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use support::edges::{Edges, descriptors, needs_call};
use support::exchange::{SIZES, exchange_with};
use support::{KINDS, Memory, Net, Receiver, Sender, peer_command, settings};
use tcpx_softnet::Settings;
use tcpx_sys::{CommDescriptor, PTR_HOST};

const LARGE: usize = 32 << 20;
const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;

/// What the environment says, or two sockets.
fn net() -> Net {
    support::net(|| {
        let mut chosen = Settings::from_env().unwrap_or_else(|_| {
            let mut settings = settings();
            settings.sockets = 2;
            settings.chunk_bytes = 100_000;
            settings
        });
        chosen.interfaces = Some("=lo".to_owned());
        chosen
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
    for (end, edges) in [("sender", &sends), ("receiver", &receives)] {
        let [waits, calls] = [&edges.waits, &edges.calls].map(|it| it.load(Ordering::Relaxed));
        support::say(&format!(
            "{end}, kind {kind}, window {window}: waited {waits} times, called {calls}"
        ));
    }
    sends.waits.load(Ordering::Relaxed) + receives.waits.load(Ordering::Relaxed)
}

/// Two pairs at once, which share the bounce pages.
#[test]
#[ignore = "started by the tests below, with their settings"]
fn moves_on_edges() {
    let net = net();
    let mut waits = 0;
    for (kind, window) in [(KINDS[0], 1), (KINDS[0], 16), (KINDS[1], 1), (KINDS[1], 4)] {
        let pairs = [net.pair(), net.pair()];
        waits += std::thread::scope(|scope| {
            let exchange = |pair| scope.spawn(move || exchange_on_edges(pair, kind, window));
            pairs.map(exchange).map(|thread| thread.join().expect("no loss")).iter().sum::<u64>()
        });
    }
    assert!(waits > 0, "it was called all the time");
}

/// Runs `moves_on_edges` with these settings.
fn moves(variables: &[(&str, &str)]) {
    let chunk = [("NCCL_DYNAMIC_CHUNK_SIZE", "65536"), ("NCCL_NSOCKS_PERTHREAD", "2")];
    let ran = peer_command("moves_on_edges", &[&chunk, variables].concat()).output();
    let ran = ran.expect("it starts");
    let [out, errors] = [&ran.stdout, &ran.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(ran.status.success(), "{variables:?}\n{out}\n{errors}");
}

#[test]
fn one_socket_and_eight() {
    // A step moves all chunks of a lane that are so small.
    moves(&[("NCCL_NSOCKS_PERTHREAD", "1"), ("NCCL_DYNAMIC_CHUNK_SIZE", "5000")]);
    moves(&[("NCCL_NSOCKS_PERTHREAD", "8")]);
}

#[test]
fn helper_threads() {
    moves(&[("TCPX_SOFT_HELPERS", "1"), ("NCCL_NSOCKS_PERTHREAD", "1")]);
    moves(&[("TCPX_SOFT_HELPERS", "1"), ("NCCL_SOCKET_NTHREADS", "2")]);
}

#[test]
fn sends_that_wait_for_their_receives() {
    moves(&[("NCCL_GPUDIRECTTCPX_RECV_SYNC", "1")]);
    moves(&[("NCCL_GPUDIRECTTCPX_RECV_SYNC", "1"), ("TCPX_SOFT_HELPERS", "1")]);
}

#[test]
fn sends_in_place() {
    let on = ("TCPX_SOFT_ZEROCOPY", "on");
    moves(&[on, ("NCCL_NSOCKS_PERTHREAD", "1"), ("NCCL_DYNAMIC_CHUNK_SIZE", "5000")]);
    moves(&[on, ("NCCL_NSOCKS_PERTHREAD", "8")]);
    moves(&[on, ("TCPX_SOFT_HELPERS", "1")]);
    moves(&[("TCPX_SOFT_ZEROCOPY", "auto")]);
}

#[test]
fn few_bounce_pages() {
    moves(&[("TCPX_SOFT_POOL_BYTES", "8388608")]);
    moves(&[("TCPX_SOFT_POOL_BYTES", "8388608"), ("TCPX_SOFT_HELPERS", "1")]);
}

#[cfg(feature = "faults")]
#[test]
fn tiny_pieces_pauses_and_no_pages() {
    let shape = ("TCPX_SOFT_SHAPE", "fragments,short,again,delay,starve");
    moves(&[shape]);
    moves(&[shape, ("TCPX_SOFT_HELPERS", "1")]);
    moves(&[("TCPX_SOFT_ORIGINAL", "piecemeal")]);
}

#[test]
fn what_is_watched() {
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
    let net = net();
    let (sender, mut receiver) = net.pair();
    let mut memory = Memory::patterned(LARGE, 0);
    let (_, mhandle) = net.register(sender.comm, memory.data(), LARGE, PTR_HOST);
    let edges = [sender.comm, receiver.comm].map(|comm| Edges::of(net, comm));
    // As it begins: every descriptor that is ready is told of once.
    edges.iter().for_each(|edges| while edges.wait(Duration::ZERO) {});
    let (_, recv) = receiver.post(memory.data(), LARGE, mhandle);
    assert_eq!(needs_call(receiver.comm), (0, 2), "posted and not tested");
    assert_eq!((net.test(recv), needs_call(receiver.comm)), ((0, 0), (0, 0)));
    assert!(!edges[1].wait(Duration::ZERO));
    let (_, send) = net.isend(sender.comm, memory.data(), LARGE as c_int, mhandle);
    support::poll(|| {
        assert_eq!(net.test(send), (0, 0), "it does not fit the sockets");
        (needs_call(sender.comm) == (0, 0)).then_some(())
    });
    assert!(edges[1].wait(support::PATIENCE), "bytes have come");
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
