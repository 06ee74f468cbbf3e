//! Errors that the original does not notice, and requests that never get done because of them.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};

use tcpx_sys::{NetHandle, PTR_CUDA, PTR_HOST};
use tcpx_testkit::eventually;

use super::child::{net, pair};
use crate::support::pair::Pair;
use crate::support::{PluginPtr, blank_device};

const BYTES: usize = 100_000;
/// Number of calls after which every request is done that ever gets done.
const CALLS: usize = 2000;

/// None of these is ever done, and no call fails.
fn never_done(pair: &Pair, requests: &[PluginPtr]) {
    for _ in 0..CALLS {
        for &request in requests {
            assert_eq!(pair.net.test(request), (0, 0));
        }
    }
}

fn requests_are_not_checked() {
    for (offset, bytes) in [(0, -1), (-4096, 100), (BYTES as isize - 50, 100)] {
        let mut pair = pair(BYTES, PTR_CUDA);
        let data = pair.memory.data().wrapping_offset(offset);
        let (rc, wrong) = pair.net.isend(pair.sender.comm, data, bytes, pair.mhandle);
        assert_eq!(rc, 0, "{bytes} bytes at {offset}");
        let behind = pair.isend(100);
        let receive = pair.irecv(100).1;
        never_done(&pair, &[wrong, behind, receive]);
        pair.close();
    }
    for kind in [PTR_CUDA, PTR_HOST] {
        let mut pair = pair(BYTES, kind);
        let data = pair.memory.data();
        // As a C int it is -1.
        let (rc, (_, wrong)) = pair.receiver.try_post(data, usize::MAX, pair.mhandle);
        assert_eq!(rc, 0);
        let send = pair.isend(BYTES);
        assert_eq!(pair.net.test(send).0, 0);
        never_done(&pair, &[wrong]);
        pair.close();
    }
}

#[test]
fn requests_that_make_no_sense_are_taken() {
    test_of!(requests_are_not_checked).proves("unchecked", &[]);
}

fn nothing_comes_into_host_memory() {
    let mut pair = pair(BYTES, PTR_HOST);
    // What has no bytes travels on the control socket.
    let (send, empty) = (pair.isend(0), pair.irecv(0).1);
    pair.net.finish_both(send, empty);
    assert_eq!(pair.consumed(empty), 0);
    let (send, receive) = (pair.isend(BYTES), pair.irecv(BYTES).1);
    pair.net.finish(send);
    never_done(&pair, &[receive]);
    pair.close();
}

#[test]
fn data_sockets_bring_nothing_to_host_memory() {
    test_of!(nothing_comes_into_host_memory).proves("steered", &[]);
}

fn empty_receives_are_consumed_at_any_time() {
    let mut pair = pair(4096, PTR_CUDA);
    let early = pair.irecv(0).1;
    assert_eq!(pair.consumed(early), 0, "before anything came");
    assert_eq!(pair.net.test(early), (0, 0), "it is not there any more");
    assert_eq!(pair.consumed(early), 3, "nothing is there");
    let receives = [0, 1000].map(|bytes| {
        let (send, receive) = (pair.isend(bytes), pair.irecv(bytes).1);
        pair.net.finish_both(send, receive);
        receive
    });
    assert_eq!(pair.consumed(receives[0]), 0);
    assert_eq!(pair.consumed(receives[0]), 0, "the other one is freed");
    assert_eq!(pair.consumed(receives[1]), 3, "it is not there any more");
    pair.close();
}

#[test]
fn an_empty_receive_is_consumed_early_and_twice() {
    test_of!(empty_receives_are_consumed_at_any_time).proves("progress,pointers", &[]);
}

/// Where a listen comm is connected to.
fn port_of(handle: &NetHandle) -> u16 {
    u16::from_be_bytes([handle.0[2], handle.0[3]])
}

fn stray_connections_are_taken_for_the_peer() {
    let net = net();
    let (handle, listen) = net.listen();
    let port = port_of(&handle);
    let stray = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a listener");
    for _ in 0..3 {
        let _ = stray().write_all(&[7; 100]);
    }
    assert_eq!(net.accept_all(listen).0, 3, "three tries");

    let (mut handle, listen) = net.listen();
    let port = port_of(&handle);
    let mut device = blank_device();
    assert_eq!(net.accept(listen, &mut device).0, 0);
    let silent = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a listener");
    for _ in 0..CALLS {
        let (rc, comm) = net.connect(&mut handle);
        assert!(rc == 0 && comm.is_null(), "the stray connection is read first");
        let (rc, comm) = net.accept(listen, &mut device);
        assert!(rc == 0 && comm.is_null(), "the stray connection is read first");
    }
    drop(silent);
    let mut ends: [PluginPtr; 2] = [std::ptr::null_mut(); 2];
    eventually(|| {
        if ends[0].is_null() {
            ends[0] = net.connect(&mut handle).1;
        }
        if ends[1].is_null() {
            ends[1] = net.accept(listen, &mut device).1;
        }
        ends.iter().all(|end| !end.is_null()).then_some(())
    });
}

#[test]
fn a_listen_comm_takes_stray_connections_for_its_peer() {
    test_of!(stray_connections_are_taken_for_the_peer).proves("strangers", &[]);
}
