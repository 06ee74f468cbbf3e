//! Tests of both ends of an encrypted handshake, over real sockets: ends that lie about their
//! settings, their secret or their key.

use std::net::TcpStream;
use std::time::Instant;

use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_protocol::frames::handshake_frame::{HandshakeFrame, TlsOpening};
use tcpx_protocol::types::encryption::Encryption::{self, Off, Prefer, Require};
use tcpx_protocol::types::memory::Device;
use tcpx_testkit::eventually;

use super::connector::Connector;
use super::identity::{ChannelOffer, Identity, new_id};
use super::listener::ControlListener;
use super::socket::LinkSocket;
use crate::error::{EncryptionProblem, Error};
use crate::settings::SessionOptions;

fn identity(encryption: Encryption) -> Identity {
    let options = SessionOptions::default().encryption(encryption);
    let (key, secret) = new_id(&options).expect("random bytes");
    let id = (Device::Host, key, secret);
    Identity::new(id, &options, "TCPXSoft_v7", 524_288, ChannelOffer::Asked(2))
}

fn listener() -> ControlListener {
    ControlListener::listen("127.0.0.1:0".parse().unwrap(), &[]).expect("a port")
}

fn info(identity: &Identity, listener: &ControlListener) -> ConnInfo {
    let (session, secret) = (identity.session, identity.secret.clone());
    let addresses = vec![listener.address().expect("it has one")];
    ConnInfo {
        session,
        secret,
        encryption: identity.encryption,
        credential: identity.credentials.kind(),
        addresses,
    }
}

/// Lets `ours` connect by this info to where `theirs` listens. Returns whether the link is
/// encrypted at both ends.
fn meet(
    ours: &Identity,
    info: ConnInfo,
    theirs: &Identity,
    listener: &mut ControlListener,
) -> Result<bool, Error> {
    let mut connector = Connector::new(info, 0);
    let mut welcomed = None;
    eventually(|| {
        let now = Instant::now();
        let reached = match connector.poll("theirs", now, ours) {
            Ok(reached) => reached,
            Err(error) => return Some(Err(error)),
        };
        listener.progress(now, theirs);
        let number = listener.proven().next().map(|(number, _)| number);
        if let Some(handshake) = number.and_then(|number| listener.take(number)) {
            welcomed = handshake.welcome(theirs, None);
        }
        if let Some(welcomed) = &mut welcomed {
            welcomed.proven.link.flush().expect("the other end is there");
        }
        let (reached, welcomed) = (reached?, welcomed.as_ref()?);
        assert_eq!(reached.proven.link.is_encrypted(), welcomed.proven.link.is_encrypted());
        assert_eq!(reached.proven.agreement.is_encrypted, reached.proven.link.is_encrypted());
        assert_eq!(welcomed.proven.agreement.is_encrypted, welcomed.proven.link.is_encrypted());
        Some(Ok(reached.proven.link.is_encrypted()))
    })
}

#[test]
fn honest_ends_come_to_what_their_settings_say() {
    for (ours, theirs) in [Off, Prefer, Require]
        .iter()
        .flat_map(|ours| [Off, Prefer, Require].map(|theirs| (*ours, theirs)))
    {
        let ([ours, theirs], mut listener) = ([ours, theirs].map(identity), listener());
        let expected = ours.encryption.agree(theirs.encryption).ok();
        let outcome = meet(&ours, info(&theirs, &listener), &theirs, &mut listener);
        assert_eq!(outcome.as_ref().ok().copied(), expected, "{outcome:?}");
        if let Err(error) = outcome {
            assert!(matches!(error, Error::Encryption { .. }), "{error}");
            assert!(error.to_string().ends_with("[TCPX-741]"), "{error}");
        }
    }
}

