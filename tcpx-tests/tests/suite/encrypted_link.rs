#![allow(unsafe_code)]
//! Control links that their ends encrypt. All that travels on such a link arrives, and a listener
//! on the way sees none of it. A change on the way ends that peer, and nothing else.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tcpx_core::Encryption::{Off, Prefer, Require};
use tcpx_core::{
    Access, Departure, Device, Encryption, EncryptionProblem, Error, ExportOptions, LinkBytes,
    MemoryAddress, MemoryId, MemoryRange, MemoryType, OperationKind, PluginChoice, Post,
    RemoteAccess, RemoteRange, Session, SessionOptions, SettingProblem,
};
use tcpx_testkit::PATIENCE;
use tcpx_tests::proxy::{Direction, LinkProxy, Tampering, kind};
use tcpx_tests::sessions::{
    self, connect, disconnect_both, export, join_by, lively, notifications, open,
};

const SETTINGS: [Encryption; 3] = [Off, Prefer, Require];
/// In parts on the link, or in several chunks on the channels.
const LONG: usize = 300_000;
/// On the link, with its header.
const SHORT: usize = 1000;

fn options(encryption: Encryption) -> SessionOptions {
    lively().encryption(encryption)
}

fn pair(left: Encryption, right: Encryption) -> [Session; 2] {
    let [left, right] = [left, right].map(|encryption| open(options(encryption)));
    connect(&left, &right);
    [left, right]
}

fn memory(session: &Session, byte: u8, bytes: usize) -> MemoryId {
    session.register_buffer(vec![byte; bytes.max(1)], Access::ReadWrite).expect("memory")
}

fn is_full_of(session: &Session, memory: MemoryId, byte: u8, bytes: usize) -> bool {
    let mut contents = vec![!byte; bytes];
    session.read_memory(memory, 0, &mut contents).expect("nothing uses it");
    contents == vec![byte; bytes]
}

/// Moves a message of `bytes` bytes, each of them `byte`.
fn message(from: (&Session, &str), to: (&Session, &str), bytes: usize, byte: u8) {
    let [sent, received] = [memory(from.0, byte, bytes), memory(to.0, !byte, bytes)];
    let send = from.0.create_transfer(to.1).expect("it is up");
    let receive = to.0.create_transfer(from.1).expect("it is up");
    let post = |memory| Post { memory, offset: 0, bytes: bytes as u64, tag: 7 };
    send.post_send(post(sent)).expect("it is up");
    receive.post_recv(post(received)).expect("it is up");
    send.wait(Some(PATIENCE)).expect("it is sent");
    receive.wait(Some(PATIENCE)).expect("it is received");
    assert!(is_full_of(to.0, received, byte, bytes), "{bytes} bytes");
}

/// Writes to memory of the peer and reads it back.
fn write_and_read(here: (&Session, &str), there: (&Session, &str), bytes: usize) {
    let exported = memory(there.0, 0, bytes);
    let key = export(there.0, exported);
    let [written, read] = [memory(here.0, 3, bytes), memory(here.0, 4, bytes)];
    for (kind, local) in [(OperationKind::Write, written), (OperationKind::Read, read)] {
        let range = MemoryRange { memory: local, offset: 0, bytes: bytes as u64 };
        let remote = RemoteRange { key: &key, offset: 0, bytes: bytes as u64 };
        let operation = here.0.prepare(there.1, kind, &[range], &[remote]).expect("it fits");
        operation.post(Some(b"note")).expect("it is not under way");
        operation.wait(Some(PATIENCE)).expect("it is served");
        assert!(is_full_of(here.0, local, 3, bytes));
        take_note(there.0);
    }
    assert!(is_full_of(there.0, exported, 3, bytes));
}

fn take_note(session: &Session) {
    assert_eq!(notifications(session, 1)[0].bytes, b"note");
}

fn is_encrypted(session: &Session) -> bool {
    session.stats().peers.iter().all(|peer| peer.link_encrypted)
}

