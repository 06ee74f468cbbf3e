//! Agreements of two hellos, and their proofs.

use super::*;
use crate::frames::handshake_frame::{HandshakeFrame, Introduction};
use crate::frames::link_frame::LinkFrame;
use crate::types::nic::{MOST_NICS, NicLink};

pub(crate) fn sample_hello() -> Hello {
    Hello {
        protocol: PROTOCOL_VERSION,
        session: [1; 16],
        name: "left".into(),
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
    }
}

fn other() -> Hello {
    Hello { session: [8; 16], name: "right".into(), nonce: [4; 32], ..sample_hello() }
}

#[test]
fn proof_holds_for_one_role_one_nonce_one_secret_and_one_hello() {
    let secret = Secret([3; 32]);
    let proven = sample_hello().prove(Role::Connector, &[9; 32], &secret);
    assert_eq!(proven.verify(Role::Connector, &[9; 32], &secret), Ok(()));
    assert_eq!(
        proven.verify(Role::Listener, &[9; 32], &secret),
        Err(HandshakeError::Proof),
        "reflected"
    );
    assert_eq!(
        proven.verify(Role::Connector, &[8; 32], &secret),
        Err(HandshakeError::Proof),
        "replayed"
    );
    assert_eq!(
        proven.verify(Role::Connector, &[9; 32], &Secret([4; 32])),
        Err(HandshakeError::Proof),
        "another secret"
    );
    let encryption = Encryption::Prefer;
    for tampered in
        [Hello { channels: 7, ..sample_hello() }, Hello { encryption, ..sample_hello() }]
    {
        let tampered = Proven { hello: tampered, mac: proven.mac };
        assert_eq!(
            tampered.verify(Role::Connector, &[9; 32], &secret),
            Err(HandshakeError::Proof),
            "tampered"
        );
    }
}

#[test]
fn both_ends_come_to_the_same_about_encryption() {
    use Encryption::{Off, Prefer, Require};
    let settings = [Off, Prefer, Require];
    for (left, right) in settings.iter().flat_map(|left| settings.map(|right| (*left, right))) {
        let with = |hello, encryption| Hello { encryption, ..hello };
        let (left_hello, right_hello) = (with(sample_hello(), left), with(other(), right));
        let agreed = left_hello.agree(&right_hello).map(|it| it.is_encrypted);
        let expected = left_hello.encryption.agree(right_hello.encryption).map_err(Into::into);
        assert_eq!(agreed, expected, "{left} and {right}");
        let other_way = right_hello.agree(&left_hello).map(|it| it.is_encrypted);
        assert_eq!(other_way.ok(), agreed.ok(), "{left} and {right}");
    }
}

#[test]
fn both_ends_agree_on_the_same_values() {
    let left = Hello { channels: 4, chunk_bytes: 65_536, ..sample_hello() };
    let right = Hello { channels: 3, progress_thread: true, ..other() };
    let agreement = Agreement {
        channels: 3,
        chunk_bytes: 65_536,
        peer_progresses: true,
        on_demand: false,
        eager: EagerTerms::OFF,
        note_bytes: 1 << 20,
        keeps_chunks: false,
        is_encrypted: false,
    };
    assert_eq!(left.agree(&right), Ok(agreement));
    assert_eq!(right.agree(&left), Ok(Agreement { peer_progresses: false, ..agreement }));
}

#[test]
fn incompatible_values_are_both_named() {
    let ours = sample_hello();
    let refuse = |theirs: Hello| ours.agree(&theirs).unwrap_err().to_string();
    assert!(
        refuse(Hello { protocol: 99, ..other() })
            .contains(&format!("{PROTOCOL_VERSION} here, 99 there"))
    );
    let text = refuse(Hello { plugin: "GPUDirectTCPX_v7".into(), ..other() });
    assert!(text.contains("TCPXSoft_v7") && text.contains("GPUDirectTCPX_v7"), "{text}");
    assert!(refuse(Hello { unpack_version: 8, ..other() }).contains("7 here, 8 there"));
    assert!(refuse(Hello { channels: 0, ..other() }).contains("0 channels"));
    assert!(refuse(Hello { channels: 9999, ..other() }).contains("9999 channels"));
    assert!(refuse(Hello { chunk_bytes: 1, ..other() }).contains("1 bytes"));
    assert!(refuse(Hello { name: "x".repeat(97), ..other() }).contains("too long"));
    let nics = NicLinks(vec![NicLink { name: "\n".into(), speed_mbps: None }]);
    assert!(refuse(Hello { nics, ..other() }).contains("invalid names"));
    assert!(refuse(sample_hello()).contains("own connection info"));
}

#[test]
fn a_challenge_of_another_protocol_or_version_is_refused() {
    let mut challenge = Challenge::new([1; 32]);
    assert_eq!(challenge.check(), Ok([1; 32]));
    challenge.protocol = 99;
    assert_eq!(
        challenge.check(),
        Err(HandshakeError::Protocol { ours: PROTOCOL_VERSION, theirs: 99 })
    );
    challenge.magic = *b"TCPXLUNK";
    assert_eq!(challenge.check(), Err(HandshakeError::NotTcpx));
}

#[test]
fn the_longest_hello_fits_into_a_frame_of_the_handshake() {
    let longest = || "x".repeat(MAX_NAME_BYTES);
    let nics = NicLinks::first(vec![NicLink::new(&longest(), Some(u32::MAX)); MOST_NICS]);
    let hello = Hello {
        protocol: u16::MAX,
        name: longest(),
        build: longest(),
        plugin: longest(),
        unpack_version: i32::MIN,
        chunk_bytes: u32::MAX,
        channels: u16::MAX,
        gpu: Some(u32::MAX),
        eager: EagerOffer {
            bytes: u32::MAX,
            buffer_bytes: u32::MAX,
            device_bytes: u64::MAX,
            access_bytes: u64::MAX,
        },
        note_bytes: u32::MAX,
        nics,
        to: u16::MAX,
        connection: u16::MAX,
        instead_of: Some([255; 32]),
        ..sample_hello()
    };
    let proven = hello.prove(Role::Connector, &[9; 32], &Secret([3; 32]));
    let introduction = Introduction::new(proven, &Secret([5; 32]));
    let frame = HandshakeFrame::Hello(Box::new(introduction));
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    assert_eq!(HandshakeFrame::decode(&bytes).unwrap(), Some((frame, bytes.len())));
}
