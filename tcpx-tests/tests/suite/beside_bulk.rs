//! Traffic beside a long read or write over a slow link: notifications, messages, the withdrawal of
//! a receive, the cancel of another write, and the goodbye. No peer is taken for silent. The delay
//! of each is counted in bytes of the bulk that arrive until it has happened, not in time.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use tcpx_core::{
    Error, LinkBytes, MemoryId, MemoryRange, MemoryType, Operation, OperationKind, Post,
    RemoteRange, Session, SessionOptions,
};
use tcpx_testkit::{PATIENCE, in_own_process, until};
use tcpx_tests::sessions::{export, join_by, lively, memory, notifications, open};
use tcpx_tests::{Network, Side};

const ROUND_TRIP: Duration = Duration::from_millis(20);
/// Most bytes of the bulk that may be before a message beside it, and before the answer: what
/// the kernel and the link keep, a part, and what arrives before a busy machine looks.
const MOST_BEFORE: u64 = 768 << 10;
/// Bytes of a message that travels on the link.
const LITTLE: u64 = 1000;

/// How fast the link is, and what passes beside how much.
struct Case {
    bytes_per_second: u64,
    bulk_bytes: u64,
    peer_timeout: Duration,
}

/// Two sessions of two hosts. The left one reads or writes memory of the right one.
struct Bulk {
    left: Session,
    right: Session,
    operation: Operation,
    /// A write that has not begun.
    other: Operation,
    kind: OperationKind,
    bytes: u64,
}

fn options(case: &Case, name: &str, address: [u8; 4]) -> SessionOptions {
    lively()
        .name(name)
        .listen(SocketAddr::from((address, 0)))
        .advertise(vec![address.into()])
        .peer_timeout(Some(case.peer_timeout))
        .link_bytes(LinkBytes::Most(u64::MAX))
}

/// Does something on one of two hosts. The threads of sessions that it opens stay there.
fn on<T: Send>(network: &Network, side: Side, work: impl FnOnce() -> T + Send) -> T {
    let there = || {
        network.enter(side).expect("the namespace is there");
        work()
    };
    thread::scope(|scope| scope.spawn(there).join().expect("no panic"))
}

/// An operation of the left session on as many bytes of the right one.
fn prepare(left: &Session, right: &Session, kind: OperationKind, bytes: u64) -> Operation {
    let content = vec![7; bytes as usize];
    let [here, there] = [left, right].map(|it| memory(it, MemoryType::Host, &content));
    let key = export(right, there);
    let local = [MemoryRange { memory: here, offset: 0, bytes }];
    let remote = [RemoteRange { key: &key, offset: 0, bytes }];
    left.prepare("right", kind, &local, &remote).expect("it fits")
}

impl Bulk {
    fn begin(network: &Network, case: &Case, kind: OperationKind) -> Self {
        let of = |name, number| options(case, name, [10, 231, 0, number]);
        let left = on(network, Side::Left, || open(of("left", 1)));
        let (right, info) = on(network, Side::Right, || {
            let right = open(of("right", 2));
            let info = right.listen().expect("it listens");
            (right, info)
        });
        on(network, Side::Left, || join_by((&left, "left"), (&right, "right"), &info));
        let [operation, other] =
            [kind, OperationKind::Write].map(|kind| prepare(&left, &right, kind, case.bulk_bytes));
        operation.post(None).expect("it is not under way");
        let bulk = Self { left, right, operation, other, kind, bytes: case.bulk_bytes };
        until("some bytes have come", || bulk.arrived() > 0);
        bulk
    }

