#![allow(unsafe_code)]
//! View of one end when the other closes, in every phase of a transfer.

use std::ptr;

use tcpx_sys::{PTR_CUDA, PTR_HOST};
use tcpx_testkit::{eventually, in_own_process};

use crate::support::pair::Pair;
use crate::support::sockets::{FITS_BYTES, OVERFLOWS_BYTES};
use crate::support::{self, Memory, Net};

const LARGE: usize = OVERFLOWS_BYTES;

fn net() -> Net {
    support::net(|settings| {
        // Rust programs ignore SIGPIPE, programs that load the plugin may not: here it kills, as it
        // would there. SAFETY: the default action needs no handler.
        assert_ne!(unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) }, libc::SIG_ERR);
        settings.sockets = 2;
        settings.chunk_bytes = 100_000;
    })
}

fn ends() -> Pair {
    Pair::new(net(), LARGE, PTR_CUDA)
}

#[test]
fn before_anything_was_sent() {
    in_own_process!();
    let mut ends = ends();
    let (_, recv) = ends.irecv(LARGE);
    assert_eq!(ends.net.test(recv), (0, 0));
    assert_eq!(ends.net.close(ends.sender.comm), 0);
    assert_eq!(ends.net.fails_with(recv), 2);
    assert_eq!(ends.net.test(recv), (2, 0), "and again");
    assert_eq!(ends.net.close(ends.receiver.comm), 0);
}

#[test]
fn after_everything_was_sent_nothing_is_lost() {
    in_own_process!();
    for small in [0, 1000, FITS_BYTES / 3] {
        let mut ends = ends();
        let sends: Vec<_> = (0..3).map(|_| ends.isend(small)).collect();
        sends.iter().for_each(|&send| ends.net.finish(send));
        assert_eq!(ends.net.close(ends.sender.comm), 0);
        let receives: Vec<_> = (0..4).map(|_| ends.irecv(LARGE)).collect();
        for &(number, recv) in &receives[..3] {
            ends.net.finish(recv);
            assert_eq!(ends.receiver.unpack(number, small), &ends.memory.bytes()[..small]);
        }
        assert_eq!(ends.net.fails_with(receives[3].1), 2, "one too many");
        for &(_, recv) in &receives[..3] {
            assert_eq!(ends.net.consumed(ends.receiver.comm, recv), 0);
        }
        assert_eq!(ends.net.close(ends.receiver.comm), 0);
    }
}

#[test]
fn in_the_middle_of_a_message() {
    in_own_process!();
    let mut ends = ends();
    let send = ends.isend(LARGE);
    let (_, first) = ends.irecv(LARGE);
    let (_, second) = ends.irecv(LARGE);
    assert_eq!(ends.net.test(send), (0, 0), "it does not fit the sockets");
    assert_eq!(ends.net.test(first), (0, 0));
    assert_eq!(ends.net.close(ends.sender.comm), 0);
    assert_eq!(ends.net.fails_with(first), 2);
    assert_eq!(ends.net.test(second).0, 2);
    assert_eq!(ends.net.close(ends.receiver.comm), 0);
}

#[test]
fn the_receiver_while_the_sender_sends() {
    in_own_process!();
    let mut ends = ends();
    let send = ends.isend(LARGE);
    let behind = ends.isend(1);
    let (_, recv) = ends.irecv(LARGE);
    assert_eq!((ends.net.test(send), ends.net.test(recv)), ((0, 0), (0, 0)));
    assert_eq!(ends.net.close(ends.receiver.comm), 0);
    assert_eq!(ends.net.fails_with(send), 2, "an error, and no SIGPIPE");
    assert_eq!(ends.net.test(behind).0, 2);
    assert_eq!(ends.net.close(ends.sender.comm), 0);
}

#[test]
fn the_receiver_while_the_sender_rests() {
    in_own_process!();
    let mut ends = ends();
    assert_eq!(ends.net.close(ends.receiver.comm), 0);
    // The first send after a close may still be taken by the kernel; one of the next is not.
    let rc = eventually(|| {
        let send = ends.isend(50_000);
        let (rc, _) =
            eventually(|| Some(ends.net.test(send)).filter(|&(rc, done)| rc != 0 || done == 1));
        (rc != 0).then_some(rc)
    });
    assert_eq!(rc, 2);
    assert_eq!(ends.net.close(ends.sender.comm), 0);
}

#[test]
fn host_receives_fail_alike() {
    in_own_process!();
    let mut ends = ends();
    let mut place = Memory::new(LARGE);
    let (_, host) = ends.net.register(ends.receiver.comm, place.data(), LARGE, PTR_HOST);
    let send = ends.isend(LARGE);
    let (_, recv) = ends.receiver.post(place.data(), LARGE, host);
    assert_eq!((ends.net.test(send), ends.net.test(recv)), ((0, 0), (0, 0)));
    assert_eq!(ends.net.close(ends.sender.comm), 0);
    assert_eq!(ends.net.fails_with(recv), 2);
    assert_eq!(ends.net.close(ends.receiver.comm), 0);
    assert_eq!(ends.net.deregister(ptr::null_mut(), host), 0, "closing released it");
}
