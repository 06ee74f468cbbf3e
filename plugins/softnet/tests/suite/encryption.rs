//! Comms whose sockets are encrypted, and an attacker on the way between their ends.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::ptr;
use std::sync::{Arc, Mutex};

use tcpx_softnet::{FailureReason, last_failure};
use tcpx_sys::{NetHandle, PTR_CUDA, PTR_HOST};
use tcpx_testkit::{eventually, in_own_process};

use crate::support::{self, Memory, Net, PluginPtr, Receiver, blank_device, encrypt_listen};

pub(crate) const SECRET: [u8; 32] = [0x5e; 32];
const OTHER: [u8; 32] = [0x5f; 32];
/// Bytes of every message: a few records.
const BYTES: usize = 100_000;

fn net() -> Net {
    support::net(|settings| {
        settings.sockets = 2;
        settings.inline_bytes = 100;
    })
}

/// Both ends' final answers: code and comm.
struct Ends {
    sent: (i32, PluginPtr),
    received: (i32, PluginPtr, tcpx_sys::NetDeviceHandle),
}

/// Connects and accepts from one thread until both have their final answer, or until the connector
/// has failed.
fn connect(net: Net, handle: &mut NetHandle, listen: PluginPtr, secret: Option<[u8; 32]>) -> Ends {
    let mut ends =
        Ends { sent: (0, ptr::null_mut()), received: (0, ptr::null_mut(), blank_device()) };
    eventually(|| {
        if ends.sent.0 == 0 && ends.sent.1.is_null() {
            ends.sent = net.connect_with(handle, secret);
        }
        let (rc, comm, device) = &mut ends.received;
        if *rc == 0 && comm.is_null() {
            (*rc, *comm) = net.accept(listen, device);
        }
        let both = !ends.sent.1.is_null() && !comm.is_null();
        (both || ends.sent.0 != 0 || *rc != 0).then_some(())
    });
    ends
}

/// A change that is made to what passes: the number of the connection, the place in the stream of
/// the end that dialled, and its bytes.
type Change = Box<dyn Fn(usize, usize, &mut Vec<u8>) + Send + Sync>;

/// Stands between the ends of a comm. Returns its own address, and all that passes.
fn stand_between(
    listener: SocketAddrV4,
    change: Change,
) -> (SocketAddrV4, Arc<Mutex<Vec<Vec<u8>>>>) {
    let front = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let std::net::SocketAddr::V4(address) = front.local_addr().expect("address") else {
        panic!("not IPv4")
    };
    let (heard, change) = (Arc::new(Mutex::new(Vec::new())), Arc::new(change));
    let all = Arc::clone(&heard);
    std::thread::spawn(move || {
        for (number, dialled) in front.incoming().enumerate() {
            let dialled = dialled.expect("a connection");
            let onward = TcpStream::connect(listener).expect("the comm listens");
            all.lock().expect("no panic").push(Vec::new());
            let (back, forth) = (onward.try_clone().expect("a copy"), dialled.try_clone());
            pump(back, forth.expect("a copy"), |_, _| {});
            let (heard, change) = (Arc::clone(&all), Arc::clone(&change));
            pump(dialled, onward, move |at, bytes| {
                heard.lock().expect("no panic")[number].extend_from_slice(bytes);
                change(number, at, bytes);
            });
        }
    });
    (address, heard)
}

