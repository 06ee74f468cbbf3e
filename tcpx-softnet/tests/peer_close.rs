#![allow(unsafe_code)]
//! What one end sees when the other closes, in every phase of a transfer.

mod support;

use std::ptr;

use support::sockets::{self, FITS_BYTES, OVERFLOWS_BYTES};
use support::{Memory, Net, Receiver, Sender, Word, poll, settings};
use tcpx_sys::{PTR_CUDA, PTR_HOST};

const LARGE: usize = OVERFLOWS_BYTES;

fn net() -> Net {
    support::net(|| {
        // Rust programs ignore SIGPIPE, programs that load the plugin may not: here it kills, as it
        // would there. SAFETY: the default action needs no handler.
        assert_ne!(unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) }, libc::SIG_ERR);
        let mut settings = settings();
        settings.sockets = 2;
        settings.chunk_bytes = 100_000;
        settings
    })
}

struct Ends {
    net: Net,
    sender: Sender,
    receiver: Receiver,
    memory: Memory,
    mhandle: Word,
}

fn ends() -> Ends {
    let net = net();
    let (sender, receiver) = net.pair();
    sockets::level();
    let mut memory = Memory::patterned(LARGE, 0);
    let (rc, mhandle) = net.register(sender.comm, memory.data(), LARGE, PTR_CUDA);
    assert_eq!(rc, 0);
    Ends { net, sender, receiver, memory, mhandle }
}

impl Ends {
    fn isend(&mut self, bytes: usize) -> Word {
        let (rc, request) =
            self.net.isend(self.sender.comm, self.memory.data(), bytes as i32, self.mhandle);
        assert_eq!(rc, 0);
        request
    }

    fn irecv(&mut self) -> (u64, Word) {
        self.receiver.post(ptr::null_mut(), LARGE, self.mhandle)
    }
}

#[test]
fn before_anything_was_sent() {
    let mut ends = ends();
    let (_, recv) = ends.irecv();
    assert_eq!(ends.net.test(recv), (0, 0));
    assert_eq!(ends.net.close(ends.sender.comm), 0);
    assert_eq!(ends.net.fails_with(recv), 2);
    assert_eq!(ends.net.test(recv), (2, 0), "and again");
    assert_eq!(ends.net.close(ends.receiver.comm), 0);
}

#[test]
fn after_everything_was_sent_nothing_is_lost() {
    for small in [0, 1000, FITS_BYTES / 3] {
        let mut ends = ends();
        let sends: Vec<_> = (0..3).map(|_| ends.isend(small)).collect();
        sends.iter().for_each(|&send| ends.net.finish(send));
        assert_eq!(ends.net.close(ends.sender.comm), 0);
        let receives: Vec<_> = (0..4).map(|_| ends.irecv()).collect();
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
    let mut ends = ends();
    let send = ends.isend(LARGE);
    let (_, first) = ends.irecv();
    let (_, second) = ends.irecv();
    assert_eq!(ends.net.test(send), (0, 0), "it does not fit the sockets");
    assert_eq!(ends.net.test(first), (0, 0));
    assert_eq!(ends.net.close(ends.sender.comm), 0);
    assert_eq!(ends.net.fails_with(first), 2);
    assert_eq!(ends.net.test(second).0, 2);
    assert_eq!(ends.net.close(ends.receiver.comm), 0);
}

#[test]
fn the_receiver_while_the_sender_sends() {
    let mut ends = ends();
    let send = ends.isend(LARGE);
    let behind = ends.isend(1);
    let (_, recv) = ends.irecv();
    assert_eq!((ends.net.test(send), ends.net.test(recv)), ((0, 0), (0, 0)));
    assert_eq!(ends.net.close(ends.receiver.comm), 0);
    assert_eq!(ends.net.fails_with(send), 2, "an error, and no SIGPIPE");
    assert_eq!(ends.net.test(behind).0, 2);
    assert_eq!(ends.net.close(ends.sender.comm), 0);
}

#[test]
fn the_receiver_while_the_sender_rests() {
    let mut ends = ends();
    assert_eq!(ends.net.close(ends.receiver.comm), 0);
    // The first send after a close may still be taken by the kernel; one of the next is not.
    let rc = poll(|| {
        let send = ends.isend(50_000);
        let (rc, _) = poll(|| Some(ends.net.test(send)).filter(|&(rc, done)| rc != 0 || done == 1));
        (rc != 0).then_some(rc)
    });
    assert_eq!(rc, 2);
    assert_eq!(ends.net.close(ends.sender.comm), 0);
}

#[test]
fn host_receives_fail_alike() {
    let mut ends = ends();
    let mut place = Memory::new(LARGE);
    let (_, host) = ends.net.register(ends.receiver.comm, place.data(), LARGE, PTR_HOST);
    let send = ends.isend(LARGE);
    let (_, recv) = ends.receiver.post(place.data(), LARGE, host);
    assert_eq!((ends.net.test(send), ends.net.test(recv)), ((0, 0), (0, 0)));
    assert_eq!(ends.net.close(ends.sender.comm), 0);
    assert_eq!(ends.net.fails_with(recv), 2);
    assert_eq!(ends.net.close(ends.receiver.comm), 0);
    assert_eq!(ends.net.deregister(ptr::null_mut(), host), 0, "closing let go of it");
}
