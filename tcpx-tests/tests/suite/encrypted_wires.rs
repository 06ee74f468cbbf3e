//! All sockets of two sessions: a listener on every wire of their host hears nothing that they
//! move, and an attacker on the way of their data sockets ends that peer alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tcpx_core::Encryption::{Off, Require};
use tcpx_core::{
    Encryption, LinkBytes, MemoryId, MemoryRange, MemoryType, OperationKind, Post, RemoteRange,
    Session, SessionOptions,
};
use tcpx_testkit::attacker::{Attacker, Direction};
use tcpx_testkit::wiretap::{Heard, Wiretap};
use tcpx_testkit::{PATIENCE, Tampering, eventually, in_own_process};
use tcpx_tests::redirection::{dial_original, redirect};
use tcpx_tests::sessions::{self, contents, export, notifications, open};
use tcpx_tests::{Network, Side, has_gpu};

use crate::encrypted_ends::{LONG, SHORT, is_encrypted, message, options, write_and_read};

/// What all memory is full of.
const PAYLOAD: &[u8; 32] = b"payload-that-no-listener-may-see";
const NOTE: &[u8] = b"note-that-no-listener-may-see";
/// Names of the sessions that are listened to.
const LEFT: &str = "left-that-no-listener-may-see";
const RIGHT: &str = "right-that-no-listener-may-see";
const TAG: [u8; 8] = *b"the-tag!";
/// Inline, up to its longest; in a few chunks, and in many.
const SIZES: [usize; 4] = [SHORT, 4096, LONG, 3 << 20];
/// What an end says on a data socket before its records: a hello, and its part of the exchange of
/// keys.
const BEFORE_RECORDS: [usize; 2] = [48 + 65, 24 + 65];

/// Memory of `bytes` bytes that are the payload, or zeros.
fn filled(session: &Session, kind: MemoryType, bytes: usize, is_payload: bool) -> MemoryId {
    let mut content = PAYLOAD.repeat(bytes.div_ceil(PAYLOAD.len()));
    content.truncate(bytes);
    if !is_payload {
        content.fill(0);
    }
    sessions::memory(session, kind, &content)
}

fn is_payload(session: &Session, memory: MemoryId, bytes: usize) -> bool {
    contents(session, memory, bytes).chunks(PAYLOAD.len()).all(|part| PAYLOAD.starts_with(part))
}

/// Moves the payload from LEFT to RIGHT.
fn send(left: &Session, right: &Session, kind: MemoryType, bytes: usize) {
    let [from, into] = [filled(left, kind, bytes, true), filled(right, kind, bytes, false)];
    let send = left.create_transfer(RIGHT).expect("it is up");
    let receive = right.create_transfer(LEFT).expect("it is up");
    let post =
        |memory| Post { memory, offset: 0, bytes: bytes as u64, tag: i64::from_le_bytes(TAG) };
    receive.post_recv(post(into)).expect("it is up");
    send.post_send(post(from)).expect("it is up");
    receive.wait(Some(PATIENCE)).expect("it is received");
    send.wait(Some(PATIENCE)).expect("it is sent");
    assert!(is_payload(right, into, bytes));
}

/// Writes the payload to RIGHT, or reads it from there.
fn operate(
    left: &Session,
    right: &Session,
    kind: MemoryType,
    bytes: usize,
    operation: OperationKind,
) {
    let is_write = operation == OperationKind::Write;
    let [local, exported] =
        [filled(left, kind, bytes, is_write), filled(right, kind, bytes, !is_write)];
    let key = export(right, exported);
    let ours = [MemoryRange { memory: local, offset: 0, bytes: bytes as u64 }];
    let theirs = [RemoteRange { key: &key, offset: 0, bytes: bytes as u64 }];
    let operation = left.prepare(RIGHT, operation, &ours, &theirs).expect("it fits");
    operation.post(Some(NOTE)).expect("it is not under way");
    operation.wait(Some(PATIENCE)).expect("it is served");
    assert_eq!(notifications(right, 1)[0].bytes, NOTE);
    assert!(is_payload(left, local, bytes) && is_payload(right, exported, bytes));
}

/// Returns what crosses all wires while this is done.
fn heard_of(work: impl FnOnce()) -> Heard {
    let tap = Wiretap::begin().expect("root may listen");
    work();
    tap.end().expect("root may listen")
}

/// Has two sessions on one host move memory of both kinds in all ways and sizes, and listens. Each
/// part of what is said is heard if, and only if, the sessions do not encrypt.
fn listen_to(options: &SessionOptions, encryption: Encryption) {
    let is_clear = encryption == Off;
    for way in [LinkBytes::Most(0), LinkBytes::Most(u64::MAX)] {
        let options = options.clone().encryption(encryption).link_bytes(way);
        let [left, right] = [LEFT, RIGHT].map(|name| open(options.clone().name(name)));
        let heard = heard_of(|| sessions::join((&left, LEFT), (&right, RIGHT)));
        for name in [LEFT, RIGHT] {
            assert_eq!(heard.has(name.as_bytes()), is_clear, "{encryption} {way:?}: {name}");
        }
        assert_eq!(is_encrypted(&left) && is_encrypted(&right), !is_clear);
        for kind in [MemoryType::Host, MemoryType::Device] {
            for bytes in SIZES {
                let name = format!("{encryption} {way:?} {kind:?} {bytes}");
                let check = |heard: &Heard, parts: &[&[u8]]| {
                    assert!(heard.bytes() > bytes, "{name}: {} bytes were heard", heard.bytes());
                    for part in parts {
                        let text = String::from_utf8_lossy(part);
                        assert_eq!(heard.has(part), is_clear, "{name}: {text}");
                    }
                };
                check(&heard_of(|| send(&left, &right, kind, bytes)), &[PAYLOAD, &TAG]);
                for operation in [OperationKind::Write, OperationKind::Read] {
                    let heard = heard_of(|| operate(&left, &right, kind, bytes, operation));
                    check(&heard, &[PAYLOAD, NOTE]);
                }
            }
        }
        sessions::drop_all([left, right]);
    }
}

