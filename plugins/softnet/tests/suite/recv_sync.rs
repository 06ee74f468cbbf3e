//! Receive synchronisation: a send waits for its receive.

use std::ptr;

use tcpx_sys::PTR_CUDA;
use tcpx_testkit::in_own_process;

use crate::support::{self, Memory, Net};

fn net() -> Net {
    support::net(|settings| settings.recv_sync = true)
}

#[test]
fn nothing_is_sent_before_the_receive_is_posted_and_driven() {
    in_own_process!();
    let net = net();
    let (sender, mut receiver) = net.pair();
    let mut memory = Memory::patterned(100, 0);
    let (_, mhandle) = net.register(sender.comm, memory.data(), 100, PTR_CUDA);
    let sends: Vec<_> = (0..16)
        .map(|_| net.isend(sender.comm, memory.data(), 100, mhandle))
        .map(|(rc, r)| (rc == 0).then_some(r))
        .collect();
    for number in 0..40u64 {
        let send = if number < 16 {
            sends[number as usize].expect("posted")
        } else {
            let (rc, send) = net.isend(sender.comm, memory.data(), 100, mhandle);
            assert_eq!(rc, 0);
            send
        };
        for _ in 0..50 {
            assert_eq!(net.test(send), (0, 0), "the peer has posted {number} receives");
        }
        let (posted, recv) = receiver.post(ptr::null_mut(), 100, mhandle);
        assert_eq!(posted, number);
        assert_eq!(net.test(send), (0, 0), "posted, but not driven");
        assert_eq!(net.test(recv), (0, 0));
        net.finish(send);
        net.finish(recv);
        assert_eq!(receiver.unpack(number, 100), &memory.bytes()[..100]);
        assert_eq!(net.consumed(receiver.comm, recv), 0);
    }
    assert_eq!((net.close(sender.comm), net.close(receiver.comm)), (0, 0));
}

#[test]
fn ends_that_disagree_are_refused() {
    in_own_process!();
    let net = net();
    let (mut handle, listen) = net.listen();
    assert_eq!(handle.0[98], 1, "the handle says so");
    handle.0[98] = 0;
    assert_eq!(net.connect(&mut handle), (3, ptr::null_mut()));
    assert_eq!(net.close_listen(listen), 0);
}
