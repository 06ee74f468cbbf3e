#![allow(unsafe_code)]
//! Bringing comms up and down: strays, second peers, polls after the end.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::ptr;
use std::time::{Duration, Instant};

use socket2::SockRef;
use tcpx_sys::{NetDeviceHandle, NetHandle, PTR_CUDA};
use tcpx_testkit::{PATIENCE, eventually, in_own_process, scaled};

use crate::support::exchange::exchange;
use crate::support::{self, Net, PluginPtr, Receiver, Sender, blank_device};

fn net() -> Net {
    support::net(|settings| settings.sockets = 2)
}

fn address(handle: &NetHandle) -> SocketAddrV4 {
    let bytes = handle.0;
    assert_eq!(bytes[..2], 2u16.to_ne_bytes());
    let ip = Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]);
    SocketAddrV4::new(ip, u16::from_be_bytes([bytes[2], bytes[3]]))
}

fn stray(handle: &NetHandle, words: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(address(handle)).expect("the listener listens");
    socket.write_all(words).expect("write");
    socket.set_read_timeout(Some(PATIENCE)).expect("timeout");
    socket
}

/// The hello that opens the control socket of a comm, written out by hand.
fn control_hello(handle: &NetHandle, attempt: u64) -> [u8; 48] {
    let mut hello = [0; 48];
    hello[..8].copy_from_slice(b"TCPXSOFT");
    hello[8..10].copy_from_slice(&1u16.to_le_bytes());
    hello[10..12].copy_from_slice(&u16::MAX.to_le_bytes());
    hello[12..14].copy_from_slice(&2u16.to_le_bytes());
    hello[16..32].copy_from_slice(&handle.0[104..120]);
    hello[32..40].copy_from_slice(&attempt.to_le_bytes());
    hello[40..44].copy_from_slice(&4096u32.to_le_bytes());
    hello
}

/// Connects and accepts from one thread, as NCCL does.
fn finish_pair(net: Net, handle: &mut NetHandle, listen: PluginPtr) -> (Sender, Receiver) {
    let mut device = blank_device();
    let (mut send, mut recv): (PluginPtr, PluginPtr) = (ptr::null_mut(), ptr::null_mut());
    eventually(|| {
        if send.is_null() {
            let (rc, comm) = net.connect(handle);
            assert_eq!(rc, 0);
            send = comm;
        }
        if recv.is_null() {
            let (rc, comm) = net.accept(listen, &mut device);
            assert_eq!(rc, 0);
            recv = comm;
        }
        (!send.is_null() && !recv.is_null()).then_some(())
    });
    assert_eq!((device.net_device_type, device.net_device_version), (1, 7));
    assert_eq!((device.size, device.needs_proxy_progress), (24, 1));
    (Sender { net, comm: send }, Receiver::new(net, recv, device.handle.cast()))
}

fn use_and_close(pair: (Sender, Receiver)) {
    exchange(pair, (PTR_CUDA, PTR_CUDA), &[5000, 100_000], 2);
}

#[test]
fn the_first_calls_return_no_comm_and_a_poll_after_the_end_is_refused() {
    in_own_process!();
    let net = net();
    let (mut handle, listen) = net.listen();
    let fresh = handle;
    let mut device = blank_device();
    assert_eq!(net.accept(listen, &mut device), (0, ptr::null_mut()), "there is no peer yet");
    assert!(device.handle.is_null(), "not written before the comm is there");
    assert_eq!(net.connect(&mut handle), (0, ptr::null_mut()));
    assert_ne!(handle.0[80..88], [0; 8], "the state is in the handle");
    let pair = finish_pair(net, &mut handle, listen);
    for _ in 0..3 {
        assert_eq!(net.connect(&mut handle).0, 3);
        assert_eq!(net.accept(listen, &mut device).0, 3);
    }
    let mut copy = fresh;
    assert_eq!(net.connect_all(&mut copy).0, 2, "the listen comm has its peer");
    assert_eq!(net.connect(&mut copy).0, 3);
    assert_eq!(net.close_listen(listen), 0);
    use_and_close(pair);
}

