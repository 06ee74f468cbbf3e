//! Frames on the wire and back.

use proptest::prelude::*;

use super::*;
use crate::frames::fields::Delivery;
use crate::frames::link_frame::FrameError;
use crate::frames::link_frame::tests::{survive_any_body, survive_the_wire};
use crate::frames::list_part::tests::any_list_part;
use crate::frames::messages::tests::{
    any_chunks, any_end, any_link_chunk, any_message, any_offer, any_ready, any_refusal,
};
use crate::frames::messages::{MAX_NAMES, Names};

fn any_frame() -> impl Strategy<Value = Frame> {
    let handles = |count| vec![ChannelHandle([count as u8; HANDLE_BYTES]); count];
    prop_oneof![
        (0usize..65).prop_map(move |count| Frame::Handles(handles(count))),
        any_counts().prop_map(|credit| Frame::Open { credit }),
        Just(Frame::Ping),
        any_counts().prop_map(Frame::Pong),
        any_counts().prop_map(Frame::Unpacked),
        (any::<u16>(), any::<u64>())
            .prop_map(|(channel, unpacked)| Frame::ChannelLost { channel, unpacked }),
        (any::<u16>(), any::<u16>()).prop_map(|(lost, onto)| Frame::Redeal { lost, onto }),
        Just(Frame::Goodbye),
        Just(Frame::Closed),
        "\\PC{0,100}".prop_map(Frame::Abort),
        any_counts().prop_map(|counts| Frame::Credit { what: CreditKind::Chunks, counts }),
        (any_keeping(), any::<u64>()).prop_map(|(what, count)| Frame::may_send(what, count)),
        any_offer().prop_map(Frame::Offer),
        any_ready().prop_map(Frame::Ready),
        any_chunks().prop_map(Frame::Chunks),
        any_link_chunk().prop_map(Frame::LinkChunk),
        (any_message(), any_end()).prop_map(|(message, how)| Frame::End { message, how }),
        (any_message(), any_refusal()).prop_map(|(message, why)| Frame::Cancel { message, why }),
        any_list_part().prop_map(|chunk| Frame::List(Box::new(chunk))),
        any::<u32>().prop_map(|list| Frame::Forget { list }),
    ]
}

fn any_keeping() -> impl Strategy<Value = CreditKind> {
    prop_oneof![Just(CreditKind::Receives), Just(CreditKind::Unexpected), Just(CreditKind::Notes)]
}

fn any_counts() -> impl Strategy<Value = ChunkCounts> {
    proptest::collection::vec(any::<u64>(), 0..=usize::from(MAX_CHANNELS)).prop_map_into()
}

proptest! {
    #[test]
    fn frames_survive_the_wire_in_order(
        frames in proptest::collection::vec(any_frame(), 0..20),
    ) {
        survive_the_wire(&frames);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Frame::decode(&bytes);
        survive_any_body::<Frame>(&bytes);
    }
}

fn encoded(frame: &Frame) -> Vec<u8> {
    let mut wire = Vec::new();
    frame.encode(&mut wire);
    wire
}

#[test]
fn frames_of_posts_are_no_longer_than_room_is_made_for() {
    let (recv, delivery) = (u64::MAX, Delivery::Unpacked);
    let ready = Ready::Receive { recv, tag: i64::MIN, bytes: u64::MAX, delivery };
    assert_eq!(encoded(&Frame::Ready(ready)).len(), READY_FRAME_BYTES);
    let other_size = Frame::end_of(recv, Ended::OtherSize(u64::MAX));
    assert!(encoded(&other_size).len() <= ANSWER_FRAME_BYTES);
    for names in [1, 2, MAX_NAMES] {
        let recvs: Names = std::iter::repeat_n(recv, names).collect();
        let (first_channel, chunk_bytes) = (u16::MAX, u32::MAX);
        let (offset, bytes) = (u64::MAX, u64::MAX);
        let chunks = Chunks { recvs, first_channel, chunk_bytes, offset, bytes };
        let all = encoded(&Frame::Chunks(chunks)).len();
        assert!(all <= names * ANSWER_FRAME_BYTES, "{all} bytes for {names}");
    }
    let bytes = u32::from(u16::MAX);
    let chunk = LinkChunk { of: MessageId::Receive(recv), bytes };
    for frame in [Frame::LinkChunk(chunk), Frame::Offer(Offer::Eager { tag: i64::MIN, bytes })] {
        assert!(encoded(&frame).len() <= EAGER_FRAME_BYTES, "{frame:?}");
    }
}

#[test]
fn chunks_are_of_at_least_one_receive_and_no_more_than_a_run_has() {
    let decode = |names: usize| {
        let recvs = (0..names as u64).collect();
        let chunks =
            Chunks { recvs, first_channel: 0, chunk_bytes: 1, offset: 0, bytes: names as u64 };
        let frame = Frame::Chunks(chunks);
        let decoded = Frame::decode(&encoded(&frame));
        decoded.map(|decoded| decoded.map(|(frame, _)| frame) == Some(frame))
    };
    assert_eq!(decode(1), Ok(true));
    assert_eq!(decode(MAX_NAMES), Ok(true), "the longest fits a frame");
    assert_eq!(decode(0), Err(FrameError::Body(FrameKind::Chunks)));
    assert_eq!(decode(MAX_NAMES + 1), Err(FrameError::Body(FrameKind::Chunks)));
}

#[test]
fn a_credit_of_anything_but_chunks_is_one_number() {
    for (count, is_fit) in [(0, false), (1, true), (2, false)] {
        let counts = ChunkCounts::from_elem(5, count);
        let frame = Frame::Credit { what: CreditKind::Notes, counts };
        assert_eq!(Frame::decode(&encoded(&frame)).is_ok(), is_fit, "{count} numbers");
    }
}

#[test]
fn a_chunk_of_a_message_with_a_tag_is_taken_whole() {
    let chunk = |of| Frame::LinkChunk(LinkChunk { of, bytes: 9 });
    assert!(chunk(MessageId::Write(1)).as_chunk().is_some());
    assert!(chunk(MessageId::Receive(1)).as_chunk().is_none());
    assert_eq!(chunk(MessageId::Receive(1)).payload_bytes(), 9);
}
