//! An attacker that connects the data sockets of two live comms crosswise, end to end: from the
//! beginning, between the steps of their exchange of keys, and in the middle of the stream.
//!
//! These comms have one secret, and the attacker knows where each of them listens. Comms of
//! sessions differ more: each has a secret that comes from its own link, and says on that link,
//! encrypted, where it listens. So what does not connect here connects between sessions even less,
//! and this is the test for those, too.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use tcpx_softnet::{FailureReason, last_failure};
use tcpx_sys::{NetHandle, PTR_HOST};
use tcpx_testkit::attacker::intercept;
use tcpx_testkit::{eventually, in_own_process};

use crate::encryption::{SECRET, address, lead_to};
use crate::support::{self, Memory, Net, PluginPtr, Receiver, Sender, blank_device};

/// Bytes of every message: records on both data sockets.
const BYTES: usize = 600_000;
/// Bytes on a data socket after which its cables are exchanged: of the end that dialled, and of the
/// one that listens.
type Moment = [usize; 2];

const AT_ONCE: Moment = [0, 0];
/// The listener answers when the offer has come, too.
const BEHIND_THE_HELLO: Moment = [48, 0];
/// What follows is encrypted.
const BEHIND_THE_KEYS: Moment = [48 + 65, 24 + 65];
const NEVER: Moment = [usize::MAX; 2];
/// What no message has at any place.
const UNTOUCHED: u8 = 0xee;

/// Sockets of both comms on their way through the attacker.
#[derive(Default)]
struct Sockets {
    /// By comm and number: the end that dialled, and the one that listens. Number 0 is the control
    /// socket.
    known: HashMap<(usize, usize), [TcpStream; 2]>,
    /// Whether the dialling end of a comm has given up.
    is_over: [bool; 2],
}

/// What the attacker does with them, and when.
struct Crossing {
    moment: [AtomicUsize; 2],
    sockets: Mutex<Sockets>,
    has_changed: Condvar,
}

impl Crossing {
    fn new(moment: Moment) -> Arc<Self> {
        let (moment, sockets) = (moment.map(AtomicUsize::new), Mutex::default());
        Arc::new(Self { moment, sockets, has_changed: Condvar::new() })
    }

    /// Notes that the dialling end of a comm has given up: it dials no more sockets.
    fn end(&self, comm: usize) {
        self.sockets.lock().expect("no panic").is_over[comm] = true;
        self.has_changed.notify_all();
    }

    /// Exchanges the cables now.
    fn cross(&self) {
        self.moment.iter().for_each(|bytes| bytes.store(0, Ordering::SeqCst));
    }

    /// Returns where the next bytes of a socket go, and how many of `bytes` go there. `said`: bytes
    /// of its stream before them. `way` 0: to the end that listens. `None`: the socket that they
    /// would go to will never be there.
    fn target(
        &self,
        (comm, number): (usize, usize),
        way: usize,
        said: usize,
        bytes: usize,
    ) -> Option<(TcpStream, usize)> {
        let moment = if number == 0 { usize::MAX } else { self.moment[way].load(Ordering::SeqCst) };
        let (comm, bytes) = match moment.checked_sub(said) {
            None | Some(0) => (1 - comm, bytes),
            Some(left) => (comm, left.min(bytes)),
        };
        let sockets = self.sockets.lock().expect("no panic");
        let is_awaited =
            |it: &mut Sockets| !it.known.contains_key(&(comm, number)) && !it.is_over[comm];
        let sockets = self.has_changed.wait_while(sockets, is_awaited).expect("no panic");
        let target = sockets.known.get(&(comm, number))?[1 - way].try_clone();
        Some((target.expect("a copy"), bytes))
    }
}

/// Stands between the ends of comm number `comm`. Returns its own address.
fn stand_between(comm: usize, listener: SocketAddrV4, crossing: &Arc<Crossing>) -> SocketAddrV4 {
    let crossing = Arc::clone(crossing);
    let dial = move |_: &TcpStream| TcpStream::connect(listener);
    intercept(dial, move |number, ends| {
        let copies = ends.each_ref().map(|socket| socket.try_clone().expect("a copy"));
        crossing.sockets.lock().expect("no panic").known.insert((comm, number), copies);
        crossing.has_changed.notify_all();
        for (way, from) in ends.into_iter().enumerate() {
            let crossing = Arc::clone(&crossing);
            thread::spawn(move || pass(from, (comm, number), way, &crossing));
        }
    })
}

