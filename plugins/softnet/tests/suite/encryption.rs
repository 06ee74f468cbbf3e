//! Comms whose sockets are encrypted. `attacked_records` and `crossed_sockets` have attackers on
//! the way between their ends.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::ptr;

use tcpx_sys::{NetHandle, PTR_CUDA, PTR_HOST};
use tcpx_testkit::{eventually, in_own_process};

use crate::support::{
    self, Memory, Net, PluginPtr, Receiver, Sender, blank_device, encrypt_listen,
};

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
pub(crate) struct Ends {
    pub(crate) sent: (i32, PluginPtr),
    pub(crate) received: (i32, PluginPtr, tcpx_sys::NetDeviceHandle),
}

impl Ends {
    /// Both are connected.
    pub(crate) fn into_pair(self, net: Net) -> (Sender, Receiver) {
        assert_eq!((self.sent.0, self.received.0), (0, 0));
        let receiver = Receiver::new(net, self.received.1, self.received.2.handle.cast());
        (Sender { net, comm: self.sent.1 }, receiver)
    }
}

/// Connects and accepts from one thread until both have their final answer, or until the connector
/// has failed.
pub(crate) fn connect(
    net: Net,
    handle: &mut NetHandle,
    listen: PluginPtr,
    secret: Option<[u8; 32]>,
) -> Ends {
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
