//! An attacker on the way of the sockets of one encrypted comm, who changes whole records, and who
//! says what was said yesterday.

use std::collections::HashMap;

use tcpx_softnet::{FailureReason, last_failure};
use tcpx_sys::{NetHandle, PTR_CUDA, PTR_HOST};
use tcpx_testkit::attacker::{Attacker, Direction, Passing, Place};
use tcpx_testkit::{Tampering, eventually, in_own_process};

use crate::encryption::{Ends, SECRET, address, connect, lead_to};
use crate::support::{self, Memory, Net, PluginPtr, Receiver, Sender};

/// Bytes of every message: seven records.
const BYTES: usize = 100_000;
/// Messages of a comm.
const COUNT: usize = 8;
/// Bytes of the hello of each end, before its part of the exchange of keys.
const HELLOS: [usize; 2] = [48, 24];
/// What an end says before its records: a hello, and a key with its proof.
const BEFORE_RECORDS: [usize; 2] = [HELLOS[0] + 65, HELLOS[1] + 65];

fn net(recv_sync: bool) -> Net {
    support::net(|settings| {
        settings.sockets = 2;
        settings.inline_bytes = 100;
        settings.recv_sync = recv_sync;
    })
}

/// A listen comm whose handle leads through an attacker.
struct Attacked {
    direct: NetHandle,
    handle: NetHandle,
    listen: PluginPtr,
    attacker: Attacker,
}

impl Attacked {
    fn new(
        net: Net,
        change: impl Fn(Place, Vec<u8>) -> Passing + Send + Sync + 'static,
    ) -> Attacked {
        let (direct, listen) = net.listen_with(Some(SECRET));
        let attacker = Attacker::before(address(&direct), BEFORE_RECORDS, change);
        let mut handle = direct;
        lead_to(&mut handle, attacker.address());
        Self { direct, handle, listen, attacker }
    }

    fn connect(&mut self, net: Net) -> Ends {
        connect(net, &mut self.handle, self.listen, Some(SECRET))
    }
}

/// Lets everything pass.
fn listen_only(_: Place, said: Vec<u8>) -> Passing {
    (said, Vec::new())
}

/// Messages of a comm, at both ends.
struct Messages<'a> {
    net: Net,
    sender: &'a Sender,
    receiver: &'a mut Receiver,
    sent: Memory,
    came: Memory,
    sends: Vec<PluginPtr>,
    receives: Vec<PluginPtr>,
    /// How many are done at the receiver, and at the sender.
    done: [usize; 2],
}

impl<'a> Messages<'a> {
    fn new(net: Net, (sender, receiver): &'a mut (Sender, Receiver)) -> Self {
        let sent = Memory::patterned(COUNT * BYTES, 3);
        let mut came = Memory::new(COUNT * BYTES);
        // No byte is what it will be.
        let places = came.bytes_mut().iter_mut().zip(sent.bytes());
        places.for_each(|(place, byte)| *place = !byte);
        let (sends, receives, done) = (Vec::new(), Vec::new(), [0; 2]);
        Self { net, sender, receiver, sent, came, sends, receives, done }
    }

    /// Posts the next one.
    fn post(&mut self) {
        let (net, at) = (self.net, self.sends.len() * BYTES);
        let [from, into] =
            [&mut self.sent, &mut self.came].map(|memory| memory.data().wrapping_add(at));
        let (_, mhandle) = net.register(self.receiver.comm, into, BYTES, PTR_HOST);
        self.receives.push(self.receiver.post(into, BYTES, mhandle).1);
        let (_, mhandle) = net.register(self.sender.comm, from, BYTES, PTR_HOST);
        let (rc, send) = net.isend(self.sender.comm, from, BYTES as i32, mhandle);
        assert_eq!(rc, 0);
        self.sends.push(send);
    }