/// Passes bytes on until an end closes.
fn pass(mut from: TcpStream, socket: (usize, usize), way: usize, crossing: &Crossing) {
    let (mut buffer, mut said) = (vec![0; 1 << 16], 0);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            let Some((mut to, bytes)) = crossing.target(socket, way, said, rest.len()) else {
                let _ = from.shutdown(Shutdown::Both);
                return;
            };
            if to.write_all(&rest[..bytes]).is_err() {
                let _ = from.shutdown(Shutdown::Both);
                return;
            }
            said += bytes;
            rest = &rest[bytes..];
        }
    }
    if let Some((to, _)) = crossing.target(socket, way, said, 1) {
        let _ = to.shutdown(Shutdown::Write);
    }
}

/// One comm on its way to being connected: its listener, the handle that leads through the
/// attacker, and both ends' answers.
struct Attempt {
    listen: PluginPtr,
    direct: NetHandle,
    handle: NetHandle,
    sent: (i32, PluginPtr),
    received: (i32, PluginPtr, tcpx_sys::NetDeviceHandle),
}

impl Attempt {
    fn through(net: Net, comm: usize, crossing: &Arc<Crossing>) -> Self {
        let (direct, listen) = net.listen_with(Some(SECRET));
        let mut handle = direct;
        lead_to(&mut handle, stand_between(comm, address(&direct), crossing));
        Self::of(listen, direct, handle)
    }

    fn of(listen: PluginPtr, direct: NetHandle, handle: NetHandle) -> Self {
        let received = (0, ptr::null_mut(), blank_device());
        Self { listen, direct, handle, sent: (0, ptr::null_mut()), received }
    }

    /// Goes on connecting. Returns whether the dialling end has its final answer and, where that is
    /// a comm, the listening end too.
    fn advance(&mut self, net: Net) -> bool {
        if self.sent.0 == 0 && self.sent.1.is_null() {
            self.sent = net.connect_with(&mut self.handle, Some(SECRET));
        }
        let (rc, comm, device) = &mut self.received;
        if *rc == 0 && comm.is_null() {
            (*rc, *comm) = net.accept(self.listen, device);
        }
        self.sent.0 != 0 || !self.sent.1.is_null() && !self.received.1.is_null()
    }

    fn into_ends(self, net: Net) -> (Sender, Receiver) {
        let (_, comm, device) = self.received;
        let sender = Sender { net, comm: self.sent.1 };
        (sender, Receiver::new(net, comm, device.handle.cast()))
    }
}

/// Connects comms at the same time, in one thread.
fn connect(net: Net, attempts: &mut [Attempt], crossing: &Crossing) {
    eventually(|| {
        let mut is_over = true;
        for (comm, attempt) in attempts.iter_mut().enumerate() {
            is_over &= attempt.advance(net);
            if attempt.sent.0 != 0 {
                crossing.end(comm);
            }
        }
        is_over.then_some(())
    });
}

/// Moves a message. Returns the code of the receive; what came must be a part of what was sent.
fn message(net: Net, sender: &Sender, receiver: &mut Receiver, seed: usize) -> i32 {
    let mut memory = Memory::patterned(BYTES, seed);
    let mut target = Memory::new(BYTES);
    target.fill(UNTOUCHED);
    let (_, from) = net.register(sender.comm, memory.data(), BYTES, PTR_HOST);
    let (_, into) = net.register(receiver.comm, target.data(), BYTES, PTR_HOST);
    let (_, send) = net.isend(sender.comm, memory.data(), BYTES as i32, from);
    let (_, recv) = receiver.post(target.data(), BYTES, into);
    let mut is_sent = false;
    let (rc, done) = eventually(|| {
        is_sent = is_sent || net.test(send) != (0, 0);
        let (rc, done) = net.test(recv);
        (rc != 0 || done == 1 && is_sent).then_some((rc, done))
    });
    if rc == 0 {
        assert!(done == 1 && target.bytes() == memory.bytes(), "a wrong byte was delivered");
        assert_eq!(net.consumed(receiver.comm, recv), 0);
    } else {
        assert!(matches!(last_failure(), Some(FailureReason::Tampered)), "{:?}", last_failure());
        let came = target.bytes().iter().zip(memory.bytes());
        let wrong = came.filter(|(came, sent)| **came != UNTOUCHED && came != sent).count();
        assert_eq!(wrong, 0, "wrong bytes were delivered");
    }
    // What a failed end has not released is leaked: it may still be in use.
    if rc != 0 {
        std::mem::forget((memory, target));
    }
    rc
}

