//! Attackers on the way of an encrypted control link. A change ends that peer, and nothing else.
//!
//! Attackers on the way of data sockets are in the tests of `tcpx-softnet`: `encryption` changes
//! what is said on one, and `crossed_sockets` connects those of two live comms crosswise.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tcpx_core::Encryption::{Off, Require};
use tcpx_core::{
    Departure, Error, LinkBytes, MemoryRange, MemoryType, OperationKind, Post, RemoteRange, Session,
};
use tcpx_testkit::PATIENCE;
use tcpx_tests::proxy::{Direction, LinkProxy, Tampering, kind};
use tcpx_tests::sessions::{disconnect_both, export, join_by, open};
use tcpx_wire::frame;

use crate::encrypted_ends::{
    LONG, SHORT, is_encrypted, is_full_of, memory, message, options, write_and_read,
};

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

    /// Returns all bytes that the end in that direction has heard, in their order.
    fn said_to(&self, direction: Direction) -> Vec<u8> {
        let kinds = [kind::CHALLENGE, kind::OPENING, kind::TLS, kind::RECORD];
        kinds.iter().flat_map(|kind| self.proxy.passed(direction, *kind)).flatten().collect()
    }

    /// Returns a listener in right's place, and a session that takes it for right.
    fn imposter(&self) -> (TcpListener, Session) {
        let imposter = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = imposter.local_addr().expect("it is bound").port();
        let info = self.right.listen().expect("listen");
        let info = tcpx_tests::with_address(&info, Ipv4Addr::LOCALHOST, port);
        let victim = open(options(Require));
        victim.load_remote_conn_info("right", &info).expect("own bytes load");
        (imposter, victim)
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

/// Two connections that live: what is encrypted on one of them does not fit in the other.
#[test]
fn records_of_another_connection_are_not_taken() {
    let [one, other] = [(); 2].map(|()| ProxiedSessions::new());
    for proxied in [&one, &other] {
        let [to, from] = proxied.ends(Direction::ToListener);
        message(from, to, SHORT, 1);
    }
    let theirs = other.proxy.passed(Direction::ToListener, kind::RECORD);
    let receive = one.right.create_transfer("left").expect("it is up");
    let into = memory(&one.right, 1, SHORT);
    receive.post_recv(Post { memory: into, offset: 0, bytes: SHORT as u64, tag: 1 }).expect("up");
    let last = theirs.last().expect("they have said something");
    one.proxy.inject(Direction::ToListener, last).expect("the connection lives");
    let error = receive.wait(Some(PATIENCE)).expect_err("its peer has ended");
    assert!(error.to_string().ends_with("[TCPX-738]"), "{error}");
    assert!(is_full_of(&one.right, into, 1, SHORT), "nothing was delivered");
    one.goes_on();
    let [to, from] = other.ends(Direction::ToListener);
    message(from, to, SHORT, 2);
}

/// An attacker that says all that a connector has said, to its listener: it is no peer.
#[test]
fn a_connection_that_is_played_back_to_its_listener_is_closed() {
    let proxied = ProxiedSessions::new();
    let [to, from] = proxied.ends(Direction::ToListener);
    message(from, to, SHORT, 1);
    let said = proxied.said_to(Direction::ToListener);
    disconnect_both(&proxied.left, &proxied.right);
    let info = proxied.right.listen().expect("listen");
    let mut attacker = TcpStream::connect(tcpx_tests::control_addresses(&info)[0]).expect("open");
    attacker.set_read_timeout(Some(PATIENCE)).expect("a socket");
    // The listener may have closed before it has read all.
    let _ = attacker.write_all(&said);
    let mut answer = Vec::new();
    let closed = attacker.read_to_end(&mut answer);
    let is_reset = |error: io::Error| error.kind() == ErrorKind::ConnectionReset;
    assert!(closed.is_ok() || closed.is_err_and(is_reset), "it stays open");
    let up = proxied.right.stats().peers.into_iter().filter(|peer| peer.state == "up");
    assert_eq!(up.map(|peer| peer.name).collect::<Vec<_>>(), ["witness"]);
    proxied.goes_on();
}

/// An attacker that answers as a listener has answered before.
#[test]
fn a_connection_that_is_played_back_to_its_connector_is_refused() {
    let proxied = ProxiedSessions::new();
    let [to, from] = proxied.ends(Direction::ToListener);
    message(from, to, SHORT, 1);
    let said = proxied.said_to(Direction::ToConnector);
    let (imposter, victim) = proxied.imposter();
    thread::spawn(move || {
        let (mut victim, _) = imposter.accept().expect("it connects");
        let _ = victim.write_all(&said);
        let _ = io::copy(&mut victim, &mut io::sink());
    });
    let error = victim.connect("right").expect_err("it is not right");
    let is_typed = matches!(
        error,
        Error::Handshake { .. } | Error::Encryption { .. } | Error::PeerGone { .. }
    );
    assert!(is_typed && error.id().is_some(), "{error}");
    message(from, to, SHORT, 2);
}

/// An attacker that says it is of an older version, which knew no encryption: it hears nothing.
#[test]
fn a_listener_of_an_older_version_hears_nothing() {
    // The version is behind the first eight bytes of the challenge.
    const VERSION: usize = frame::HEADER_BYTES + 8;
    let proxied = ProxiedSessions::new();
    let challenges = proxied.proxy.passed(Direction::ToConnector, kind::CHALLENGE);
    let mut older = challenges.first().expect("it was the first that was said").clone();
    older[VERSION] -= 1;
    let (imposter, victim) = proxied.imposter();
    let heard = thread::spawn(move || {
        let (mut victim, _) = imposter.accept().expect("it connects");
        victim.write_all(&older).expect("it listens");
        let mut heard = Vec::new();
        let _ = victim.read_to_end(&mut heard);
        heard
    });
    let error = victim.connect("right").expect_err("it would not be encrypted");
    assert!(error.to_string().ends_with("[TCPX-727]"), "{error}");
    drop(victim);
    assert_eq!(heard.join().expect("no panic"), [0; 0], "{error}");
}

/// The first of each kind is changed on its way. Both ends learn of it.
#[test]
fn an_exchange_of_keys_that_was_changed_is_refused() {
    for (direction, kind) in [
        (Direction::ToConnector, kind::CHALLENGE),
        (Direction::ToListener, kind::OPENING),
        (Direction::ToListener, kind::TLS),
        (Direction::ToConnector, kind::TLS),
        (Direction::ToListener, kind::RECORD),
        (Direction::ToConnector, kind::RECORD),
    ] {
        let [left, right] = [(); 2].map(|()| open(options(Require)));
        let info = right.listen().expect("listen");
        let proxy = LinkProxy::of_records(tcpx_tests::control_addresses(&info)[0]);
        let info = tcpx_tests::with_address(&info, Ipv4Addr::LOCALHOST, proxy.address().port());
        left.load_remote_conn_info("right", &info).expect("own bytes load");
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