    /// Drives both ends. Returns the code with which the receiver fails where bytes go to the
    /// listener, and else the sender.
    fn drive(&mut self, watched: Direction) -> Option<i32> {
        for (end, requests) in [&self.receives, &self.sends].into_iter().enumerate() {
            let Some(request) = requests.get(self.done[end]) else { continue };
            let (rc, is_done) = self.net.test(*request);
            if rc != 0 && Direction::BOTH[end] == watched {
                // The reason is that of this thread's last call.
                return Some(rc);
            }
            self.done[end] += usize::from(is_done == 1);
            if is_done == 1 && end == 0 {
                assert_eq!(self.net.consumed(self.receiver.comm, *request), 0);
            }
        }
        None
    }

    /// Posts what is left, and drives both ends until all are done.
    fn finish(&mut self) {
        (self.sends.len()..COUNT).for_each(|_| self.post());
        eventually(|| {
            assert_eq!(Direction::BOTH.map(|end| self.drive(end)), [None; 2]);
            (self.done == [COUNT; 2]).then_some(())
        });
        assert_eq!(self.delivered(), COUNT * BYTES);
    }

    /// Posts one after the other, when that of the last one has been heard, until an end notices
    /// that its bytes are not those of its peer.
    fn until_noticed(&mut self, attacker: &Attacker, watched: Direction, name: &str) {
        let mut heard = 0;
        let rc = eventually(|| {
            let now = attacker.records(0, watched);
            if self.sends.len() < COUNT && (now > heard || self.sends.is_empty()) {
                heard = now;
                self.post();
            }
            assert_ne!(self.done, [COUNT; 2], "{name}: it is not noticed");
            self.drive(watched)
        });
        let reason = last_failure();
        assert_eq!(rc, 2, "{name}");
        assert!(matches!(reason, Some(FailureReason::Tampered)), "{name}: {reason:?}");
        let delivered = self.delivered();
        let whole = self.done[0] * BYTES;
        assert!((whole..COUNT * BYTES).contains(&delivered), "{name}: {delivered}");
    }

    /// Returns how many bytes came. Each is what was sent.
    fn delivered(&self) -> usize {
        let places = || self.came.bytes().iter().zip(self.sent.bytes());
        let wrong = places().filter(|(came, sent)| **came != !**sent && came != sent).count();
        assert_eq!(wrong, 0, "wrong bytes were delivered");
        places().filter(|(came, sent)| came == sent).count()
    }

    /// What a failed end has not released is leaked: it may still be in use.
    fn leak(self) {
        std::mem::forget((self.sent, self.came));
    }
}

fn close(net: Net, (sender, receiver): (Sender, Receiver), listen: PluginPtr) {
    let closed = (net.close(sender.comm), net.close(receiver.comm), net.close_listen(listen));
    assert_eq!(closed, (0, 0, 0));
}

#[test]
fn a_listener_on_the_way_hears_no_byte_of_a_message() {
    in_own_process!();
    let net = net(false);
    let mut attacked = Attacked::new(net, listen_only);
    let (sender, mut receiver) = attacked.connect(net).into_pair(net);
    let mut memory = Memory::patterned(BYTES, 3);
    let (_, mhandle) = net.register(sender.comm, memory.data(), BYTES, PTR_CUDA);
    for bytes in [60, BYTES] {
        let (_, send) = net.isend(sender.comm, memory.data(), bytes as i32, mhandle);
        let (number, recv) = receiver.post(std::ptr::null_mut(), BYTES, mhandle);
        net.finish_both(send, recv);
        assert!(receiver.unpack(number, bytes) == memory.bytes()[..bytes]);
        assert_eq!(net.consumed(receiver.comm, recv), 0);
    }
    let heard = attacked.attacker.heard();
    let sockets = heard.iter().map(|(place, _)| place.socket).max();
    assert_eq!(sockets, Some(2), "the control socket and two data sockets");
    assert!(heard.iter().map(|(_, said)| said.len()).sum::<usize>() > BYTES);
    for place in [0, 40, 1000, 20_000, BYTES - 16] {
        let known = &memory.bytes()[place..place + 16];
        let is_heard = |said: &[u8]| said.windows(16).any(|bytes| bytes == known);
        assert!(!heard.iter().any(|(_, said)| is_heard(said)), "byte {place} on");
    }
}

