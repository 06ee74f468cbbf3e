//! Requests that a correct peer may make as well: they are refused, and the peer stays.

use tcpx_tests::proxy::kind;

use super::arena::BYTES;
use super::frames::{
    EndFrame, WireKey, how, keys, list, list_of, ranges, read, why, write, write_now,
};
use super::target::{LONG, TargetSetup};

/// From here on the hostile peer's numbers of lists are not those of the correct peer.
const LIST: u32 = 1 << 20;

/// The same key with one bit of its secret changed.
fn forged(key: &WireKey) -> WireKey {
    let mut forged = *key;
    forged[23] ^= 0x80;
    forged
}

/// The same secret for another number.
fn of_another_number(key: &WireKey, number: u64) -> WireKey {
    let mut other = *key;
    other[..8].copy_from_slice(&number.to_le_bytes());
    other
}

#[test]
fn keys_and_ranges_that_open_nothing_are_refused() {
    /// Offset at which a range of this many bytes begins.
    type From = fn(u64) -> u64;
    const BEGINNING: From = |_| 0;
    let past_the_end: From = |bytes| BYTES - bytes + 1;
    let wraps: From = |bytes| u64::MAX - bytes + 1;
    let wraps_into_it: From = |bytes| u64::MAX - bytes + 2;
    let setup = TargetSetup::new();
    let hostile = setup.hostile("hostile");
    let key = hostile.write_key;
    let other = setup.key_of_another_session();
    let mut number = 2 * LIST;
    for (case, key, from, expected) in [
        ("a secret that is not right", forged(&key), BEGINNING, why::UNKNOWN_KEY),
        ("a key of another session", other, BEGINNING, why::UNKNOWN_KEY),
        ("a number never used", of_another_number(&key, 1 << 40), BEGINNING, why::UNKNOWN_KEY),
        ("no number", of_another_number(&key, 0), BEGINNING, why::UNKNOWN_KEY),
        ("a stable number", of_another_number(&key, 1 << 63), BEGINNING, why::UNKNOWN_KEY),
        ("one byte past the end", key, past_the_end, why::OUT_OF_RANGE),
        ("an offset past everything", key, |_| u64::MAX, why::OUT_OF_RANGE),
        ("an end that wraps", key, wraps, why::OUT_OF_RANGE),
        ("an end that wraps to the first byte", key, wraps_into_it, why::OUT_OF_RANGE),
        ("for another purpose", hostile.read_key, BEGINNING, why::ACCESS),
    ] {
        for is_now in [false, true] {
            number += 1;
            let request = 7 << 32 | u64::from(number);
            let bytes = if is_now { 64 } else { LONG };
            // The second range is good, which helps the first one nothing.
            hostile.send_frames(&list(
                number,
                true,
                &key,
                &[(0, from(bytes - 1), bytes - 1), (0, 0, 1)],
            ));
            hostile.send_frames(&match is_now {
                true => write_now(request, number, &[1; 64]),
                false => write(request, number),
            });
            let answer = EndFrame::of(&hostile.receive_frame(kind::END));
            let (is_write, how, why, range) = (true, how::REFUSED, expected, 0);
            let refused = EndFrame { is_write, request, how, why, range };
            assert_eq!(answer, refused, "{case}, in one go: {is_now}");
        }
        setup.assert_unharmed(case);
    }
    // It reads as little.
    hostile.send_frames(&list(LIST + 1, false, &hostile.write_key, &[(0, 0, LONG)]));
    hostile.send_frames(&list(LIST + 2, false, &hostile.read_key, &[(0, 0, 1), (0, 1, BYTES)]));
    for (number, expected, range) in [(LIST + 1, why::ACCESS, 0), (LIST + 2, why::OUT_OF_RANGE, 1)]
    {
        hostile.send_frames(&read(5, number));
        let stopped = EndFrame::of(&hostile.receive_frame(kind::STOPPED));
        assert!(!stopped.is_write && stopped.request == 5, "a read, by its name: {stopped:?}");
        assert_eq!((stopped.why, stopped.range), (expected, range));
    }
    // A key that is good helps one that is not nothing.
    hostile.send_frames(&list_of(LIST, false, (2, 2), 128));
    hostile.send_frames(
        &[keys(LIST, &[hostile.read_key, other]), ranges(LIST, &[(0, 0, 64), (1, 0, 64)])].concat(),
    );
    hostile.send_frames(&read(5, LIST));
    let stopped = EndFrame::of(&hostile.receive_frame(kind::STOPPED));
    assert_eq!((stopped.why, stopped.range), (why::UNKNOWN_KEY, 1));
    // The target knows a list of what is revoked, and gets another one.
    hostile.send_frames(&list(LIST + 3, true, &key, &[(0, 0, 64)]));
    hostile.wait_until_handled();
    setup.target.unexport(&setup.writable).expect("nothing uses it");
    hostile.send_frames(&list(LIST + 4, true, &key, &[(0, 0, 64)]));
    for number in [LIST + 3, LIST + 4] {
        hostile.send_frames(&write_now(6, number, &[1; 64]));
        let answer = EndFrame::of(&hostile.receive_frame(kind::END));
        assert_eq!((answer.how, answer.why), (how::REFUSED, why::REVOKED), "list {number}");
    }
    hostile.end();
    setup.end("keys and ranges");
}