/// Passes bytes on until an end closes.
fn pump(
    mut from: TcpStream,
    mut to: TcpStream,
    change: impl Fn(usize, &mut Vec<u8>) + Send + 'static,
) {
    std::thread::spawn(move || {
        let (mut buffer, mut at) = (vec![0; 1 << 16], 0);
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let mut bytes = buffer[..count].to_vec();
            change(at, &mut bytes);
            at += count;
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}

pub(crate) fn address(handle: &NetHandle) -> SocketAddrV4 {
    let [_, _, p0, p1, a, b, c, d, ..] = handle.0;
    SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([p0, p1]))
}

/// Has a handle lead elsewhere.
pub(crate) fn lead_to(handle: &mut NetHandle, address: SocketAddrV4) {
    for at in [0, 48] {
        handle.0[at + 2..at + 4].copy_from_slice(&address.port().to_be_bytes());
        handle.0[at + 4..at + 8].copy_from_slice(&address.ip().octets());
    }
}

#[test]
fn messages_of_every_size_and_memory_arrive() {
    in_own_process!();
    let net = net();
    let (mut handle, listen) = net.listen_with(Some(SECRET));
    let Ends { sent, received } = connect(net, &mut handle, listen, Some(SECRET));
    assert_eq!((sent.0, received.0), (0, 0));
    assert_eq!(encrypt_listen(listen, &SECRET), 3, "after accept");
    let mut receiver = Receiver::new(net, received.1, received.2.handle.cast());
    let mut memory = Memory::patterned(4 * BYTES, 0);
    let mut target = Memory::new(4 * BYTES);
    for kind in [PTR_CUDA, PTR_HOST] {
        let (_, from) = net.register(sent.1, memory.data(), 4 * BYTES, kind);
        let (_, into) = net.register(received.1, target.data(), 4 * BYTES, kind);
        for bytes in [0, 1, 100, 101, 16_384, 16_385, 4 * BYTES] {
            let (rc, send) = net.isend(sent.1, memory.data(), bytes as i32, from);
            assert_eq!(rc, 0);
            let (number, recv) = receiver.post(target.data(), 4 * BYTES, into);
            net.finish_both(send, recv);
            let expected = &memory.bytes()[..bytes];
            if kind == PTR_CUDA {
                assert!(receiver.unpack(number, bytes) == expected, "{bytes} bytes");
            } else {
                assert!(&target.bytes()[..bytes] == expected, "{bytes} bytes of host memory");
            }
            assert_eq!(net.consumed(received.1, recv), 0);
        }
    }
}

#[test]
fn both_ends_must_want_it_and_have_the_same_secret() {
    in_own_process!();
    let net = net();
    for (ours, theirs) in [(None, Some(SECRET)), (Some(SECRET), None), (Some(SECRET), Some(OTHER))]
    {
        let (mut handle, listen) = net.listen_with(ours);
        let Ends { sent, received } = connect(net, &mut handle, listen, theirs);
        assert!(sent.0 != 0 && sent.1.is_null(), "{ours:?} and {theirs:?}: {}", sent.0);
        assert!(received.1.is_null());
        // The listener waits for its own peer.
        let (mut handle, other) = (handle, listen);
        handle.0[80..88].fill(0);
        let Ends { sent, received } = connect(net, &mut handle, other, ours);
        assert_eq!((sent.0, received.0), (0, 0));
        assert_eq!((net.close(sent.1), net.close(received.1), net.close_listen(listen)), (0, 0, 0));
    }
}

#[test]
fn a_listener_on_the_way_hears_no_byte_of_a_message() {
    in_own_process!();
    let net = net();
    let (mut handle, listen) = net.listen_with(Some(SECRET));
    let (between, heard) = stand_between(address(&handle), Box::new(|_, _, _| {}));
    lead_to(&mut handle, between);
    let Ends { sent, received } = connect(net, &mut handle, listen, Some(SECRET));
    let mut receiver = Receiver::new(net, received.1, received.2.handle.cast());
    let mut memory = Memory::patterned(BYTES, 3);
    let (_, mhandle) = net.register(sent.1, memory.data(), BYTES, PTR_CUDA);
    for bytes in [60, BYTES] {
        let (_, send) = net.isend(sent.1, memory.data(), bytes as i32, mhandle);
        let (number, recv) = receiver.post(ptr::null_mut(), BYTES, mhandle);
        net.finish_both(send, recv);
        assert!(receiver.unpack(number, bytes) == memory.bytes()[..bytes]);
        assert_eq!(net.consumed(received.1, recv), 0);
    }
    let heard = heard.lock().expect("no panic");
    assert_eq!(heard.len(), 3, "the control socket and two data sockets");
    assert!(heard.iter().map(Vec::len).sum::<usize>() > BYTES);
    for place in [0, 40, 1000, 20_000, BYTES - 16] {
        let known = &memory.bytes()[place..place + 16];
        let is_heard = |stream: &Vec<u8>| stream.windows(16).any(|bytes| bytes == known);
        assert!(!heard.iter().any(is_heard), "byte {place} on");
    }
}

#[test]
fn bytes_that_are_changed_left_out_or_repeated_are_an_error() {
    in_own_process!();
    let net = net();
    // Behind the hello and its offer: the first bytes that are encrypted.
    let at = 48 + 65;
    type Attack = fn(&mut Vec<u8>);
    let flip: Attack = |bytes| {
        if let Some(byte) = bytes.last_mut() {
            *byte ^= 0x10;
        }
    };
    let drop: Attack = |bytes| bytes.truncate(bytes.len() / 2);
    let repeat: Attack = |bytes| bytes.extend_from_within(..);
    for (attack, sockets) in
        [(flip, 0..1), (flip, 1..3), (drop, 1..3), (repeat, 1..3), (repeat, 0..1)]
    {
        let (mut handle, listen) = net.listen_with(Some(SECRET));
        let change: Change = Box::new(move |socket, from, bytes| {
            if sockets.contains(&socket) && from >= at {
                attack(bytes);
            }
        });
        let (between, _) = stand_between(address(&handle), change);
        lead_to(&mut handle, between);
        let Ends { sent, received } = connect(net, &mut handle, listen, Some(SECRET));
        assert_eq!((sent.0, received.0), (0, 0));
        let mut receiver = Receiver::new(net, received.1, received.2.handle.cast());
        let mut memory = Memory::patterned(BYTES, 0);
        let mut target = Memory::new(BYTES);
        let (_, from) = net.register(sent.1, memory.data(), BYTES, PTR_HOST);
        let (_, into) = net.register(received.1, target.data(), BYTES, PTR_HOST);
        let (_, send) = net.isend(sent.1, memory.data(), BYTES as i32, from);
        let (_, recv) = receiver.post(target.data(), BYTES, into);
        let code = eventually(|| {
            let _ = net.test(send);
            let (rc, done) = net.test(recv);
            // Bytes that are repeated behind a whole message are noticed with the next.
            (rc != 0 || done == 1).then_some((rc, done))
        });
        if code == (0, 1) {
            assert!(target.bytes() == memory.bytes(), "a wrong byte was delivered");
            assert_eq!(net.consumed(received.1, recv), 0);
            let (_, send) = net.isend(sent.1, memory.data(), BYTES as i32, from);
            let (_, recv) = receiver.post(target.data(), BYTES, into);
            let _ = net.test(send);
            assert_eq!(net.fails_with(recv), 2);
        } else {
            assert_eq!(code.0, 2);
        }
        assert_eq!(net.test(recv).0, 2, "for good");
        assert!(matches!(last_failure(), Some(FailureReason::Tampered)), "{:?}", last_failure());
        assert_eq!((net.close(sent.1), net.close(received.1), net.close_listen(listen)), (0, 0, 0));
    }
}

/// Two of these fill what a comm reads ahead of its receives, so that more is decrypted or read
/// from the control socket than has been taken from it.
#[test]
fn what_was_read_before_the_connection_ended_still_arrives() {
    const INLINE: usize = 32 << 10;
    in_own_process!();
    let net = support::net(|settings| settings.inline_bytes = INLINE as u32);
    let (sender, mut receiver) = net.pair_with(Some(SECRET));
    let mut memory = Memory::patterned(INLINE, 0);
    let (_, from) = net.register(sender.comm, memory.data(), INLINE, PTR_HOST);
    let (_, into) = net.register(receiver.comm, memory.data(), INLINE, PTR_CUDA);
    for _ in 0..4 {
        let (_, send) = net.isend(sender.comm, memory.data(), INLINE as i32, from);
        net.finish(send);
    }
    let mut receive = || {
        let (number, recv) = receiver.post(ptr::null_mut(), INLINE, into);
        net.finish(recv);
        assert!(receiver.unpack(number, INLINE) == memory.bytes());
        assert_eq!(net.consumed(receiver.comm, recv), 0);
    };
    (0..2).for_each(|_| receive());
    assert_eq!(net.close(sender.comm), 0);
    (0..2).for_each(|_| receive());
}

#[test]
fn a_socket_of_another_comm_does_not_fit() {
    in_own_process!();
    let net = net();
    // Two comms with one secret; the attacker exchanges what their first data sockets carry.
    let (mut handle, listen) = net.listen_with(Some(SECRET));
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&recorded);
    let (between, _) = stand_between(
        address(&handle),
        Box::new(move |socket, from, bytes| {
            if socket > 0 && from >= 48 + 65 {
                record.lock().expect("no panic").push(bytes.clone());
            }
        }),
    );
    lead_to(&mut handle, between);
    let Ends { sent, received } = connect(net, &mut handle, listen, Some(SECRET));
    let mut receiver = Receiver::new(net, received.1, received.2.handle.cast());
    let mut memory = Memory::patterned(BYTES, 0);
    let (_, mhandle) = net.register(sent.1, memory.data(), BYTES, PTR_CUDA);
    let (_, send) = net.isend(sent.1, memory.data(), BYTES as i32, mhandle);
    let (_, recv) = receiver.post(ptr::null_mut(), BYTES, mhandle);
    net.finish_both(send, recv);

    let (mut handle, listen) = net.listen_with(Some(SECRET));
    let replay = Arc::clone(&recorded);
    let (between, _) = stand_between(
        address(&handle),
        Box::new(move |socket, from, bytes| {
            if socket > 0 && from >= 48 + 65 {
                *bytes = replay.lock().expect("no panic").concat();
            }
        }),
    );
    lead_to(&mut handle, between);
    let Ends { sent, received } = connect(net, &mut handle, listen, Some(SECRET));
    let mut receiver = Receiver::new(net, received.1, received.2.handle.cast());
    let (_, send) = net.isend(sent.1, memory.data(), BYTES as i32, mhandle);
    let (_, recv) = receiver.post(ptr::null_mut(), BYTES, mhandle);
    let _ = net.test(send);
    assert_eq!(net.fails_with(recv), 2, "yesterday's bytes");
}