/// One whole record of one direction of the control socket, or of a data socket: the second, so
/// that one has passed before.
#[test]
fn a_record_that_is_changed_left_out_repeated_or_swapped_ends_its_comm_alone() {
    in_own_process!();
    let net = net(true);
    let mut bystander = net.pair_with(Some(SECRET));
    let places =
        [(0, Direction::ToListener), (1, Direction::ToListener), (0, Direction::ToConnector)];
    for (what, (socket, direction)) in
        Tampering::ALL.iter().flat_map(|what| places.map(|place| (*what, place)))
    {
        let is_it = Place { socket, direction, record: Some(1) };
        let mut attacked =
            Attacked::new(
                net,
                move |place, said| {
                    if place == is_it { what.apply(said) } else { (said, Vec::new()) }
                },
            );
        let mut pair = attacked.connect(net).into_pair(net);
        let mut messages = Messages::new(net, &mut pair);
        let name = format!("{what:?} on socket {socket} {direction:?}");
        messages.until_noticed(&attacked.attacker, direction, &name);
        messages.leak();
        close(net, pair, attacked.listen);
        Messages::new(net, &mut bystander).finish();
    }
}

/// All that yesterday's comm said, by place.
fn yesterday(net: Net) -> HashMap<Place, Vec<u8>> {
    let mut attacked = Attacked::new(net, listen_only);
    let mut pair = attacked.connect(net).into_pair(net);
    Messages::new(net, &mut pair).finish();
    close(net, pair, attacked.listen);
    attacked.attacker.heard().into_iter().collect()
}

/// The two comms have one secret, and the same messages: their records differ in their keys alone.
#[test]
fn records_of_yesterday_are_not_taken() {
    in_own_process!();
    let net = net(false);
    for socket in [0, 1] {
        let said = yesterday(net);
        let mut attacked = Attacked::new(net, move |place, bytes| {
            let is_replaced = place.socket == socket && place.record.is_some();
            (said.get(&place).filter(|_| is_replaced).cloned().unwrap_or(bytes), Vec::new())
        });
        let mut pair = attacked.connect(net).into_pair(net);
        let mut messages = Messages::new(net, &mut pair);
        let name = format!("socket {socket}");
        messages.until_noticed(&attacked.attacker, Direction::ToListener, &name);
        // Without the control socket, nothing was announced. The other data socket has today's.
        assert!(socket > 0 || messages.delivered() == 0);
        messages.leak();
        close(net, pair, attacked.listen);
    }
}

/// What was said before the records yesterday, whole or with today's hello before it.
#[test]
fn keys_of_yesterday_connect_nothing() {
    in_own_process!();
    let net = net(false);
    for (socket, direction) in
        [0, 1].into_iter().flat_map(|socket| Direction::BOTH.map(|direction| (socket, direction)))
    {
        for is_whole in [false, true] {
            let said = yesterday(net);
            let hello = HELLOS[usize::from(direction == Direction::ToConnector)];
            let kept = if is_whole { 0 } else { hello };
            let is_it = Place { socket, direction, record: None };
            let mut attacked = Attacked::new(net, move |place, mut bytes| {
                if place == is_it {
                    bytes[kept..].copy_from_slice(&said[&place][kept..]);
                }
                (bytes, Vec::new())
            });
            let name = format!("socket {socket} {direction:?}, hello too: {is_whole}");
            let Ends { sent, received } = attacked.connect(net);
            assert!(sent.0 != 0 && sent.1.is_null() && received.1.is_null(), "{name}");
            // Its own peer still reaches it where no attacker is on the way.
            let ends = eventually(|| {
                let mut handle = attacked.direct;
                let ends = connect(net, &mut handle, attacked.listen, Some(SECRET));
                (ends.sent.0 == 0).then_some(ends)
            });
            let mut pair = ends.into_pair(net);
            Messages::new(net, &mut pair).finish();
            close(net, pair, attacked.listen);
        }
    }
}