/// A program may write what it has exported at any time, also while it is sent: what is sent is
/// encrypted, and not what was there before.
#[test]
fn memory_written_during_a_send_is_no_tampering() {
    let exported: Vec<AtomicU64> = (0..LONG / 8).map(|_| AtomicU64::new(0)).collect();
    let [left, right] = pair(Require, Require);
    let address = MemoryAddress::from_ptr(exported.as_ptr().cast_mut());
    let bytes = (exported.len() * 8) as u64;
    // SAFETY: the sessions end before the memory does. Its bytes may have any value at any time.
    let lent =
        unsafe { right.register_memory(address, bytes, MemoryType::Host, Access::ReadWrite) };
    let key = export(&right, lent.expect("it is memory"));
    let range = MemoryRange { memory: memory(&left, 0, LONG), offset: 0, bytes };
    let remote = RemoteRange { key: &key, offset: 0, bytes };
    let read = left.prepare("right", OperationKind::Read, &[range], &[remote]).expect("it fits");
    let is_over = AtomicBool::new(false);
    let reads = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                exported.iter().for_each(|word| {
                    word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed)
                });
            }
        });
        let reads = (0..100).try_for_each(|_| {
            read.post(None)?;
            read.wait(Some(PATIENCE))
        });
        is_over.store(true, Ordering::Relaxed);
        reads
    });
    reads.expect("they are served");
}

#[test]
fn everything_travels_between_settings_that_fit_and_nothing_between_others() {
    for (left, right) in SETTINGS.iter().flat_map(|left| SETTINGS.map(|right| (*left, right))) {
        let name = format!("{left} and {right}");
        if matches!((left, right), (Off, Require) | (Require, Off)) {
            refused(left, right);
            continue;
        }
        let [left_session, right_session] = pair(left, right);
        let ends = [(&left_session, "left"), (&right_session, "right")];
        for end in ends {
            assert_eq!(is_encrypted(end.0), left != Off && right != Off, "{name}");
        }
        for [from, to] in [ends, [ends[1], ends[0]]] {
            message(from, to, 0, 1);
            message(from, to, SHORT, 1);
            message(from, to, LONG, 2);
            write_and_read(from, to, SHORT);
            write_and_read(from, to, LONG);
        }
        left_session.disconnect("right").expect("both say goodbye");
    }
}

/// A transport that has no way to encrypt: a session that must is not made, and one that prefers to
/// says to its peers that it does not.
#[test]
fn a_transport_that_cannot_encrypt_is_never_taken_for_one_that_does() {
    let over_another = |encryption| {
        let plugin = PluginChoice::Path(tcpx_tests::null::plugin());
        Session::new(options(encryption).plugin(plugin).preflight(false))
    };
    let error = over_another(Require).expect_err("it cannot");
    let is_typed = |error: &Error| {
        matches!(error, Error::Setting { problem: SettingProblem::CannotEncrypt { .. }, .. })
    };
    assert!(is_typed(&error) && error.to_string().ends_with("[TCPX-744]"), "{error}");
    let prefers = over_another(Prefer).expect("it goes without");
    let requires = open(options(Require));
    let info = prefers.listen().expect("listen");
    requires.load_remote_conn_info("plain", &info).expect("own bytes load");
    let error = requires.connect("plain").expect_err("it would not be encrypted").to_string();
    assert!(error.contains("encryption = require here, off there"), "{error}");
}

/// Two sessions whose settings contradict each other: the one that connects says nothing.
fn refused(left: Encryption, right: Encryption) {
    let [left_session, right_session] = [left, right].map(|encryption| open(options(encryption)));
    let info = right_session.listen().expect("listen");
    let proxy = LinkProxy::of_records(tcpx_tests::control_addresses(&info)[0]);
    let info = tcpx_tests::with_address(&info, Ipv4Addr::LOCALHOST, proxy.address().port());
    left_session.load_remote_conn_info("right", &info).expect("own bytes load");
    let error = left_session.connect("right").expect_err("the settings contradict each other");
    let Error::Encryption { peer, problem: EncryptionProblem::Mismatch(_) } = &error else {
        panic!("{error}");
    };
    assert_eq!(peer, "right");
    let text = error.to_string();
    assert!(text.contains(&format!("encryption = {left} here, {right} there")), "{text}");
    assert!(text.ends_with("[TCPX-741]"), "{text}");
    for kind in [kind::HELLO, kind::OPENING, kind::TLS] {
        assert!(proxy.passed(Direction::ToListener, kind).is_empty(), "{text}");
    }
}

