//! Tests of handshakes between ends that know the secret and are incompatible, over real sockets.
//! Each end refuses the other, and names both values.

use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_protocol::frames::handshake_frame::{HandshakeFrame, Introduction};
use tcpx_protocol::frames::hello::{Challenge, HandshakeError, Hello, Role};
use tcpx_protocol::frames::link_frame::PROTOCOL_VERSION;
use tcpx_protocol::types::memory::Device;
use tcpx_testkit::{eventually, until};

use super::socket::LinkSocket;
use crate::control::connector::Connector;
use crate::control::identity::{ChannelOffer, Identity, new_id};
use crate::control::listener::ControlListener;
use crate::error::{Error, Result};
use crate::settings::SessionOptions;

/// Change that makes a hello incompatible, and words of the refusal.
type Incompatibility = (fn(&mut Hello), &'static [&'static str]);

const INCOMPATIBILITIES: [Incompatibility; 6] = [
    (|hello| hello.plugin = "GPUDirectTCPX_v7".into(), &["TCPXSoft_v7", "GPUDirectTCPX_v7"]),
    (|hello| hello.unpack_version = 8, &["unpack version 7 here, 8 there"]),
    (|hello| hello.channels = 0, &["0 channels there, 1 to"]),
    (|hello| hello.channels = 9_999, &["9999 channels there, 1 to"]),
    (|hello| hello.chunk_bytes = 1, &["chunk of 1 bytes there, at least"]),
    (|hello| hello.protocol = 99, &["99 there"]),
];

fn identity() -> Identity {
    let options = SessionOptions::default();
    let (key, secret) = new_id(&options).expect("random bytes");
    let id = (Device::Host, key, secret);
    Identity::new(id, &options, "TCPXSoft_v7", 524_288, ChannelOffer::Asked(2))
}

fn info(identity: &Identity, address: std::net::SocketAddr) -> ConnInfo {
    let (session, secret) = (identity.session, identity.secret.clone());
    ConnInfo {
        session,
        secret,
        encryption: identity.encryption,
        credential: identity.credentials.kind(),
        addresses: vec![address],
    }
}

/// Waits for the next frame. `meanwhile` keeps the other end going.
fn hear(link: &mut LinkSocket, mut meanwhile: impl FnMut()) -> HandshakeFrame {
    eventually(|| {
        meanwhile();
        link.flush().expect("the other end is there");
        link.receive(Instant::now()).expect("the other end is there")
    })
}

#[test]
fn a_listener_refuses_an_incompatible_peer_and_tells_it_why() {
    let ours = identity();
    let theirs = identity();
    let mut listener =
        ControlListener::listen("127.0.0.1:0".parse().unwrap(), &[]).expect("a port");
    let address = listener.address().expect("it has one");
    for (spoil, words) in INCOMPATIBILITIES {
        let stream = TcpStream::connect(address).expect("it listens");
        let mut link = LinkSocket::new(stream, None, Instant::now()).expect("a socket");
        let mut listen = || {
            let _ = listener.progress(Instant::now(), &ours);
        };
        let HandshakeFrame::Challenge(challenge) = hear(&mut link, &mut listen) else {
            panic!("a challenge")
        };
        let mut hello = theirs.hello([7; 32], 2);
        spoil(&mut hello);
        let proven = hello.prove(Role::Connector, &challenge.nonce, &ours.secret);
        let introduction = Introduction::new(proven, &theirs.secret);
        link.queue(&HandshakeFrame::Hello(Box::new(introduction)));
        let HandshakeFrame::Refuse(reason) = hear(&mut link, &mut listen) else {
            panic!("a refusal")
        };
        words.iter().for_each(|word| assert!(reason.contains(word), "{word}: {reason}"));
        assert!(listener.proven().next().is_none(), "{reason}");
    }
}

/// Returns the outcome when `ours` connects to `theirs`, and this hello welcomes it with the right
/// secret.
fn welcomed(ours: &Identity, theirs: &Identity, hello: Hello) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it has one");
    let mut connector = Connector::new(info(theirs, address), 0);
    let mut dial = || connector.poll("far", Instant::now(), ours).map(|reached| reached.map(drop));
    assert_eq!(dial().expect("it dials"), None);
    let (stream, _) = listener.accept().expect("it was dialled");
    let mut link = LinkSocket::new(stream, None, Instant::now()).expect("a socket");
    link.queue(&HandshakeFrame::Challenge(Challenge::new([3; 32])));
    let is_open = || assert_eq!(dial().expect("it is not refused"), None);
    let HandshakeFrame::Hello(said) = hear(&mut link, is_open) else { panic!("a hello") };
    let said = said.proven;
    said.verify(Role::Connector, &[3; 32], &theirs.secret).expect("it knows the secret");
    let proven = hello.prove(Role::Listener, &said.hello.nonce, &theirs.secret);
    link.queue(&HandshakeFrame::Welcome(Box::new(proven)));
    eventually(|| {
        link.flush().expect("the other end is there");
        dial().transpose()
    })
}

#[test]
fn a_connector_refuses_an_incompatible_peer() {
    let ours = identity();
    let theirs = identity();
    for (spoil, words) in INCOMPATIBILITIES {
        let mut hello = theirs.hello([7; 32], 2);
        spoil(&mut hello);
        let outcome = welcomed(&ours, &theirs, hello);
        let Err(Error::Handshake { peer, reason }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(peer, "far");
        words.iter().for_each(|word| assert!(reason.contains(word), "{word}: {reason}"));
    }
}

/// Devices of a session share a secret.
#[test]
fn a_connector_refuses_the_welcome_of_another_session_with_the_same_secret() {
    let [ours, theirs, others] = [(); 3].map(|()| identity());
    welcomed(&ours, &theirs, theirs.hello([7; 32], 2)).expect("it is the peer's");
    let outcome = welcomed(&ours, &theirs, others.hello([7; 32], 2));
    let Err(Error::Handshake { reason, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(reason, HandshakeError::Proof.to_string());
}

#[test]
fn a_refused_connector_says_that_the_words_are_the_peers() {
    let (ours, theirs) = (identity(), identity());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut connector =
        Connector::new(info(&theirs, listener.local_addr().expect("it has one")), 0);
    let mut outcome = connector.poll("far", Instant::now(), &ours).map(drop);
    let (stream, _) = listener.accept().expect("it was dialled");
    let mut link = LinkSocket::new(stream, None, Instant::now()).expect("a socket");
    let reason = format!("control link protocol {PROTOCOL_VERSION} here, 2 there");
    link.queue(&HandshakeFrame::Refuse(reason.clone()));
    until("it is refused", || {
        link.flush().expect("the other end is there");
        outcome = connector.poll("far", Instant::now(), &ours).map(drop);
        outcome.is_err()
    });
    let text = outcome.expect_err("refused").to_string();
    assert!(text.contains(&format!("it says: {reason}")), "{text}");
}