#[test]
fn wrong_arguments_are_refused_at_once() {
    in_own_process!();
    let net = net();
    let (handle, listen) = net.listen();
    for damaged in [0, 2, 36, 40, 48, 88, 96, 120] {
        let mut bad = handle;
        bad.0[damaged] ^= 0x5a;
        assert_eq!(net.connect(&mut bad).0, 3, "byte {damaged}");
    }
    let mut zero = NetHandle::zeroed();
    assert_eq!(net.connect(&mut zero).0, 3);
    let mut stale = handle;
    stale.0[80..88].copy_from_slice(&0x7f12_3456_7890u64.to_le_bytes());
    assert_eq!(net.connect(&mut stale).0, 3);
    let (mut comm, mut no_device): (PluginPtr, *mut NetDeviceHandle) =
        (ptr::null_mut(), ptr::null_mut());
    assert_eq!(call_accept(net, listen, &mut comm, ptr::null_mut()), 3);
    assert_eq!(call_accept(net, listen, &mut comm, &raw mut no_device), 3);
    assert_eq!(net.close_listen(listen), 0);
    assert_eq!(net.accept(listen, &mut blank_device()).0, 3, "closed");
}

fn call_accept(
    net: Net,
    listen: PluginPtr,
    comm: &mut PluginPtr,
    device: *mut *mut NetDeviceHandle,
) -> i32 {
    // SAFETY: `comm` is valid; `device` is NULL or valid.
    unsafe { net.0.accept.expect("accept")(listen, comm, device) }.0
}

#[test]
fn strays_do_not_disturb_the_pairing() {
    in_own_process!();
    let net = net();
    let (mut handle, listen) = net.listen();
    assert_eq!(net.accept(listen, &mut blank_device()), (0, ptr::null_mut()));
    // A port scanner, a silent one, one in the middle of a hello, a web client, and far too many of
    // them.
    drop(stray(&handle, b""));
    let hello = control_hello(&handle, 1);
    let silent: Vec<_> = (0..100).map(|k| stray(&handle, &hello[..k % 40])).collect();
    let mut web =
        stray(&handle, b"GET / HTTP/1.1\r\nHost: no-host\r\nAccept: */*\r\n\r\nmore than 48 bytes");
    let mut wrong_id = hello;
    wrong_id[16] ^= 1;
    let mut unknown = stray(&handle, &wrong_id);
    let mut answer = Vec::new();
    let closed = |result: std::io::Result<usize>| result.map_or(true, |bytes| bytes == 0);
    assert!(closed(web.read_to_end(&mut answer)), "closed without a word");
    assert!(closed(unknown.read_to_end(&mut answer)), "closed without a word");
    let oldest = (&silent[0]).read(&mut [0]).expect_err("its room is another's");
    assert_eq!(oldest.kind(), ErrorKind::ConnectionReset, "it may come again");
    use_and_close(finish_pair(net, &mut handle, listen));
    drop(silent);
    assert_eq!(net.close_listen(listen), 0);
}

/// Puts a door before a listen comm, which resets every other connection and takes the rest
/// through. `handle` leads to the door afterwards.
fn put_door_before(handle: &mut NetHandle, passes: usize) {
    let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = door.local_addr().expect("address").port().to_be_bytes();
    let behind = address(handle);
    for at in [2, 50] {
        handle.0[at..at + 2].copy_from_slice(&port);
    }
    std::thread::spawn(move || {
        for _ in 0..passes {
            let (reset, _) = door.accept().expect("a try");
            SockRef::from(&reset).set_linger(Some(Duration::ZERO)).expect("linger");
            drop(reset);
            let (outside, _) = door.accept().expect("another try");
            let inside = TcpStream::connect(behind).expect("the listener listens");
            let other = (inside.try_clone().expect("clone"), outside.try_clone().expect("clone"));
            std::thread::spawn(move || carry(&outside, &inside));
            std::thread::spawn(move || carry(&other.0, &other.1));
        }
    });
}

fn carry(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(std::net::Shutdown::Write);
}

#[test]
fn a_connection_that_is_reset_on_its_way_is_made_again() {
    in_own_process!();
    let net = net();
    let (mut handle, listen) = net.listen();
    // The control socket and two data sockets.
    put_door_before(&mut handle, 3);
    use_and_close(finish_pair(net, &mut handle, listen));
    assert_eq!(net.close_listen(listen), 0);
}