/// A comm that the attacker has nothing to do with.
fn bystander(net: Net) -> (Sender, Receiver) {
    net.pair_with(Some(SECRET))
}

#[test]
fn sockets_that_are_crossed_while_keys_are_made_connect_nothing() {
    in_own_process!();
    let net = support::net(|settings| settings.sockets = 2);
    let (sender, mut receiver) = bystander(net);
    for (seed, moment) in [AT_ONCE, BEHIND_THE_HELLO].into_iter().enumerate() {
        let crossing = Crossing::new(moment);
        let mut attempts = [0, 1].map(|comm| Attempt::through(net, comm, &crossing));
        connect(net, &mut attempts, &crossing);
        for Attempt { listen, direct, sent, received, .. } in attempts {
            assert!(sent.0 != 0 && sent.1.is_null() && received.1.is_null(), "{moment:?}");
            // Its own peer still reaches it, where no attacker is on the way, once the listener has
            // noticed that the other one is gone.
            let again = eventually(|| {
                let mut again = [Attempt::of(listen, direct, direct)];
                connect(net, &mut again, &Crossing::new(NEVER));
                let [again] = again;
                (again.sent.0 == 0).then_some(again)
            });
            let (sender, mut receiver) = again.into_ends(net);
            assert_eq!(message(net, &sender, &mut receiver, seed), 0);
            let closed =
                (net.close(sender.comm), net.close(receiver.comm), net.close_listen(listen));
            assert_eq!(closed, (0, 0, 0));
        }
        assert_eq!(message(net, &sender, &mut receiver, 1), 0);
    }
}

#[test]
fn sockets_that_are_crossed_later_end_these_comms_alone() {
    in_own_process!();
    let net = support::net(|settings| settings.sockets = 2);
    let (sender, mut receiver) = bystander(net);
    for is_midway in [false, true] {
        let crossing = Crossing::new(if is_midway { NEVER } else { BEHIND_THE_KEYS });
        let mut attempts = [0, 1].map(|comm| Attempt::through(net, comm, &crossing));
        connect(net, &mut attempts, &crossing);
        assert!(attempts.iter().all(|attempt| !attempt.sent.1.is_null()), "midway: {is_midway}");
        let listens = attempts.each_ref().map(|attempt| attempt.listen);
        let mut ends = attempts.map(|attempt| attempt.into_ends(net));
        if is_midway {
            for (sender, receiver) in &mut ends {
                assert_eq!(message(net, sender, receiver, 2), 0);
            }
            crossing.cross();
        }
        // Both send first: each receives what the other has encrypted.
        let mut memory = Memory::patterned(BYTES, 3);
        for (sender, _) in &ends {
            let (_, mhandle) = net.register(sender.comm, memory.data(), BYTES, PTR_HOST);
            let (rc, send) = net.isend(sender.comm, memory.data(), BYTES as i32, mhandle);
            assert_eq!(rc, 0);
            let _ = net.test(send);
        }
        for (sender, receiver) in &mut ends {
            assert_eq!(message(net, sender, receiver, 3), 2, "midway: {is_midway}");
        }
        assert_eq!(message(net, &sender, &mut receiver, 4), 0, "the bystander goes on");
        for ((sender, receiver), listen) in ends.into_iter().zip(listens) {
            let closed =
                (net.close(sender.comm), net.close(receiver.comm), net.close_listen(listen));
            assert_eq!(closed, (0, 0, 0));
        }
    }
}