    /// The end that sends the bytes, with its name, and the other one.
    fn ends(&self) -> [(&Session, &'static str); 2] {
        let [left, right] = [(&self.left, "left"), (&self.right, "right")];
        match self.kind {
            OperationKind::Write => [left, right],
            OperationKind::Read => [right, left],
        }
    }

    /// Bytes of it that have arrived in all.
    fn arrived(&self) -> u64 {
        self.ends()[1].0.stats().total.one_sided.link_bytes_received
    }

    /// Something is done beside it, and no more arrives until it has happened than may be before
    /// it.
    fn beside(&self, what: &str, happens: impl FnOnce([(&Session, &'static str); 2])) {
        let before = self.arrived();
        happens(self.ends());
        let passed = self.arrived() - before;
        println!("{what}: {} KiB of the bulk were before it", passed >> 10);
        assert!(passed <= MOST_BEFORE, "{what}: {passed} bytes of the bulk were before it");
        let is_under_way = self.arrived() < self.bytes;
        assert!(is_under_way, "{what}: the bulk was too short");
    }
}

fn little(session: &Session) -> MemoryId {
    memory(session, MemoryType::Host, &[1; LITTLE as usize])
}

fn post(memory: MemoryId, tag: i64) -> Post {
    Post { memory, offset: 0, bytes: LITTLE, tag }
}

fn notify([from, to]: [(&Session, &'static str); 2]) {
    from.0.notify(to.1, b"beside").expect("there is room");
    let notes = notifications(to.0, 1);
    assert_eq!((notes.len(), &notes[0].bytes[..]), (1, &b"beside"[..]));
}

fn send([from, to]: [(&Session, &'static str); 2]) {
    let receive = to.0.create_transfer(from.1).expect("they are connected");
    receive.post_recv(post(little(to.0), 1)).expect("it fits");
    let send = from.0.create_transfer(to.1).expect("they are connected");
    send.post_send(post(little(from.0), 1)).expect("it fits");
    receive.wait(Some(PATIENCE)).expect("it comes");
    send.wait(Some(PATIENCE)).expect("it goes");
}

/// The receive of the end that sends the bulk: it is announced and withdrawn on the same way.
fn withdraw([from, to]: [(&Session, &'static str); 2]) {
    let receive = from.0.create_transfer(to.1).expect("they are connected");
    receive.post_recv(post(little(from.0), 2)).expect("it fits");
    receive.cancel();
    let ended = receive.wait(Some(PATIENCE)).expect_err("nothing is sent");
    assert!(matches!(ended, Error::Cancelled), "{ended}");
}

fn pass_beside(case: &Case, kind: OperationKind) {
    let Some(network) = Network::slow_or_skip(ROUND_TRIP, case.bytes_per_second) else { return };
    let began = Instant::now();
    let bulk = Bulk::begin(&network, case, kind);
    bulk.beside("a notification", notify);
    bulk.beside("a message", send);
    bulk.beside("a receive that is withdrawn", withdraw);
    bulk.beside("another write that is cancelled", |_| {
        bulk.other.post(None).expect("it is not under way");
        bulk.other.cancel().expect("no fork");
        let ended = bulk.other.wait(Some(PATIENCE)).expect_err("it was given up");
        assert!(matches!(ended, Error::Cancelled), "{ended}");
    });
    // No frame but keep-alives is sent, for longer than a peer may be silent.
    let waited = bulk.operation.wait(Some(2 * case.peer_timeout));
    assert!(matches!(waited, Err(Error::Deadline { .. })), "{waited:?}");
    // What has begun is finished before the goodbye.
    thread::scope(|scope| {
        let [from, to] = bulk.ends();
        scope.spawn(move || from.0.disconnect(to.1).expect("the other end answers"));
        bulk.operation.wait(Some(PATIENCE)).expect("no peer is taken for silent");
        let answered = to.0.disconnect(from.1);
        assert!(matches!(answered, Ok(()) | Err(Error::UnknownPeer { .. })), "{answered:?}");
    });
    assert!(bulk.arrived() >= case.bulk_bytes);
    println!("{kind}: {:?}", began.elapsed());
}

/// 5 Mbit/s.
const FEW: Case = Case {
    bytes_per_second: 625_000,
    bulk_bytes: 4 << 20,
    peer_timeout: Duration::from_millis(1500),
};

/// 1 Mbit/s.
const MANY: Case =
    Case { bytes_per_second: 125_000, bulk_bytes: 4 << 20, peer_timeout: Duration::from_secs(4) };

#[test]
fn everything_passes_a_write_over_a_slow_link() {
    in_own_process!();
    pass_beside(&FEW, OperationKind::Write);
}

#[test]
#[ignore = "deep: network namespaces"]
fn everything_passes_a_read_over_a_slow_link() {
    in_own_process!();
    pass_beside(&FEW, OperationKind::Read);
}

#[test]
#[ignore = "deep: half a minute over a link of 1 Mbit/s"]
fn everything_passes_a_write_over_a_slower_link() {
    in_own_process!();
    pass_beside(&MANY, OperationKind::Write);
}

#[test]
#[ignore = "deep: half a minute over a link of 1 Mbit/s"]
fn everything_passes_a_read_over_a_slower_link() {
    in_own_process!();
    pass_beside(&MANY, OperationKind::Read);
}
