//! Tests of the names of peers.

use tcpx_protocol::frames::conn_info::Secret;
use tcpx_protocol::frames::eager_terms::EagerOffer;
use tcpx_protocol::frames::hello::{Hello, Role};
use tcpx_protocol::frames::link_frame::PROTOCOL_VERSION;
use tcpx_protocol::types::encryption::{Credential, Encryption};
use tcpx_protocol::types::nic::NicLinks;

use super::*;

const LISTENERS: Secret = Secret([3; 32]);
const OWN: Secret = Secret([5; 32]);

/// Returns the device of session `peer`, which calls itself `name`, vouched for with `own`.
fn session(peer: u8, device: Device, name: &str, own: &Secret) -> Introduction {
    let session = device.session_of([peer; 16]);
    let hello = Hello {
        protocol: PROTOCOL_VERSION,
        session,
        name: name.to_owned(),
        build: "0.1.0".into(),
        plugin: "TCPXSoft_v7".into(),
        unpack_version: 7,
        chunk_bytes: 524_288,
        channels: 2,
        gpu: None,
        progress_thread: false,
        accept_all: false,
        on_demand: false,
        eager: EagerOffer::default(),
        note_bytes: 1 << 20,
        encryption: Encryption::Off,
        nics: NicLinks::default(),
        to: 0,
        connection: 1,
        instead_of: None,
        nonce: [2; 32],
    };
    Introduction::new(hello.prove(Role::Connector, &[9; 32], &LISTENERS), own)
}

fn info(peer: u8) -> ConnInfo {
    let session = Device::Host.session_of([peer; 16]);
    ConnInfo {
        session,
        secret: OWN,
        encryption: Encryption::Off,
        credential: Credential::SessionKey,
        addresses: vec!["10.0.0.1:4000".parse().unwrap()],
    }
}

#[test]
fn all_devices_of_a_peer_have_its_name() {
    let names = PeerNames::default();
    for (peer, given, name) in [(1, "a", "a"), (2, "a", "peer-1"), (3, "", "peer-2")] {
        for device in [Device::Gpu(2), Device::Host, Device::Gpu(2)] {
            let came = session(peer, device, given, &OWN);
            assert_eq!(names.of(&came), device.name_in(name));
        }
    }
    for (peer, bad) in [(4, "a/gpu0"), (5, "b\n")] {
        let name = names.of(&session(peer, Device::Host, bad, &OWN));
        assert!(name.starts_with("peer-"), "{name}");
    }
}

#[test]
fn whose_way_is_known_has_the_name_that_the_program_gave() {
    let names = PeerNames::default();
    assert_eq!(names.of(&session(1, Device::Host, "a", &OWN)), "a");
    // The peer has come and gone.
    names.unloaded_peer_left(&info(1));
    assert_eq!(names.load("decode", info(1)), "decode");
    assert_eq!(names.of(&session(1, Device::Gpu(0), "a", &OWN)), "decode/gpu0");
    let (called, way) = names.way("decode", Device::Gpu(0));
    assert_eq!(called, "decode");
    let peer = Device::Host.session_of([1; 16]);
    assert_eq!(way.map(|info| info.session), Some(Device::Gpu(0).session_of(peer)));
    assert!(names.way("a", Device::Host).1.is_none());
    // A peer that knows only the id does not get its name.
    let pretender = session(1, Device::Gpu(1), "decode", &LISTENERS);
    assert_eq!(names.of(&pretender), "peer-1/gpu1");
}

