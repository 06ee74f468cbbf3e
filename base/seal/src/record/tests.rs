//! Tests of records: those that open, and those that do not.

use proptest::prelude::*;
use tcpx_testkit::dropped::Remains;

use super::*;

const SUITES: [Suite; 2] = [Suite::Aes256Gcm, Suite::ChaCha20Poly1305];

fn pair(suite: Suite, records_a_key: u64) -> (Sealer, Opener) {
    let keys = || Keys::new(suite, TrafficSecret::new([7; 32]), records_a_key);
    (Sealer(keys()), Opener(keys()))
}

/// Opens all that has arrived, and returns the stream.
fn open_all(opener: &mut Opener, arrived: &mut [u8]) -> Result<Vec<u8>, RecordError> {
    let (mut at, mut stream) = (0, Vec::new());
    while let Some(opened) = opener.open(&mut arrived[at..])? {
        stream.extend_from_slice(&arrived[at..][opened.plain]);
        at += opened.bytes;
    }
    Ok(stream)
}

#[test]
fn long_stretches_take_several_records() {
    for suite in SUITES {
        let (mut sealer, mut opener) = pair(suite, RECORDS_A_KEY);
        let plain: Vec<u8> = (0..3 * MAX_PLAIN_BYTES + 5).map(|i| i as u8).collect();
        let mut queue = Vec::new();
        sealer.seal(&plain, &mut queue).unwrap();
        assert_eq!(queue.len(), plain.len() + 4 * OVERHEAD_BYTES);
        assert_eq!(open_all(&mut opener, &mut queue).unwrap(), plain);
        assert_eq!(opener.count(), 4);
    }
}

#[test]
fn bytes_elsewhere_and_bytes_in_place_make_the_same_record() {
    for suite in SUITES {
        let [mut appended, mut elsewhere, mut in_place] = [(); 3].map(|()| pair(suite, 9).0);
        for bytes in [1, 15, 16, 17, 1000, MAX_PLAIN_BYTES] {
            let plain: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
            let mut queue = Vec::new();
            appended.seal(&plain, &mut queue).unwrap();
            // The room behind a record stays as it is.
            let mut place = vec![0xee; bytes + OVERHEAD_BYTES + 3];
            assert_eq!(elsewhere.seal_into(&plain, &mut place), Ok(queue.len()));
            assert_eq!(place, [&queue[..], &[0xee; 3]].concat(), "{suite:?}, {bytes}");
            place[HEADER_BYTES..HEADER_BYTES + bytes].copy_from_slice(&plain);
            assert_eq!(in_place.seal_in_place(&mut place, bytes), Ok(queue.len()));
            assert_eq!(place, [&queue[..], &[0xee; 3]].concat(), "{suite:?}, {bytes}");
        }
    }
}

#[test]
fn a_record_opens_into_a_place_with_room_for_it_and_a_byte() {
    for suite in [Suite::Aes256Gcm, Suite::ChaCha20Poly1305] {
        let (mut sealer, mut opener) = pair(suite, 3);
        let plain: Vec<u8> = (0..70_000u32).map(|i| (i / 11) as u8).collect();
        let (mut queue, mut came) = (Vec::new(), Vec::new());
        sealer.seal(&plain, &mut queue).unwrap();
        let mut place = vec![0xaa; MAX_PLAIN_BYTES + 2];
        let mut rest = &queue[..];
        while !rest.is_empty() {
            assert_eq!(opener.open_into(&rest[..rest.len().min(30)], &mut place), Ok(None), "cut");
            assert_eq!(opener.open_into(rest, &mut place[..4_464]), Ok(None), "no room");
            let opened = opener.open_into(rest, &mut place).unwrap().unwrap();
            came.extend_from_slice(&place[..opened.plain.len()]);
            rest = &rest[opened.bytes..];
        }
        assert!(came == plain);
        assert_eq!((place[MAX_PLAIN_BYTES + 1], opener.count()), (0xaa, 5));
    }
}

#[test]
fn a_changed_record_leaves_zeros_in_its_place() {
    let (mut sealer, mut opener) = pair(Suite::fastest(), 9);
    let mut queue = Vec::new();
    sealer.seal(b"payload", &mut queue).unwrap();
    let mut place = [0xaa; 20];
    queue[9] ^= 1;
    assert_eq!(opener.open_into(&queue, &mut place), Err(RecordError::Tag));
    assert_eq!(place, [&[0; 8][..], &[0xaa; 12]].concat()[..]);
    queue[9] ^= 1;
    let opened = opener.open_into(&queue, &mut place).unwrap().unwrap();
    assert_eq!((opened.plain.len(), &place[..7]), (7, &b"payload"[..]));
}

#[test]
fn a_place_that_is_too_short_gets_no_record() {
    let mut sealer = pair(Suite::fastest(), 9).0;
    let mut place = [0xee; 4 + OVERHEAD_BYTES];
    for plain in [&[][..], b"hello", &[0; MAX_PLAIN_BYTES + 1]] {
        assert!(matches!(sealer.seal_into(plain, &mut place), Err(RecordError::Length(_))));
        let refused = sealer.seal_in_place(&mut place, plain.len());
        assert!(matches!(refused, Err(RecordError::Length(_))));
    }
    assert_eq!(place, [0xee; 4 + OVERHEAD_BYTES]);
    assert_eq!(sealer.seal_into(b"four", &mut place), Ok(place.len()));
}

#[test]
fn nothing_of_the_stream_is_in_clear() {
    let (mut sealer, _) = pair(Suite::Aes256Gcm, RECORDS_A_KEY);
    let mut queue = Vec::new();
    sealer.seal(&[0x5a; 1000], &mut queue).unwrap();
    assert!(!queue.windows(4).any(|bytes| bytes == [0x5a; 4]));
}

