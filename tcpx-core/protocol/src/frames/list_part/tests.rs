//! Parts of lists on the wire.

use proptest::prelude::*;

use super::*;

fn any_key() -> impl Strategy<Value = ListedKey> {
    any::<(u64, [u8; 16])>().prop_map(|(export, secret)| ListedKey {
        export: ExportId::from_wire(export),
        secret: ExportSecret::new(secret),
    })
}

fn any_range() -> impl Strategy<Value = ListedRange> {
    any::<(u32, u64, u64)>().prop_map(|(key, offset, bytes)| ListedRange { key, offset, bytes })
}

fn any_head() -> impl Strategy<Value = ListHead> {
    any::<(bool, u32, u32, u64)>().prop_map(|(writes, keys, ranges, bytes)| {
        let kind = if writes { OperationKind::Write } else { OperationKind::Read };
        ListHead { kind, keys, ranges, bytes }
    })
}

/// Returns a part that says something.
pub(in super::super) fn any_list_part() -> impl Strategy<Value = ListPart> {
    let parts = (
        any::<u32>(),
        proptest::option::of(any_head()),
        proptest::collection::vec(any_key(), 0..340),
        proptest::collection::vec(any_range(), 0..=408),
    );
    parts.prop_map(|(list, head, keys, mut ranges)| {
        if head.is_none() && keys.is_empty() && ranges.is_empty() {
            ranges.push(ListedRange { key: 0, offset: 1, bytes: 2 });
        }
        ListPart { list, head, keys: keys.into(), ranges: ranges.into() }
    })
}

/// Returns a part of this many keys and ranges, as bytes and back.
fn decoded(keys: usize, ranges: usize) -> Option<ListPart> {
    let key = ListedKey { export: ExportId::from_wire(1), secret: ExportSecret::new([2; 16]) };
    let range = ListedRange { key: 0, offset: 0, bytes: 1 };
    let part = ListPart {
        list: 7,
        head: None,
        keys: vec![key; keys].into(),
        ranges: vec![range; ranges].into(),
    };
    let mut body = Vec::new();
    part.encode(&mut body);
    let mut fields = Fields::of(&body);
    let read = ListPart::decode(&mut fields).filter(|_| fields.is_at_end());
    assert!(read.is_none() || read == Some(part));
    read
}

#[test]
fn a_part_says_something_and_no_more_than_a_frame_holds() {
    let (keys, ranges) = (LIST_BYTES / KEY_BYTES, LIST_BYTES / RANGE_BYTES);
    for (keys, ranges, is_fit) in [
        (0, 0, false),
        (1, 0, true),
        (0, 1, true),
        (keys, 0, true),
        (keys + 1, 0, false),
        (0, ranges, true),
        (0, ranges + 1, false),
        (5, ranges - 6, true),
        (5, ranges - 5, false),
    ] {
        assert_eq!(decoded(keys, ranges).is_some(), is_fit, "{keys} keys and {ranges} ranges");
    }
}

#[test]
fn keys_that_are_counted_and_do_not_come_are_found_out() {
    let mut body = Vec::new();
    decoded(2, 1).expect("it is whole").encode(&mut body);
    for count in [0u16, 1, 3, u16::MAX] {
        body[4..6].copy_from_slice(&count.to_le_bytes());
        let read = ListPart::decode(&mut Fields::of(&body));
        // Two keys and a range are 68 bytes: three ranges and some, or a key, two ranges and some.
        assert_eq!(read, None, "{count} keys");
    }
}
