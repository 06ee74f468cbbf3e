#![allow(unsafe_code)]
//! Connections that end under a comm on which nothing moves.

use std::ffi::c_int;
use std::ptr;
use std::time::Duration;

use tcpx_softnet::comm_health;
use tcpx_sys::PTR_CUDA;
use tcpx_testkit::{in_own_process, until};

use crate::support::{self, Memory, Net, PluginPtr, blank_device};

fn net() -> Net {
    support::net(|settings| {
        settings.sockets = 2;
        settings.inline_bytes = 100;
        settings.peer_timeout = Some(Duration::from_secs(3_600));
    })
}

fn check(comm: PluginPtr) -> c_int {
    // SAFETY: `checkComm` takes any word.
    unsafe { comm_health().check_comm.expect("it is set")(comm) }.0
}

fn set_peer_timeout(comm: PluginPtr, milliseconds: u32) -> c_int {
    // SAFETY: `setPeerTimeout` takes any word.
    unsafe { comm_health().set_peer_timeout.expect("it is set")(comm, milliseconds) }.0
}

/// Resets every TCP connection of this process, as `ss --kill` does from outside.
fn reset_connections() {
    for entry in std::fs::read_dir("/proc/self/fd").expect("Linux has it") {
        let name = entry.expect("it is readable").file_name();
        let fd: c_int = name.to_str().and_then(|name| name.parse().ok()).expect("a number");
        let nowhere =
            libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
        let bytes = size_of::<libc::sockaddr>() as libc::socklen_t;
        // SAFETY: the address outlives the call. What is no socket refuses it; a connection is
        // reset, and its descriptor stays open.
        unsafe { libc::connect(fd, &raw const nowhere, bytes) };
    }
}

#[test]
fn comms_that_live_are_alive() {
    in_own_process!();
    let net = net();
    let (sender, mut receiver) = net.pair();
    let mut memory = Memory::patterned(100_000, 0);
    let (_, mhandle) = net.register(sender.comm, memory.data(), 100_000, PTR_CUDA);
    for bytes in [0, 50, 100_000] {
        assert_eq!((check(sender.comm), check(receiver.comm)), (0, 0), "idle");
        let (_, send) = net.isend(sender.comm, memory.data(), bytes, mhandle);
        net.test(send);
        assert_eq!((check(sender.comm), check(receiver.comm)), (0, 0), "bytes are under way");
        let (number, recv) = receiver.post(ptr::null_mut(), 100_000, mhandle);
        assert_eq!((check(sender.comm), check(receiver.comm)), (0, 0), "a receive waits");
        until("it is received", || net.test(recv) == (0, 1));
        assert_eq!(receiver.unpack(number, bytes as usize), &memory.bytes()[..bytes as usize]);
        assert_eq!(net.consumed(receiver.comm, recv), 0);
    }
    assert_eq!((set_peer_timeout(sender.comm, 0), set_peer_timeout(receiver.comm, 1)), (0, 0));
    assert_eq!((check(sender.comm), check(receiver.comm)), (0, 0), "nothing waits for an answer");
    assert_eq!((net.close(sender.comm), net.close(receiver.comm)), (0, 0));
}

#[test]
fn idle_comms_whose_connections_are_reset_are_dead() {
    in_own_process!();
    let net = net();
    let (sender, mut receiver) = net.pair();
    let mut memory = Memory::patterned(100_000, 0);
    let (_, mhandle) = net.register(sender.comm, memory.data(), 100_000, PTR_CUDA);
    reset_connections();
    for comm in [sender.comm, receiver.comm] {
        until("it is dead", || check(comm) == 2);
        assert_eq!(check(comm), 2, "and for good");
    }
    let (rc, send) = net.isend(sender.comm, memory.data(), 100_000, mhandle);
    assert_eq!((rc, net.fails_with(send)), (0, 2));
    let (_, recv) = receiver.post(ptr::null_mut(), 100_000, mhandle);
    assert_eq!(net.fails_with(recv), 2);
    assert_eq!((net.close(sender.comm), net.close(receiver.comm)), (0, 0));
}

#[test]
fn bytes_received_before_the_reset_are_delivered() {
    in_own_process!();
    let net = net();
    let (sender, mut receiver) = net.pair();
    let mut memory = Memory::patterned(50, 0);
    let (_, mhandle) = net.register(sender.comm, memory.data(), 50, PTR_CUDA);
    for _ in 0..3 {
        let (_, send) = net.isend(sender.comm, memory.data(), 50, mhandle);
        net.finish(send);
    }
    // Wherever the messages are by now, looking at the comm does not lose them.
    assert_eq!(net.close(sender.comm), 0);
    for _ in 0..3 {
        check(receiver.comm);
        let (number, recv) = receiver.post(ptr::null_mut(), 50, mhandle);
        net.finish(recv);
        assert_eq!(receiver.unpack(number, 50), memory.bytes());
        assert_eq!(net.consumed(receiver.comm, recv), 0);
    }
    let (_, recv) = receiver.post(ptr::null_mut(), 50, mhandle);
    assert_eq!(net.fails_with(recv), 2);
    assert_eq!(net.close(receiver.comm), 0);
}

#[test]
fn a_pointer_that_is_no_comm_is_refused() {
    in_own_process!();
    let net = net();
    let (_, listen) = net.listen();
    net.accept(listen, &mut blank_device());
    for word in [ptr::null_mut(), ptr::without_provenance_mut(4711), listen] {
        assert_eq!((check(word), set_peer_timeout(word, 1)), (3, 3));
    }
    assert_eq!(net.close_listen(listen), 0);
    assert_eq!(check(listen), 3);
}