/// Names, tags, payload, notes and keys cross in clear without encryption, and not with it.
#[test]
fn a_listener_on_the_way_sees_nothing_of_what_is_said() {
    for encryption in [Off, Require] {
        let everything_on_link = |name| {
            let options = options(encryption).link_bytes(LinkBytes::Most(u64::MAX));
            open(options.name(name).eager_bytes(65_536))
        };
        let [left, right] = ["left-says-this-name", "right-says-this-name"].map(everything_on_link);
        let info = right.listen().expect("listen");
        let proxy = LinkProxy::of_records(tcpx_tests::control_addresses(&info)[0]);
        let info = tcpx_tests::with_address(&info, Ipv4Addr::LOCALHOST, proxy.address().port());
        join_by((&left, "left-says-this-name"), (&right, "right-says-this-name"), &info);
        message((&left, "left-says-this-name"), (&right, "right-says-this-name"), SHORT, 0x5a);
        write_and_read((&left, ""), (&right, "right-says-this-name"), LONG);
        let passed = proxy.passed_bytes();
        let finds = |part: &[u8]| passed.windows(part.len()).any(|bytes| bytes == part);
        for part in
            [&b"says-this-name"[..], &[0x5a; 16][..], &[3; 16][..], b"note", &[7, 0, 0, 0, 0, 0, 0]]
        {
            assert_eq!(finds(part), encryption == Off, "{encryption}: {part:?}");
        }
    }
}

#[test]
fn reads_and_writes_travel_on_the_link_and_on_channels() {
    for way in [LinkBytes::Most(0), LinkBytes::Most(u64::MAX)] {
        let [left, right] = sessions::pair(options(Require).link_bytes(way));
        write_and_read((&left, "left"), (&right, "right"), 3_000_000);
        let on_link = right.stats().total.one_sided.link_bytes_received;
        assert_eq!(on_link > 0, way == LinkBytes::Most(u64::MAX));
    }
}

#[test]
fn many_messages_of_both_ends_pass_each_other() {
    const COUNT: usize = 3000;
    let [left, right] = pair(Require, Require);
    let ends = [(&left, "right"), (&right, "left")];
    let memories = ends.map(|(end, _)| [memory(end, 1, COUNT), memory(end, 2, COUNT)]);
    let transfers = ends.map(|(end, peer)| end.create_transfer(peer).expect("it is up"));
    for (transfer, [sent, received]) in transfers.iter().zip(memories) {
        for offset in 0..COUNT as u64 {
            let post = |memory| Post { memory, offset, bytes: 1, tag: offset as i64 };
            transfer.post_send(post(sent)).expect("it is up");
            transfer.post_recv(post(received)).expect("it is up");
        }
    }
    for transfer in &transfers {
        transfer.wait(Some(PATIENCE)).expect("all arrive");
    }
    for ((end, _), [_, received]) in ends.into_iter().zip(memories) {
        assert!(is_full_of(end, received, 1, COUNT));
    }
}

#[test]
fn a_session_reaches_itself() {
    let itself = open(options(Require).accept_all(true).name("itself"));
    let info = itself.listen().expect("listen");
    itself.load_remote_conn_info("mirror", &info).expect("own bytes load");
    itself.connect("mirror").expect("it accepts every peer");
    assert!(is_encrypted(&itself));
    write_and_read((&itself, "itself"), (&itself, "mirror"), LONG);
}

#[test]
fn groups_move_bytes_between_their_devices() {
    let group = |name| {
        Session::new(options(Require).emulated_gpus(2).name(name).all_devices(true))
            .expect("ordinary memory")
    };
    let (left, right) = (group("left"), group("right"));
    left.load_remote_conn_info("right", &right.listen().expect("listen")).expect("own bytes load");
    for (here, there) in [(Device::Host, Device::Host), (Device::Gpu(0), Device::Gpu(1))] {
        let memory = |group: &Session, device, byte| {
            let memory = group.allocate(LONG as u64, device).expect("memory");
            group.write_memory(memory, 0, &vec![byte; LONG]).expect("nothing uses it");
            memory
        };
        let [own, exported] = [memory(&left, here, 5), memory(&right, there, 6)];
        let key =
            right.export(exported, ExportOptions::new(RemoteAccess::ReadWrite)).expect("ours");
        let local = [MemoryRange { memory: own, offset: 0, bytes: LONG as u64 }];
        let remote = [RemoteRange { key: &key, offset: 0, bytes: LONG as u64 }];
        let write = left.prepare("right", OperationKind::Write, &local, &remote).expect("it fits");
        write.post(None).expect("it is not under way");
        write.wait(Some(PATIENCE)).expect("it is served");
        let mut contents = vec![0; LONG];
        right.read_memory(exported, 0, &mut contents).expect("nothing uses it");
        assert!(contents == vec![5; LONG], "{here:?} to {there:?}");
    }
}

