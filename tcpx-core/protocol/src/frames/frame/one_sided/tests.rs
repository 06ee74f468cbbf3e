//! Frames about exported memory, made up.

use proptest::prelude::*;

use super::*;

fn any_refusal() -> impl Strategy<Value = Refusal> {
    (1u8..=9).prop_map(|number| Refusal::from_wire(number).expect("it is one"))
}

fn any_kind() -> impl Strategy<Value = OperationKind> {
    prop_oneof![Just(OperationKind::Read), Just(OperationKind::Write)]
}

fn any_key() -> impl Strategy<Value = ListedKey> {
    any::<(u64, [u8; 16])>().prop_map(|(export, secret)| ListedKey {
        export: ExportId::from_wire(export),
        secret: ExportSecret::new(secret),
    })
}

fn any_range() -> impl Strategy<Value = ListedRange> {
    any::<(u32, u64, u64)>().prop_map(|(key, offset, bytes)| ListedRange { key, offset, bytes })
}

pub(in super::super) fn any_frame() -> impl Strategy<Value = OneSidedFrame> {
    use OneSidedFrame as F;
    let any_note = || proptest::option::of(0..=MAX_NOTIFICATION_BYTES);
    let half = MAX_EAGER_BYTES / 2;
    prop_oneof![
        (any::<(u32, u32, u32, u64)>(), any_kind()).prop_map(
            |((list, keys, ranges, bytes), kind)| F::List { list, kind, keys, ranges, bytes }
        ),
        (any::<u32>(), proptest::collection::vec(any_key(), 1..=MAX_KEYS))
            .prop_map(|(list, keys)| F::ListKeys { list, keys: keys.into() }),
        (any::<u32>(), proptest::collection::vec(any_range(), 1..=MAX_RANGES))
            .prop_map(|(list, ranges)| F::ListRanges { list, ranges: ranges.into() }),
        any::<u32>().prop_map(|list| F::Forget { list }),
        (any::<(u64, u32, bool)>(), any_note()).prop_map(|((op, list, on_link), note)| F::Write {
            op,
            list,
            note,
            on_link
        }),
        (any::<u64>(), any_kind(), 1..=MAX_PART_BYTES)
            .prop_map(|(op, kind, bytes)| F::Part(LinkPart { kind, op, bytes })),
        (any::<(u64, u32)>(), 1..=half, proptest::option::of(0..=half))
            .prop_map(|((op, list), bytes, note)| F::WriteNow { op, list, bytes, note }),
        any::<(u64, u32, bool, bool)>().prop_map(|(op, list, cut, on_link)| F::Read {
            op,
            list,
            cut,
            on_link
        }),
        any::<(u64, u64, bool)>().prop_map(|(op, recv, cut)| F::Grant { op, recv, cut }),
        (any::<u64>(), any_refusal(), any_kind()).prop_map(|(op, why, kind)| F::Halt {
            kind,
            op,
            why
        }),
        (any::<(u64, u32)>(), any_refusal(), any_kind())
            .prop_map(|((op, range), why, kind)| F::Stopped { kind, op, why, range }),
        (any::<(u64, u32)>(), proptest::option::of(any_refusal()))
            .prop_map(|((op, range), why)| F::Answer { op, why, range }),
        (0..=MAX_NOTIFICATION_BYTES).prop_map(|bytes| F::Notify { bytes }),
    ]
}

#[test]
fn what_follows_a_frame_is_never_longer_than_it_may_be() {
    let too_long =
        OneSidedFrame::WriteNow { op: 1, list: 2, bytes: MAX_EAGER_BYTES, note: Some(1) };
    let mut body = Vec::new();
    too_long.encode_body(&mut body);
    assert_eq!(OneSidedFrame::decode_body(FrameKind::WriteNow, &body), None);
    body[12..16].copy_from_slice(&(MAX_EAGER_BYTES - 1).to_le_bytes());
    assert!(OneSidedFrame::decode_body(FrameKind::WriteNow, &body).is_some());
    let most = MAX_PART_BYTES;
    for (bytes, is_fit) in [(0, false), (1, true), (most, true), (most + 1, false)] {
        let part = OneSidedFrame::Part(LinkPart { kind: OperationKind::Read, op: 7, bytes });
        let mut body = Vec::new();
        part.encode_body(&mut body);
        let read = OneSidedFrame::decode_body(FrameKind::Part, &body);
        assert_eq!(read, is_fit.then_some(part), "{bytes}");
    }
    for (bytes, is_fit) in [(MAX_NOTIFICATION_BYTES, true), (MAX_NOTIFICATION_BYTES + 1, false)] {
        let body = bytes.to_le_bytes();
        assert_eq!(OneSidedFrame::decode_body(FrameKind::Notify, &body).is_some(), is_fit);
    }
}

#[test]
fn lists_have_something_and_no_more_than_a_frame_holds() {
    for (kind, each, most) in
        [(FrameKind::ListKeys, 24, MAX_KEYS), (FrameKind::ListRanges, 20, MAX_RANGES)]
    {
        for (count, is_fit) in [(0, false), (1, true), (most, true), (most + 1, false)] {
            let body = vec![0; 4 + each * count];
            assert_eq!(OneSidedFrame::decode_body(kind, &body).is_some(), is_fit, "{count}");
        }
        assert!(OneSidedFrame::decode_body(kind, &vec![0; 4 + each + 1]).is_none());
    }
}