/// Without encryption all of it is heard: the listener is not deaf.
#[test]
fn a_listener_on_every_wire_hears_nothing_of_host_and_emulated_memory() {
    in_own_process!();
    let Some(network) = Network::lay_or_skip() else { return };
    network.at(Side::Left, || [Off, Require].map(|it| listen_to(&sessions::lively(), it)));
}

#[test]
fn a_listener_on_every_wire_hears_nothing_of_gpu_memory() {
    in_own_process!();
    if !has_gpu() {
        return;
    }
    let Some(network) = Network::lay_or_skip() else { return };
    let options = sessions::lively().gpu(Some(0));
    network.at(Side::Left, || [Off, Require].map(|it| listen_to(&options, it)));
}

/// Two sessions whose data sockets an attacker passes on, and a third one, whose sockets too.
struct AttackedSessions {
    left: Session,
    right: Session,
    witness: Session,
    /// The next long record is the one.
    is_armed: Arc<AtomicBool>,
}

impl AttackedSessions {
    fn new(network: &Network, what: Tampering) -> Self {
        let way = options(Require).link_bytes(LinkBytes::Most(0));
        let [left, right, witness] = [(); 3].map(|()| open(way.clone()));
        let is_armed = Arc::new(AtomicBool::new(false));
        let armed = Arc::clone(&is_armed);
        let attacker = Attacker::on_the_way(dial_original, BEFORE_RECORDS, move |place, said| {
            let is_payload =
                place.direction == Direction::ToListener && place.record.is_some_and(|it| it > 0);
            let is_it = is_payload && said.len() > PAYLOAD.len() * 100;
            if is_it && armed.swap(false, Ordering::SeqCst) {
                return what.apply(said);
            }
            (said, Vec::new())
        });
        let info = right.listen().expect("listen");
        let link = tcpx_tests::control_addresses(&info)[0].port();
        redirect(network, Side::Left, link, attacker.address()).expect("nft");
        sessions::join_by((&witness, "witness"), (&right, "right"), &info);
        sessions::join_by((&left, "left"), (&right, "right"), &info);
        Self { left, right, witness, is_armed }
    }

    /// Right's other peer has not noticed anything, and left can come back.
    fn goes_on(&self) {
        let (left, right, witness) =
            ((&self.left, "left"), (&self.right, "right"), (&self.witness, "witness"));
        write_and_read(right, witness, LONG);
        message(witness, right, LONG, 8);
        std::thread::scope(|scope| {
            let accepted = scope.spawn(|| self.right.accept("left"));
            self.left.connect("right").expect("left connects again");
            accepted.join().expect("no panic").expect("right accepts");
        });
        message(left, right, LONG, 9);
    }
}

#[test]
fn a_tampered_record_of_a_data_socket_ends_that_peer_only() {
    in_own_process!();
    let Some(network) = Network::with_filters_or_skip() else { return };
    network.at(Side::Left, || Tampering::ALL.map(|what| tamper_with_data(&network, what)));
}

fn tamper_with_data(network: &Network, what: Tampering) {
    const BYTES: usize = 3 << 20;
    let attacked = AttackedSessions::new(network, what);
    let AttackedSessions { left, right, .. } = &attacked;
    message((left, "left"), (right, "right"), LONG, 1);
    let [from, into] = [
        filled(left, MemoryType::Host, BYTES, true),
        filled(right, MemoryType::Host, BYTES, false),
    ];
    let send = left.create_transfer("right").expect("it is up");
    let receive = right.create_transfer("left").expect("it is up");
    let post = |memory| Post { memory, offset: 0, bytes: BYTES as u64, tag: 1 };
    attacked.is_armed.store(true, Ordering::SeqCst);
    receive.post_recv(post(into)).expect("it is up");
    send.post_send(post(from)).expect("it is up");
    let error = receive.wait(Some(PATIENCE)).expect_err("a record was changed");
    assert!(!attacked.is_armed.load(Ordering::SeqCst));
    let id = error.id().map(|id| id.to_string());
    assert_eq!(id.as_deref(), Some("TCPX-760"), "{what:?}: {error}");
    // All may have left its end before.
    let _ = send.wait(Some(PATIENCE));
    drop((send, receive));
    // Whatever is there is what was sent to that place.
    let came = eventually(|| {
        let mut came = vec![1; BYTES];
        right.read_memory(into, 0, &mut came).ok().map(|()| came)
    });
    let places = came.iter().zip(PAYLOAD.iter().cycle());
    let wrong = places.filter(|(came, sent)| **came != 0 && came != sent).count();
    let untouched = came.iter().filter(|byte| **byte == 0).count();
    assert!(wrong == 0 && untouched > 0, "{what:?}: {wrong} wrong, {untouched} untouched");
    attacked.goes_on();
}
