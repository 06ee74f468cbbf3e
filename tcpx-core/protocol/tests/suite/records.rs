//! Both ends of one direction, and an attacker between them.

use hmac::{Hmac, KeyInit, Mac};
use proptest::prelude::*;
use proptest::sample::Index;
use sha2::Sha256;
use tcpx_protocol::frames::conn_info::Secret;
use tcpx_protocol::frames::frame::Frame;
use tcpx_protocol::frames::hello::Role;
use tcpx_protocol::frames::link_frame::LinkFrame;
use tcpx_protocol::frames::records::{
    MAX_BODY_BYTES, OVERHEAD_BYTES, Outgoing, RecordError, RecordKeys, with_records,
};
use tcpx_protocol::types::MAX_EAGER_BYTES;
use tcpx_wire::frame::HEADER_BYTES;

use crate::any_wire::{check, ends, open};

type Wire = Vec<u8>;

fn keys(secret: u8, connectors: u8, listeners: u8) -> RecordKeys {
    RecordKeys::derive(&Secret([secret; 32]), &[connectors; 32], &[listeners; 32])
}

/// Seals one record for each body.
fn sealed(outgoing: &mut Outgoing, bodies: &[Vec<u8>]) -> Vec<Wire> {
    let seal = |body: &Vec<u8>| {
        let mut wire = Wire::new();
        outgoing.append(&mut wire, |queue| queue.extend_from_slice(body));
        outgoing.close(&mut wire);
        wire
    };
    bodies.iter().map(seal).collect()
}

/// Returns the bytes that an end opens of these, which are followed by as many others as a record
/// has at most: so nothing is merely waited for.
fn open_with_more_behind(wire: &[u8]) -> (Vec<u8>, Result<(), RecordError>) {
    let (_, mut incoming) = ends();
    let more = vec![1; MAX_BODY_BYTES + OVERHEAD_BYTES];
    open(&mut incoming, &[wire, &more])
}

fn bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let body = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 1..80),
        1 => (1..70_000usize, any::<u8>()).prop_map(|(bytes, fill)| vec![fill; bytes]),
    ];
    proptest::collection::vec(body, 1..6)
}

proptest! {
    /// Bytes come out as they went in, whatever shares a record and however the stream is cut.
    #[test]
    fn every_split_of_the_stream_gives_the_same(
        frames in proptest::collection::vec(
            (1..9_000usize, any::<bool>(), proptest::option::of((0..70_000usize, 0..900usize))),
            0..40,
        ),
        cuts in proptest::collection::vec(any::<Index>(), 0..30),
    ) {
        let (mut outgoing, mut incoming) = ends();
        let (mut wire, mut said) = (Wire::new(), Vec::new());
        for (number, (bytes, is_flushed, payload)) in frames.into_iter().enumerate() {
            let frame = vec![number as u8; bytes];
            said.extend_from_slice(&frame);
            outgoing.append(&mut wire, |queue| queue.extend_from_slice(&frame));
            if is_flushed {
                outgoing.close(&mut wire);
            }
            if let Some((message, note)) = payload {
                let payload = [&vec![77; message][..], &vec![78; note]];
                said.extend(payload.concat());
                if let Some(mac) = outgoing.close_with(&mut wire, payload) {
                    wire.extend([payload.concat(), mac.to_vec()].concat());
                }
            }
        }
        outgoing.close(&mut wire);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(wire.len() + 1)).collect();
        cuts.extend([0, wire.len()]);
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|cut| &wire[cut[0]..cut[1]]).collect();
        let (opened, outcome) = open(&mut incoming, &pieces);
        prop_assert_eq!(outcome, Ok(()));
        prop_assert!(opened == said);
        prop_assert!(incoming.opened().waiting().is_empty());
    }

    /// Nothing behind a bit that was turned is opened, nor what it is in.
    #[test]
    fn a_bit_that_was_turned_is_found(bodies in bodies(), at in any::<Index>(), bit in 0..8u8) {
        let records = sealed(&mut ends().0, &bodies);
        let mut wire = records.concat();
        let at = at.index(wire.len());
        wire[at] ^= 1 << bit;
        let (mut whole, mut before) = (0, Vec::new());
        for (record, body) in records.iter().zip(&bodies) {
            whole += record.len();
            if whole > at {
                break;
            }
            before.extend_from_slice(body);
        }
        let (opened, outcome) = open_with_more_behind(&wire);
        prop_assert!(outcome.is_err());
        prop_assert!(opened == before);
    }

    #[test]
    fn a_cut_in_the_stream_is_found(
        bodies in bodies(), from in any::<Index>(), bytes in 1..100usize,
    ) {
        let mut wire = sealed(&mut ends().0, &bodies).concat();
        let from = from.index(wire.len());
        wire.drain(from..(from + bytes).min(wire.len()));
        let (opened, outcome) = open_with_more_behind(&wire);
        prop_assert!(outcome.is_err());
        prop_assert!(bodies.concat().starts_with(&opened));
    }

    /// Records that were left out, repeated, or put into another order.
    #[test]
    fn any_other_sequence_of_records_is_found(
        bodies in bodies(), order in proptest::collection::vec(any::<Index>(), 1..8),
    ) {
        let records = sealed(&mut ends().0, &bodies);
        let order: Vec<_> = order.iter().map(|index| index.index(records.len())).collect();
        let right = order.iter().enumerate().take_while(|(at, index)| at == *index).count();
        let wire = order.iter().flat_map(|index| records[*index].clone()).collect::<Wire>();
        let (opened, outcome) = open(&mut ends().1, &[&wire]);
        prop_assert_eq!(outcome.is_err(), right < order.len());
        prop_assert!(opened == bodies[..right].concat());
    }

    /// What the fuzz target `link_records` looks for.
    #[test]
    fn nothing_comes_out_but_what_was_said_up_to_the_first_change(
        script in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        check(&script);
    }

    #[test]
    fn arbitrary_bytes_open_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let (opened, _) = open(&mut ends().1, &[&bytes]);
        prop_assert!(opened.is_empty());
        let (_, outcome) = open_with_more_behind(&bytes);
        prop_assert!(outcome.is_err());
    }
}