#[test]
fn every_flipped_bit_is_an_error() {
    for suite in SUITES {
        let mut queue = Vec::new();
        pair(suite, 9).0.seal(b"hello", &mut queue).unwrap();
        for bit in 0..queue.len() * 8 {
            let mut damaged = queue.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let opened = pair(suite, 9).1.open(&mut damaged);
            // A longer record is awaited; it will not open.
            assert!(matches!(opened, Err(_) | Ok(None)), "bit {bit}");
            assert!(bit / 8 == 3 || bit / 8 == 4 || opened.is_err(), "bit {bit}");
        }
    }
}

#[test]
fn a_record_fits_in_its_own_place_only() {
    let (mut sealer, mut opener) = pair(Suite::fastest(), RECORDS_A_KEY);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    sealer.seal(b"first", &mut first).unwrap();
    sealer.seal(b"second", &mut second).unwrap();
    assert_eq!(opener.open(&mut second.clone()), Err(RecordError::Tag), "left out");
    opener.open(&mut first.clone()).unwrap().unwrap();
    assert_eq!(opener.open(&mut first), Err(RecordError::Tag), "repeated");
    opener.open(&mut second.clone()).unwrap().unwrap();
    // The same place of another direction.
    let mut other = Opener::new(Suite::fastest(), TrafficSecret::new([8; 32]));
    let mut again = Vec::new();
    pair(Suite::fastest(), RECORDS_A_KEY).0.seal(b"first", &mut again).unwrap();
    assert_eq!(other.open(&mut again), Err(RecordError::Tag));
}

#[test]
fn a_key_is_renewed_by_count_and_never_used_again() {
    let (mut sealer, mut opener) = pair(Suite::fastest(), 3);
    let mut sealed = Vec::new();
    for number in 0..20u8 {
        let mut queue = Vec::new();
        sealer.seal(&[1; 64], &mut queue).unwrap();
        assert!(!sealed.contains(&queue), "record {number} was made before");
        sealed.push(queue.clone());
        assert_eq!(open_all(&mut opener, &mut queue).unwrap(), [1; 64]);
    }
    assert_eq!(opener.count(), 20);
    // An end that does not renew cannot follow.
    let (mut sealer, mut stale) = (pair(Suite::fastest(), 3).0, pair(Suite::fastest(), 9).1);
    let mut queue = Vec::new();
    (0..4).for_each(|_| sealer.seal(b"x", &mut queue).unwrap());
    assert_eq!(open_all(&mut stale, &mut queue), Err(RecordError::Tag));
}

#[test]
fn keys_leave_neither_their_secret_nor_their_nonce() {
    for suite in SUITES {
        let keys = || Keys::new(suite, TrafficSecret::new(*b"secret of a direction, 32 bytes."), 1);
        let (secret, iv) = (*b"secret of a direction, 32 bytes.", keys().iv[..].to_vec());
        let remains = Remains::of(keys());
        remains.assert_zeroed(&secret);
        remains.assert_zeroed(&iv);
        // After a renewal nothing is left of what was before.
        let mut renewed = keys();
        (0..2).for_each(|_| assert!(renewed.next().is_some()));
        let renewed = Remains::of(renewed).before;
        assert!(!renewed.windows(16).any(|part| part == &secret[..16]));
        assert!(!renewed.windows(6).any(|part| part == &iv[..6]));
    }
}

#[test]
fn lengths_that_no_record_has_are_refused_before_more_is_awaited() {
    let mut opener = pair(Suite::fastest(), 9).1;
    for length in [0u16, 17, 16_402, u16::MAX] {
        let mut header = super::header(length);
        assert_eq!(opener.open(&mut header), Err(RecordError::Length(length)));
        assert!(Opener::is_whole(&header));
    }
    assert_eq!(opener.open(&mut [22, 3, 3, 0, 40]), Err(RecordError::Header));
    assert_eq!(opener.open(&mut [23, 3, 3, 0]), Ok(None));
    assert!(!Opener::is_whole(&super::header(40)));
}

#[test]
fn a_record_takes_neither_nothing_nor_too_much() {
    let mut sealer = pair(Suite::fastest(), 9).0;
    let mut queue = b"before".to_vec();
    assert!(matches!(sealer.record(&mut queue, |_| {}), Err(RecordError::Length(_))));
    let too_much = |queue: &mut Vec<u8>| queue.resize(queue.len() + MAX_PLAIN_BYTES + 1, 0);
    assert!(matches!(sealer.record(&mut queue, too_much), Err(RecordError::Length(_))));
    assert_eq!(queue, b"before");
}

proptest! {
    #[test]
    fn what_is_sealed_is_opened_however_it_arrives(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..8),
        cut in 1usize..200,
    ) {
        let (mut sealer, mut opener) = pair(Suite::fastest(), 3);
        let mut sealed = Vec::new();
        for part in &parts {
            sealer.seal(part, &mut sealed).unwrap();
        }
        let (mut arrived, mut stream) = (Vec::new(), Vec::new());
        for piece in sealed.chunks(cut) {
            arrived.extend_from_slice(piece);
            while let Some(opened) = opener.open(&mut arrived).unwrap() {
                stream.extend_from_slice(&arrived[opened.plain]);
                arrived.drain(..opened.bytes);
            }
        }
        prop_assert_eq!(stream, parts.concat());
        prop_assert!(arrived.is_empty());
    }

    #[test]
    fn arbitrary_bytes_never_open(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = bytes;
        let mut opener = pair(Suite::fastest(), 3).1;
        prop_assert!(matches!(opener.open(&mut bytes), Err(_) | Ok(None)));
    }
}