/// The connection info says what the listener is not. It is trusted, so only a program that breaks
/// it gets here; and still nothing is said in clear that should not be.
#[test]
fn a_listener_refuses_what_does_not_fit_its_own_setting() {
    for (ours, said, theirs, words) in [
        (Off, Off, Require, "encryption = require here, off there"),
        (Require, Require, Off, "encryption = off here, require there"),
        (Prefer, Prefer, Off, "does not fit a link that is encrypted"),
        (Prefer, Off, Prefer, "does not fit a link that is not encrypted"),
        (Prefer, Off, Require, "does not fit a link that is not encrypted"),
    ] {
        let ([ours, theirs], mut listener) = ([ours, theirs].map(identity), listener());
        let honest = info(&theirs, &listener);

        let outcome = meet(&ours, ConnInfo { encryption: said, ..honest }, &theirs, &mut listener);
        let error = outcome.expect_err("it does not fit");
        let Error::Handshake { reason, .. } = &error else { panic!("{error}") };
        assert!(reason.contains(words), "{reason}");
        assert_eq!(words.contains("here"), error.to_string().ends_with("[TCPX-741]"), "{error}");
    }
}

/// A session that has the secret, and not the key.
#[test]
fn a_listener_with_another_key_is_not_taken_for_the_session() {
    let (ours, theirs, mut listener) = (identity(Prefer), identity(Prefer), listener());
    let mut pretender = identity(Prefer);
    (pretender.secret, pretender.session) = (theirs.secret.clone(), theirs.session);
    let outcome = meet(&ours, info(&theirs, &listener), &pretender, &mut listener);
    let error = outcome.expect_err("it has another key");
    let problem = EncryptionProblem::WrongKey;
    assert!(matches!(&error, Error::Encryption { problem: it, .. } if *it == problem), "{error}");
    assert!(error.to_string().ends_with("[TCPX-742]"), "{error}");
}

#[test]
fn a_connector_is_the_session_of_its_key_and_no_other() {
    let (theirs, mut listener) = (identity(Require), listener());
    let other = identity(Require);
    let mut pretender = identity(Require);
    pretender.session = other.session;
    let outcome = meet(&pretender, info(&theirs, &listener), &theirs, &mut listener);
    let error = outcome.expect_err("it is not the session that it says it is").to_string();
    assert!(error.contains("is not that of the key"), "{error}");
    let mut device = other;
    device.session = Device::Gpu(1).session_of(device.session);
    let met = meet(&device, info(&theirs, &listener), &theirs, &mut listener);
    assert!(met.expect("devices of a session have its key"));
}

/// Without the secret an end gets no answer of TLS.
#[test]
fn a_stranger_costs_no_state_of_tls() {
    let (theirs, mut listener) = (identity(Require), listener());
    let strangers = identity(Require);
    let opening = |challenge: &_, nonce| {
        TlsOpening::new(
            (strangers.encryption, strangers.credentials.kind()),
            nonce,
            challenge,
            &strangers.secret,
        )
    };
    for says_tls in [true, false] {
        let address = listener.address().expect("it has one");
        let stream = TcpStream::connect(address).expect("it listens");
        let mut link = LinkSocket::new(stream, None, Instant::now()).expect("a socket");
        let challenge = eventually(|| {
            listener.progress(Instant::now(), &theirs);
            link.receive(Instant::now()).expect("the other end is there")
        });
        let HandshakeFrame::Challenge(challenge) = challenge else { panic!("{challenge:?}") };
        if !says_tls {
            link.queue(&HandshakeFrame::Opening(opening(&challenge.nonce, [1; 32])));
        }
        HandshakeFrame::of_tls(&[22; 2000]).for_each(|frame| link.queue(&frame));
        let answer = eventually(|| {
            let _ = link.flush();
            listener.progress(Instant::now(), &theirs);
            link.receive::<HandshakeFrame>(Instant::now()).transpose()
        });
        match answer {
            Ok(HandshakeFrame::Refuse(reason)) if !says_tls => {
                assert!(reason.contains("wrong secret"), "{reason}");
            }
            Err(_) if says_tls => {}
            other => panic!("{other:?}"),
        }
    }
}