#[test]
fn a_record_opens_at_the_right_end_of_the_right_connection_only() {
    let record = sealed(&mut ends().0, &[b"frame".to_vec()]).concat();
    assert_eq!(open(&mut ends().1, &[&record]), (b"frame".to_vec(), Ok(())));
    for (name, keys, role) in [
        ("sent back", keys(1, 2, 3), Role::Connector),
        ("another secret", keys(9, 2, 3), Role::Listener),
        ("another hello", keys(1, 9, 3), Role::Listener),
        ("another welcome", keys(1, 2, 9), Role::Listener),
        ("hellos in the other order", keys(1, 3, 2), Role::Listener),
    ] {
        let (_, mut incoming) = keys.into_records(role);
        let refused = (Vec::new(), Err(RecordError::Mac));
        assert_eq!(open(&mut incoming, &[&record]), refused, "{name}");
        assert_eq!(incoming.count(), 0);
    }
}

#[test]
fn a_length_is_checked_before_anything_is_waited_for() {
    let too_long = MAX_BODY_BYTES as u32 + 1;
    for (length, outcome) in [
        (0, Err(RecordError::Length(0))),
        (too_long, Err(RecordError::Length(too_long))),
        (u32::MAX, Err(RecordError::Length(u32::MAX))),
        (1, Ok(())),
        (MAX_BODY_BYTES as u32, Ok(())),
    ] {
        assert_eq!(open(&mut ends().1, &[&length.to_le_bytes()]).1, outcome, "{length}");
    }
}

/// The longest that can be said at once: a payload behind a record that is nearly full.
#[test]
fn no_record_is_longer_than_what_is_read() {
    let (mut outgoing, mut incoming) = ends();
    let (mut wire, mut said) = (Wire::new(), Vec::new());
    for (queued, message, note) in [
        (FRAME_BYTES, MAX_EAGER_BYTES as usize, 0),
        (FRAME_BYTES, 1, MAX_EAGER_BYTES as usize - 1),
        (20, MAX_EAGER_BYTES as usize, MAX_EAGER_BYTES as usize),
        (20, 0, 0),
        (FRAME_BYTES, 0, 0),
    ] {
        for bytes in [100, queued] {
            outgoing.append(&mut wire, |queue| queue.extend(vec![5; bytes]));
            said.extend(vec![5; bytes]);
        }
        let payload = [&vec![6; message][..], &vec![7; note]];
        said.extend(payload.concat());
        if let Some(mac) = outgoing.close_with(&mut wire, payload) {
            wire.extend([payload.concat(), mac.to_vec()].concat());
        }
    }
    assert_eq!(open(&mut incoming, &[&wire]), (said, Ok(())));
}

const FRAME_BYTES: usize = HEADER_BYTES + Frame::MAX_BODY;

#[test]
fn an_empty_record_is_never_made() {
    let (mut outgoing, mut incoming) = ends();
    let mut wire = Wire::new();
    outgoing.close(&mut wire);
    outgoing.append(&mut wire, |_| {});
    outgoing.close(&mut wire);
    assert_eq!(outgoing.close_with(&mut wire, [&[], &[]]), None);
    assert!(wire.is_empty());
    let next = sealed(&mut outgoing, &[vec![1]]).concat();
    assert_eq!(open(&mut incoming, &[&next]), (vec![1], Ok(())));
}

#[test]
fn frames_that_are_queued_one_by_one_share_a_record() {
    let (mut outgoing, _) = ends();
    let mut wire = Wire::new();
    for _ in 0..100 {
        outgoing.append(&mut wire, |queue| queue.extend_from_slice(&[3; 33]));
    }
    outgoing.close(&mut wire);
    assert_eq!(wire.len(), 3300 + OVERHEAD_BYTES);
    assert!(wire.len() <= with_records(3300));
}

#[test]
fn nothing_of_a_key_is_shown() {
    let (outgoing, incoming) = ends();
    let shown = format!("{:?} {outgoing:?} {incoming:?}", keys(1, 2, 3));
    assert!(shown.contains("RecordKeys(…)") && !shown.contains("keyed"), "{shown}");
}

/// Another program may make the same records from this.
#[test]
fn a_record_is_what_the_description_says() {
    let record = sealed(&mut ends().0, &[b"first".to_vec(), b"second".to_vec()]).remove(1);
    let mut key = Hmac::<Sha256>::new_from_slice(&[1; 32]).unwrap();
    key.update(b"tcpx records of connector");
    key.update(&[[2; 32], [3; 32]].concat());
    let key: [u8; 32] = key.finalize().into_bytes().into();
    let text = [&1u64.to_le_bytes()[..], &6u32.to_le_bytes(), b"second"].concat();
    let mac = blake3::keyed_hash(&key, &text);
    assert_eq!(record, [&6u32.to_le_bytes()[..], b"second", &mac.as_bytes()[..16]].concat());
}
