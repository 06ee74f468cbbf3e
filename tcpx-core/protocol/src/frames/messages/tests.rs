//! Frames about messages, as bytes and back.

use proptest::prelude::*;

use super::*;

fn any_refused() -> impl Strategy<Value = Refused> {
    (any_refusal(), any::<u32>()).prop_map(|(why, range)| Refused { why, range })
}

pub(in super::super) fn any_refusal() -> impl Strategy<Value = Refusal> {
    (1u8..=9).prop_map(|number| Refusal::from_wire(number).expect("it is one"))
}

pub(in super::super) fn any_message() -> impl Strategy<Value = MessageId> {
    prop_oneof![
        any::<u64>().prop_map(MessageId::Receive),
        any::<i64>().prop_map(MessageId::Eager),
        any::<u64>().prop_map(MessageId::Read),
        any::<u64>().prop_map(MessageId::Write),
    ]
}

pub(in super::super) fn any_offer() -> impl Strategy<Value = Offer> {
    let any_note = |most| proptest::option::of(0..=most);
    let half = MAX_EAGER_BYTES / 2;
    let any_way = prop_oneof![
        (0..=half).prop_map(WriteWay::Inline),
        Just(WriteWay::Link),
        Just(WriteWay::Channels)
    ];
    prop_oneof![
        (any::<i64>(), 0..=MAX_EAGER_BYTES).prop_map(|(tag, bytes)| Offer::Eager { tag, bytes }),
        (0..=MAX_NOTIFICATION_BYTES).prop_map(|bytes| Offer::Note { bytes }),
        (any::<(u64, u32)>(), any_way, any_note(half))
            .prop_map(|((op, list), way, note)| Offer::Write { op, list, way, note }),
    ]
}

pub(in super::super) fn any_ready() -> impl Strategy<Value = Ready> {
    let any_delivery = (0u8..3).prop_map(|it| Delivery::from_wire(it).expect("one of three"));
    prop_oneof![
        (any::<(u64, i64, u64)>(), any_delivery).prop_map(|((recv, tag, bytes), delivery)| {
            Ready::Receive { recv, tag, bytes, delivery }
        }),
        any::<(u64, u64, bool)>().prop_map(|(op, recv, cut)| Ready::Write { op, recv, cut }),
        any::<(u64, u32, bool, bool)>().prop_map(|(op, list, cut, on_link)| Ready::Read {
            op,
            list,
            cut,
            on_link
        }),
    ]
}

pub(in super::super) fn any_chunks() -> impl Strategy<Value = Chunks> {
    (any::<(u16, u32, u64, u64)>(), proptest::collection::vec(any::<u64>(), 1..=MAX_NAMES))
        .prop_map(|((first_channel, chunk_bytes, offset, bytes), recvs)| Chunks {
            recvs: recvs.into(),
            first_channel,
            chunk_bytes,
            offset,
            bytes,
        })
}

pub(in super::super) fn any_link_chunk() -> impl Strategy<Value = LinkChunk> {
    prop_oneof![
        (any::<u64>(), 0..=MAX_EAGER_BYTES)
            .prop_map(|(recv, bytes)| LinkChunk { of: MessageId::Receive(recv), bytes }),
        (any::<(u64, bool)>(), 1..=MAX_LINK_CHUNK_BYTES).prop_map(|((op, reads), bytes)| {
            let of = if reads { MessageId::Read(op) } else { MessageId::Write(op) };
            LinkChunk { of, bytes }
        }),
    ]
}

pub(in super::super) fn any_end() -> impl Strategy<Value = Ended> {
    prop_oneof![
        Just(Ended::Done),
        Just(Ended::Withdrawn),
        any::<u64>().prop_map(Ended::OtherSize),
        any_refused().prop_map(Ended::Refused),
        any_refused().prop_map(Ended::Stopped),
    ]
}

fn offered(offer: Offer) -> Option<Offer> {
    let (mut body, mut out) = (Body::default(), Vec::new());
    offer.encode(&mut body);
    body.append_to(&mut out);
    Offer::decode(&mut Fields::of(&out))
}

#[test]
fn no_more_bytes_follow_an_offer_than_ever_may() {
    let most = MAX_EAGER_BYTES;
    for (bytes, is_fit) in [(0, true), (most, true), (most + 1, false), (u32::MAX, false)] {
        let ahead = Offer::Eager { tag: -1, bytes };
        assert_eq!(offered(ahead), is_fit.then_some(ahead), "{bytes} bytes ahead");
    }
    for (bytes, note, is_fit) in [
        (most, None, true),
        (most, Some(0), true),
        (most, Some(1), false),
        (most - 1, Some(1), true),
        (u32::MAX, Some(1), false),
    ] {
        let write = Offer::Write { op: 1, list: 2, way: WriteWay::Inline(bytes), note };
        assert_eq!(offered(write), is_fit.then_some(write), "{bytes} bytes and {note:?}");
        assert!(!is_fit || write.payload_bytes() <= most as usize);
    }
    let most = MAX_NOTIFICATION_BYTES;
    for (bytes, is_fit) in [(most, true), (most + 1, false)] {
        assert_eq!(offered(Offer::Note { bytes }).is_some(), is_fit, "{bytes} bytes of a note");
        for way in [WriteWay::Link, WriteWay::Channels] {
            let write = Offer::Write { op: 1, list: 2, way, note: Some(bytes) };
            assert_eq!(offered(write).is_some(), is_fit, "{bytes} bytes with a write");
        }
    }
}

#[test]
fn parts_have_as_many_bytes_as_one_of_their_message_may() {
    let read = |of, bytes| {
        let (mut body, mut out) = (Body::default(), Vec::new());
        LinkChunk { of, bytes }.encode(&mut body);
        body.append_to(&mut out);
        LinkChunk::decode(&mut Fields::of(&out)) == Some(LinkChunk { of, bytes })
    };
    for of in [MessageId::Read(7), MessageId::Write(7)] {
        let most = MAX_LINK_CHUNK_BYTES;
        let fit = [0, 1, most, most + 1].map(|bytes| read(of, bytes));
        assert_eq!(fit, [false, true, true, false], "{of}");
    }
    let fit = [0, MAX_EAGER_BYTES, MAX_EAGER_BYTES + 1].map(|it| read(MessageId::Receive(7), it));
    assert_eq!(fit, [true, true, false]);
    assert!(!read(MessageId::Eager(7), 1), "it is offered with its bytes");
}

#[test]
fn what_is_taken_and_what_is_left_are_the_whole() {
    let part = |bytes| LinkChunk { of: MessageId::Write(7), bytes };
    for (bytes, first, left) in [
        (0, 0, Some(100)),
        (1, 1, Some(99)),
        (99, 99, Some(1)),
        (100, 100, None),
        (101, 100, None),
        (usize::MAX, 100, None),
    ] {
        let whole = part(100);
        assert_eq!((whole.first(bytes), whole.after(bytes)), (part(first), left.map(part)));
    }
}