#[test]
fn a_peer_may_connect_and_send_its_hello_late() {
    in_own_process!();
    a_peer_is_late_by(scaled(Duration::from_millis(300)));
}

#[test]
#[ignore = "deep: waits for five seconds"]
fn a_peer_may_connect_and_send_its_hello_very_late() {
    in_own_process!();
    a_peer_is_late_by(Duration::from_millis(5500));
}

fn a_peer_is_late_by(time: Duration) {
    let net = net();
    let (mut handle, listen) = net.listen();
    assert_eq!(net.accept(listen, &mut blank_device()), (0, ptr::null_mut()));
    let mut slow = stray(&handle, &[]);
    // Time itself is what is tried here: the one comes late, the other says hello late.
    std::thread::sleep(time);
    slow.write_all(&control_hello(&handle, 9)).expect("write");
    let mut answer = [0; 24];
    slow.read_exact(&mut answer).expect("welcome");
    assert_eq!(answer[16..], [0; 8]);
    drop(slow);
    use_and_close(finish_pair(net, &mut handle, listen));
    assert_eq!(net.close_listen(listen), 0);
}

#[test]
fn a_claimant_that_dies_makes_room_for_another() {
    in_own_process!();
    let net = net();
    let (mut handle, listen) = net.listen();
    assert_eq!(net.accept(listen, &mut blank_device()), (0, ptr::null_mut()));
    let mut claimant = stray(&handle, &control_hello(&handle, 9));
    let mut answer = [0; 24];
    claimant.read_exact(&mut answer).expect("welcome");
    assert_eq!(answer[16..], [0; 8]);
    let mut second = stray(&handle, &control_hello(&handle, 10));
    second.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[16], 1, "taken");
    drop(claimant);
    use_and_close(finish_pair(net, &mut handle, listen));
    assert_eq!(net.close_listen(listen), 0);
}

#[test]
fn a_claimant_that_dies_with_some_of_its_data_sockets_makes_room_for_another() {
    in_own_process!();
    let net = net();
    let (mut handle, listen) = net.listen();
    assert_eq!(net.accept(listen, &mut blank_device()), (0, ptr::null_mut()));
    let control = control_hello(&handle, 9);
    // The first of two data sockets says the same, but for its number.
    let mut data = control;
    data[10..12].copy_from_slice(&0u16.to_le_bytes());
    let claimant = [control, data].map(|hello| {
        let mut socket = stray(&handle, &hello);
        let mut answer = [0; 24];
        socket.read_exact(&mut answer).expect("welcome");
        assert_eq!(answer[16..], [0; 8]);
        socket
    });
    drop(claimant);
    use_and_close(finish_pair(net, &mut handle, listen));
    assert_eq!(net.close_listen(listen), 0);
}

#[test]
fn a_claimant_that_died_before_its_hello_was_read_is_replaced() {
    in_own_process!();
    let net = net();
    let (handle, listen) = net.listen();
    // Both wait at the door before the listener looks; the first is gone by then.
    drop(stray(&handle, &control_hello(&handle, 9)));
    let mut second = stray(&handle, &control_hello(&handle, 10));
    assert_eq!(net.accept(listen, &mut blank_device()), (0, ptr::null_mut()));
    let mut answer = [0; 24];
    second.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[16], 0, "welcome");
    assert_eq!(net.close_listen(listen), 0);
}

#[test]
fn closing_the_listen_comm_wakes_its_thread() {
    in_own_process!();
    let net = net();
    let (handle, listen) = net.listen();
    assert_eq!(net.accept(listen, &mut blank_device()), (0, ptr::null_mut()));
    let claimant = stray(&handle, &control_hello(&handle, 9));
    let start = Instant::now();
    assert_eq!(net.close_listen(listen), 0);
    assert!(start.elapsed() < PATIENCE / 2, "woken, not timed out");
    drop(claimant);
    let mut late = handle;
    assert_eq!(net.connect_all(&mut late).0, 2, "the listener has gone");
}
