//! Both ends of one direction, and an attacker between them.

use proptest::prelude::*;
use proptest::sample::Index;
use tcpx_protocol::frames::hello::Role;
use tcpx_protocol::frames::records::{Outgoing, RecordError, with_records};
use tcpx_seal::record::{
    HEADER_BYTES, MAX_PLAIN_BYTES, MAX_RECORD_BYTES, OVERHEAD_BYTES, RECORDS_A_KEY,
};

use crate::any_wire::{check, close_with, ends, keys, open};

type Wire = Vec<u8>;

/// Seals one record for each body.
fn sealed(outgoing: &mut Outgoing, bodies: &[Vec<u8>]) -> Vec<Wire> {
    let seal = |body: &Vec<u8>| {
        let mut wire = Wire::new();
        outgoing.append(&mut wire, |queue| queue.extend_from_slice(body));
        outgoing.close(&mut wire).unwrap();
        wire
    };
    bodies.iter().map(seal).collect()
}

/// Returns the bytes that an end opens of these, which are followed by as many others as a record
/// has at most: so nothing is merely waited for.
fn open_with_more_behind(wire: &[u8]) -> (Vec<u8>, Result<(), RecordError>) {
    let (_, mut incoming) = ends();
    let more = vec![1; MAX_RECORD_BYTES];
    open(&mut incoming, &[wire, &more])
}

fn bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let body = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 1..80),
        1 => (1..=MAX_PLAIN_BYTES, any::<u8>()).prop_map(|(bytes, fill)| vec![fill; bytes]),
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
                outgoing.close(&mut wire).unwrap();
            }
            if let Some((message, note)) = payload {
                let payload = [&vec![77; message][..], &vec![78; note]];
                said.extend(payload.concat());
                close_with(&mut outgoing, &mut wire, payload);
            }
        }
        outgoing.close(&mut wire).unwrap();
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
        ("sent back", keys(1, 2), Role::Connector),
        ("another connection", keys(9, 2), Role::Listener),
        ("another direction", keys(2, 1), Role::Listener),
    ] {
        let (_, mut incoming) = keys.into_records(role);
        let refused = (Vec::new(), Err(RecordError::Tag));
        assert_eq!(open(&mut incoming, &[&record]), refused, "{name}");
        assert_eq!(incoming.count(), 0);
    }
}

#[test]
fn a_length_is_checked_before_anything_is_waited_for() {
    let longest = (MAX_RECORD_BYTES - HEADER_BYTES) as u16;
    for (length, outcome) in [
        (0, Err(RecordError::Length(0))),
        (17, Err(RecordError::Length(17))),
        (18, Ok(())),
        (longest, Ok(())),
        (longest + 1, Err(RecordError::Length(longest + 1))),
        (u16::MAX, Err(RecordError::Length(u16::MAX))),
    ] {
        let [high, low] = length.to_be_bytes();
        assert_eq!(open(&mut ends().1, &[&[23, 3, 3, high, low]]).1, outcome, "{length}");
    }
}

#[test]
fn an_empty_record_is_never_made() {
    let (mut outgoing, mut incoming) = ends();
    let mut wire = Wire::new();
    outgoing.close(&mut wire).unwrap();
    outgoing.append(&mut wire, |_| {});
    close_with(&mut outgoing, &mut wire, [&[], &[]]);
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
    assert_eq!((outgoing.pending_bytes(), wire.len()), (3300, 0));
    outgoing.close(&mut wire).unwrap();
    assert_eq!((outgoing.pending_bytes(), wire.len()), (0, 3300 + OVERHEAD_BYTES));
    assert!(wire.len() <= with_records(3300));
}

#[test]
fn a_full_record_does_not_wait() {
    let (mut outgoing, mut incoming) = ends();
    let mut wire = Wire::new();
    outgoing.append(&mut wire, |queue| queue.extend_from_slice(&[3; 100]));
    let payload = vec![4; 3 * MAX_PLAIN_BYTES];
    outgoing.append_copy(&mut wire, payload.len(), |range, queue| {
        queue.extend_from_slice(&payload[range]);
    });
    assert_eq!((outgoing.pending_bytes(), wire.len()), (100, 3 * MAX_RECORD_BYTES));
    outgoing.close(&mut wire).unwrap();
    let said = [vec![3; 100], payload].concat();
    assert!(open(&mut incoming, &[&wire]) == (said, Ok(())));
}

/// Both ends renew their keys at the same record.
#[test]
fn a_stream_goes_on_beyond_the_life_of_a_key() {
    let (mut outgoing, mut incoming) = ends();
    let mut wire = Wire::new();
    for number in 0..RECORDS_A_KEY + 2 {
        let byte = number as u8;
        outgoing.append(&mut wire, |queue| queue.push(byte));
        outgoing.close(&mut wire).unwrap();
        if number % 1024 == 0 || number >= RECORDS_A_KEY - 1 {
            let opened = open(&mut incoming, &[&wire]);
            assert!(opened.1.is_ok() && opened.0.last() == Some(&byte), "record {number}");
            wire.clear();
        }
    }
    assert_eq!(incoming.count(), RECORDS_A_KEY + 2);
}

#[test]
fn nothing_of_a_key_is_shown() {
    let (mut outgoing, incoming) = ends();
    outgoing.append(&mut Wire::new(), |queue| queue.push(1));
    let shown = format!("{:?} {outgoing:?} {incoming:?}", keys(171, 171));
    assert!(shown.contains("TrafficSecret(…)") && !shown.contains("171"), "{shown}");
}