#[test]
fn a_peer_with_several_names_is_called_by_the_first() {
    let names = PeerNames::default();
    assert_eq!(names.of(&session(1, Device::Host, "a", &OWN)), "a");
    assert_eq!(names.unloaded_name(&info(1)).as_deref(), Some("a"));
    assert_eq!(names.load("decode", info(1)), "a");
    assert_eq!(names.load("again", info(1)), "a");
    assert_eq!(names.of(&session(1, Device::Gpu(0), "a", &OWN)), "a/gpu0");
    for name in ["a", "decode", "again"] {
        let (called, way) = names.way(name, Device::Host);
        assert_eq!((called.as_str(), way), ("a", Some(info(1))));
    }
    // This name leads elsewhere now.
    assert_eq!(names.load("a", info(2)), "a");
    let next = names.called("decode");
    assert!(["decode", "again"].contains(&&*next), "{next}");
    assert_eq!(names.called("again"), next);
    assert_eq!(names.of(&session(1, Device::Host, "a", &OWN)), next);
    assert_eq!(names.of(&session(2, Device::Host, "b", &OWN)), "a");
    let forget = |name| names.forget(name, false);
    assert!(forget("again") && !forget("decode") && !forget("x"));
    assert_eq!(names.called("decode"), "decode");
    assert!(names.way("decode", Device::Host).1.is_none());
    assert!(forget("a"));
    let names = names.names();
    assert!(names.loaded.is_empty() && names.called.is_empty());
}

#[test]
fn forged_connection_info_takes_no_other_peers_name() {
    let names = PeerNames::default();
    assert_eq!(names.load("a", info(1)), "a");
    let forged = ConnInfo { secret: LISTENERS, ..info(1) };
    assert_eq!(names.load("b", forged.clone()), "b");
    assert_eq!(names.way("a", Device::Host), ("a".to_owned(), Some(info(1))));
    assert_eq!(names.way("b", Device::Host), ("b".to_owned(), Some(forged)));
    assert_eq!(names.of(&session(1, Device::Gpu(1), "x", &OWN)), "a/gpu1");
    assert!(names.forget("b", false));
    assert_eq!(names.of(&session(1, Device::Gpu(1), "x", &OWN)), "a/gpu1");
}

#[test]
fn a_peer_that_stays_when_it_is_forgotten_keeps_its_name() {
    let names = PeerNames::default();
    for name in ["a", "b", "c"] {
        assert_eq!(names.load(name, info(1)), "a");
        assert_eq!(names.of(&session(1, Device::Gpu(0), "x", &OWN)), "a/gpu0");
        assert!(names.forget(name, true));
        assert_eq!(names.of(&session(1, Device::Gpu(1), "x", &OWN)), "a/gpu1");
        assert_eq!(names.unloaded_name(&info(1)).as_deref(), Some("a"));
        assert_eq!(names.unloaded_name(&ConnInfo { secret: LISTENERS, ..info(1) }), None);
    }
    // Another peer has the name meanwhile.
    assert_eq!(names.load("a", info(2)), "a");
    assert_eq!(names.load("d", info(1)), "d");
    assert_eq!(names.way("a", Device::Host), ("a".to_owned(), Some(info(2))));
    assert!(names.forget("a", false) && names.forget("d", false));
    let names = names.names();
    assert!(names.loaded.is_empty() && names.called.is_empty());
    assert!(names.unloaded.is_empty() && names.order.is_empty());
}

/// A peer that comes in under another session's id is not found.
#[test]
fn a_pretender_that_came_first_is_not_the_one_that_is_loaded() {
    let names = PeerNames::default();
    assert_eq!(names.of(&session(1, Device::Host, "a", &LISTENERS)), "a");
    assert_eq!(names.unloaded_name(&info(1)), None);
    assert_eq!(names.load("decode", info(1)), "decode");
    assert_eq!(names.of(&session(1, Device::Host, "a", &OWN)), "decode");
}

#[test]
fn unloaded_peers_are_forgotten_when_there_are_too_many() {
    let names = PeerNames::default();
    let peer = |number: usize| {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        id
    };
    let mut names = names.names();
    let mut unloaded = session(1, Device::Host, "", &OWN);
    for number in 0..=MOST_UNLOADED {
        unloaded.proven.hello.name = format!("name {number}");
        names.add(peer(number), &unloaded);
    }
    assert_eq!((names.order.len(), names.unloaded.len()), (MOST_UNLOADED, MOST_UNLOADED));
    assert!(!names.unloaded.contains_key(&peer(0)));
    assert_eq!(names.unloaded[&peer(1)].name, "name 1");
}