/// Three sessions: left and right know each other through a proxy, and right has another peer.
struct ProxiedSessions {
    left: Session,
    right: Session,
    witness: Session,
    proxy: LinkProxy,
}

impl ProxiedSessions {
    fn new() -> Self {
        let [left, right, witness] = [(); 3].map(|()| open(options(Require)));
        let info = right.listen().expect("listen");
        join_by((&witness, "witness"), (&right, "right"), &info);
        let proxy = LinkProxy::of_records(tcpx_tests::control_addresses(&info)[0]);
        let port = proxy.address().port();
        let info = tcpx_tests::with_address(&info, Ipv4Addr::LOCALHOST, port);
        join_by((&left, "left"), (&right, "right"), &info);
        Self { left, right, witness, proxy }
    }

    /// The end that a direction leads to, and the other one, each with the name that the other has
    /// for it.
    fn ends(&self, direction: Direction) -> [(&Session, &'static str); 2] {
        let [left, right] = [(&self.left, "left"), (&self.right, "right")];
        match direction {
            Direction::ToListener => [right, left],
            Direction::ToConnector => [left, right],
        }
    }

    /// Right's other peer has not noticed anything, and left can come back.
    fn goes_on(&self) {
        let (right, witness) = ((&self.right, "right"), (&self.witness, "witness"));
        message(witness, right, SHORT, 8);
        write_and_read(right, witness, LONG);
        assert!(is_encrypted(&self.witness));
        self.connect_again();
        message((&self.left, "left"), right, SHORT, 9);
    }

    fn connect_again(&self) {
        thread::scope(|scope| {
            let accepted = scope.spawn(|| self.right.accept("left"));
            self.left.connect("right").expect("left connects again");
            accepted.join().expect("no panic").expect("right accepts");
        });
    }
}

/// Sends small messages until the peer has ended; waits for a receive at the other end. Returns
/// both ends' errors: that of the receiver, and that of the sender.
fn send_until_it_ends(to: (&Session, &str), from: (&Session, &str)) -> [Error; 2] {
    let [sent, received] = [memory(from.0, 1, SHORT), memory(to.0, 2, SHORT)];
    let receive = to.0.create_transfer(from.1).expect("it is up");
    // No send has this tag.
    let post = |memory, tag| Post { memory, offset: 0, bytes: SHORT as u64, tag };
    receive.post_recv(post(received, 1)).expect("it is up");
    let give_up_at = Instant::now() + PATIENCE;
    let error = loop {
        let sends = || {
            let send = from.0.create_transfer(to.1)?;
            send.post_send(post(sent, 2))?;
            // What finds no room at its receiver waits there.
            match send.wait(Some(Duration::from_millis(1))) {
                Err(Error::Deadline { .. }) => Ok(()),
                other => other,
            }
        };
        match sends() {
            Ok(()) => assert!(Instant::now() < give_up_at, "not noticed in time"),
            Err(error) => break error,
        }
    };
    [receive.wait(Some(PATIENCE)).expect_err("its peer has ended"), error]
}

#[test]
fn a_tampered_record_ends_that_peer_only() {
    for direction in [Direction::ToListener, Direction::ToConnector] {
        for what in Tampering::ALL {
            let proxied = ProxiedSessions::new();
            let [to, from] = proxied.ends(direction);
            message(from, to, SHORT, 1);
            proxied.proxy.tamper(direction, kind::RECORD, what);
            let [error, others] = send_until_it_ends(to, from);
            assert!(proxied.proxy.wait_until_tampered(PATIENCE));
            let name = format!("{what:?} {direction:?}: {error}");
            assert_eq!(error.id().map(|id| id.to_string()).as_deref(), Some("TCPX-738"), "{name}");
            let Error::PeerGone { peer, how: Departure::LinkTampered { .. }, .. } = &error else {
                panic!("{name}");
            };
            assert_eq!(peer, from.1);
            // The other end learns the reason, or finds the link closed.
            assert!(matches!(others, Error::PeerGone { .. } | Error::PeerState { .. }), "{others}");
            proxied.goes_on();
        }
    }
}

#[test]
fn records_of_an_earlier_connection_are_not_taken() {
    let proxied = ProxiedSessions::new();
    let [to, from] = proxied.ends(Direction::ToListener);
    message(from, to, SHORT, 1);
    let earlier = proxied.proxy.passed(Direction::ToListener, kind::RECORD);
    disconnect_both(&proxied.left, &proxied.right);
    proxied.connect_again();
    let receive = proxied.right.create_transfer("left").expect("it is up");
    let into = memory(&proxied.right, 1, SHORT);
    receive.post_recv(Post { memory: into, offset: 0, bytes: SHORT as u64, tag: 1 }).expect("up");
    // The first of this connection has passed, so the second is as good as any.
    proxied.proxy.inject(Direction::ToListener, &earlier[1]).expect("the connection lives");
    let error = receive.wait(Some(PATIENCE)).expect_err("its peer has ended");
    assert!(error.to_string().ends_with("[TCPX-738]"), "{error}");
    proxied.goes_on();
}

/// The first of each kind is changed on its way. Both ends learn of it.
#[test]
fn an_exchange_of_keys_that_was_changed_is_refused() {
    let [left, right] = [(); 2].map(|()| open(options(Require)));
    let info = right.listen().expect("listen");
    let proxy = LinkProxy::of_records(tcpx_tests::control_addresses(&info)[0]);
    let info = tcpx_tests::with_address(&info, Ipv4Addr::LOCALHOST, proxy.address().port());
    left.load_remote_conn_info("right", &info).expect("own bytes load");
    for (direction, kind) in [
        (Direction::ToConnector, kind::CHALLENGE),
        (Direction::ToListener, kind::OPENING),
        (Direction::ToListener, kind::TLS),
        (Direction::ToConnector, kind::TLS),
        (Direction::ToListener, kind::RECORD),
        (Direction::ToConnector, kind::RECORD),
    ] {
        proxy.tamper(direction, kind, Tampering::Flip);
        let error = left.connect("right").expect_err("the frame was changed");
        let is_typed = matches!(
            error,
            Error::Handshake { .. } | Error::Encryption { .. } | Error::PeerGone { .. }
        );
        assert!(is_typed && error.id().is_some(), "{direction:?} {kind}: {error}");
        assert!(proxy.wait_until_tampered(PATIENCE));
    }
}

/// What the option is for: without it, no end notices.
#[test]
fn without_it_a_changed_byte_goes_unnoticed() {
    let [left, right] = [(); 2].map(|()| open(options(Off).link_bytes(LinkBytes::Most(u64::MAX))));
    let info = right.listen().expect("listen");
    let proxy = LinkProxy::start(tcpx_tests::control_addresses(&info)[0]);
    let info = tcpx_tests::with_address(&info, Ipv4Addr::LOCALHOST, proxy.address().port());
    join_by((&left, "left"), (&right, "right"), &info);
    proxy.tamper(Direction::ToListener, kind::LINK_CHUNK, Tampering::Flip);
    let exported = right.allocate(LONG as u64, MemoryType::Host).expect("memory");
    let key = export(&right, exported);
    let local = MemoryRange { memory: memory(&left, 3, LONG), offset: 0, bytes: LONG as u64 };
    let remote = RemoteRange { key: &key, offset: 0, bytes: LONG as u64 };
    let write = left.prepare("right", OperationKind::Write, &[local], &[remote]).expect("it fits");
    write.post(None).expect("it is not under way");
    write.wait(Some(PATIENCE)).expect("the write ends well");
    assert!(proxy.wait_until_tampered(PATIENCE));
    assert!(!is_full_of(&right, exported, 3, LONG), "the byte was changed");
}
