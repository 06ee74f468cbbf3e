//! Zero-copy sends. Over loopback the system copies nevertheless, once for the receiver, and says
//! so; all the rest is as over a NIC.

use std::ptr;

use tcpx_softnet::{ZeroCopyStats, zerocopy_stats};
use tcpx_sys::PTR_CUDA;
use tcpx_testkit::{again, eventually, process, report_skip, until};
use tracing_subscriber::filter::LevelFilter;

use crate::support::edges::Edges;
use crate::support::exchange::{SIZES, exchange};
use crate::support::pair::Pair;
use crate::support::sockets::{self, FITS_BYTES, OVERFLOWS_BYTES};
use crate::support::{self, KINDS, Net, PluginPtr};

const CHUNK: usize = 100_000;
const LARGE: usize = OVERFLOWS_BYTES;

/// A zero-copy setting, a number of helper threads for which 0 is none, and a shape if there is
/// to be one: a process's role.
fn net(role: &str) -> Net {
    support::faulty_net(|settings, script| {
        settings.sockets = 2;
        settings.threads = 2;
        settings.chunk_bytes = CHUNK as u32;
        let mut words = role.split(' ');
        settings.zerocopy = words.next().expect("a way").parse().expect("a way");
        settings.helpers = words.next().expect("helpers").parse().expect("0 or 1");
        if let Some(shape) = words.next() {
            script.shape = shape.parse().expect("a shape");
        }
    })
}

/// Whether the system lets this process make zero-copy sends at all; without privileges it may not
/// pin the memory.
fn is_refused(stats: ZeroCopyStats) -> bool {
    let is_refused = stats == ZeroCopyStats::default();
    if is_refused {
        report_skip("the system does not support zero-copy sends");
    }
    is_refused
}

fn every_size(role: &str) {
    let net = net(role);
    for kind in KINDS {
        exchange(net.pair(), (kind, kind), &SIZES, 1);
    }
    let sizes: Vec<_> = (0..200).map(|k| SIZES[k * 7 % 11] + k % 3).collect();
    exchange(net.pair(), (KINDS[0], KINDS[1]), &sizes, 16);
    let stats = zerocopy_stats();
    // Pieces so short are hardly ever long enough to be sent without a copy.
    if role.ends_with(" short") {
        return assert_eq!(stats.sent_bytes, 0, "loopback copies");
    }
    assert!(is_refused(stats) || stats.copied_bytes > 0, "loopback copies");
}

#[test]
fn every_size_arrives() {
    every_size(&in_own_processes!(["on 0", "on 1", "auto 0"]));
}

#[test]
#[ignore = "deep: the same with helper threads"]
fn every_size_arrives_where_helper_threads_give_up() {
    every_size(&in_own_processes!(["auto 1"]));
}

#[test]
fn tiny_pieces_and_pauses_change_nothing() {
    every_size(&in_own_processes!(["on 1 fragments,short,again,delay", "auto 0 short"]));
}

#[test]
#[ignore = "deep: the same without helper threads, and with them"]
fn tiny_pieces_and_pauses_change_nothing_without_helper_threads() {
    every_size(&in_own_processes!(["on 0 fragments,short,again,delay", "auto 1 short"]));
}

#[test]
fn auto_gives_up_where_the_system_copies() {
    if let Some(role) = process::role() {
        return auto_gives_up(&role);
    }
    for helpers in ["auto 0", "auto 1"] {
        let out = process::pass(&mut again!(helpers));
        let lines = out.matches("the system does not support zero-copy sends: it copies").count();
        assert!(lines == 4 || out.contains("skipped"), "one for each of 2 × 2 sockets\n{out}");
    }
}

fn auto_gives_up(role: &str) {
    let log = tracing_subscriber::fmt().with_max_level(LevelFilter::DEBUG);
    log.try_init().expect("the first one");
    let net = net(role);
    exchange(net.pair(), (KINDS[0], KINDS[0]), &[LARGE], 1);
    if is_refused(zerocopy_stats()) {
        return;
    }
    let mut pair = Pair::new(net, LARGE, PTR_CUDA);
    let mut send = || {
        let send = pair.isend(LARGE);
        let (number, recv) = pair.irecv(LARGE);
        net.finish_both(send, recv);
        assert!(pair.receiver.unpack(number, LARGE) == pair.memory.bytes());
        assert_eq!(pair.consumed(recv), 0);
        zerocopy_stats()
    };
    // Both sockets have sent some of it.
    let first = send();
    assert!(first.copied_bytes > 0 && first.sent_bytes == 0, "{first:?}");
    for _ in 0..10 {
        assert_eq!(send(), first, "it has given up");
    }
    pair.close();
}

/// Returns a pair with a send of `bytes` bytes under way; it stops when the sockets are full,
/// because the peer does not receive.
fn begin(net: Net, bytes: usize) -> (Pair, PluginPtr) {
    let mut pair = Pair::new(net, LARGE, PTR_CUDA);
    let send = pair.isend(bytes);
    net.test(send);
    if bytes == LARGE {
        until("the sockets are full", || {
            assert_eq!(net.test(send), (0, 0), "it does not fit");
            sockets::is_any_held_up()
        });
    }
    (pair, send)
}

#[test]
fn memory_may_change_after_a_close_in_mid_send() {
    let net = net(&in_own_processes!(["on 0", "on 1"]));
    for bytes in [FITS_BYTES, LARGE] {
        let (mut pair, _) = begin(net, bytes);
        let whole = pair.memory.bytes().to_vec();
        assert_eq!(net.close(pair.sender.comm), 0);
        assert_eq!(net.deregister(ptr::null_mut(), pair.mhandle), 0);
        pair.memory.fill(0xee);
        let place = pair.memory.data();
        let (_, mhandle) = net.register(pair.receiver.comm, place, LARGE, PTR_CUDA);
        let (number, recv) = pair.receiver.post(ptr::null_mut(), LARGE, mhandle);
        let rc = eventually(|| {
            let (rc, done) = net.test(recv);
            (rc != 0 || done == 1).then_some(rc)
        });
        match rc {
            // Also when it was closed before all was sent.
            2 => {}
            0 => {
                assert_eq!(bytes, FITS_BYTES, "the other does not fit");
                assert!(pair.receiver.unpack(number, bytes) == whole[..bytes]);
            }
            _ => panic!("rc {rc}"),
        }
        assert_eq!(net.close(pair.receiver.comm), 0);
    }
}

#[test]
fn a_peer_that_goes_fails_the_send() {
    let net = net(&in_own_processes!(["on 0", "on 1"]));
    let (pair, send) = begin(net, LARGE);
    let busy = net.deregister(ptr::null_mut(), pair.mhandle);
    assert_eq!(busy, 3, "it is being sent");
    assert_eq!(net.close(pair.receiver.comm), 0);
    assert_eq!(Edges::of(net, pair.sender.comm).finish(send), 2);
    assert_eq!(net.close(pair.sender.comm), 0);
    assert_eq!(net.deregister(ptr::null_mut(), pair.mhandle), 0);
}
