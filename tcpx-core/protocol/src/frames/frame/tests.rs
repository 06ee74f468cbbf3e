//! Frames on the wire and back.

use proptest::prelude::*;

use super::*;
use crate::frames::link_frame::FrameError;
use crate::frames::link_frame::tests::{survive_any_body, survive_the_wire};

fn any_frame() -> impl Strategy<Value = Frame> {
    prop_oneof![
        (0usize..65).prop_map(|count| Frame::Handles(vec![
            ChannelHandle(
                [count as u8; HANDLE_BYTES]
            );
            count
        ])),
        any_counts().prop_map(|credit| Frame::Ready { credit }),
        any::<(u64, i64, u64)>().prop_flat_map(|(recv, tag, bytes)| (0u8..3).prop_map(
            move |delivery| {
                let delivery = Delivery::from_wire(delivery).expect("one of three");
                Frame::Announce { recv, tag, bytes, delivery }
            }
        )),
        (any::<(u16, u32)>(), proptest::collection::vec(any::<u64>(), 1..=MAX_NAMES)).prop_map(
            |((first_channel, chunk_bytes), recvs)| {
                Frame::Match { first_channel, chunk_bytes, recvs: recvs.into() }
            }
        ),
        any::<(u64, u16, u64, u64, u32)>().prop_map(
            |(recv, first_channel, offset, bytes, chunk_bytes)| {
                Frame::Section { recv, first_channel, offset, bytes, chunk_bytes }
            }
        ),
        any::<(u64, u64)>().prop_map(|(recv, send_bytes)| Frame::Mismatch { recv, send_bytes }),
        any::<u64>().prop_map(|recv| Frame::Cancel { recv }),
        any::<u64>().prop_map(|recv| Frame::Cancelled { recv }),
        Just(Frame::Ping),
        Just(Frame::Pong),
        Just(Frame::Goodbye),
        Just(Frame::Closed),
        "\\PC{0,100}".prop_map(Frame::Abort),
        Just(Frame::AskSent),
        any_counts().prop_map(Frame::Sent),
        any_counts().prop_map(Frame::Credit),
        (any::<u64>(), 0..=MAX_EAGER_BYTES)
            .prop_map(|(recv, bytes)| Frame::Deliver { recv, bytes }),
        (any::<i64>(), 0..=MAX_EAGER_BYTES).prop_map(|(tag, bytes)| Frame::Ahead { tag, bytes }),
        any::<i64>().prop_map(|tag| Frame::Taken { tag }),
        (any_keeping(), any::<u64>()).prop_map(|(what, count)| Frame::MaySend { what, count }),
        super::one_sided::tests::any_frame().prop_map(Frame::OneSided),
    ]
}

fn any_keeping() -> impl Strategy<Value = Keeping> {
    prop_oneof![Just(Keeping::Receives), Just(Keeping::Ahead), Just(Keeping::Notes)]
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

#[test]
fn frames_of_posts_are_no_longer_than_room_is_made_for() {
    let bytes = |frame: Frame| {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        bytes.len()
    };
    let (recv, delivery) = (u64::MAX, Delivery::Unpacked);
    let announce = Frame::Announce { recv, tag: i64::MIN, bytes: u64::MAX, delivery };
    assert_eq!(bytes(announce), ANNOUNCE_FRAME_BYTES);
    let mismatch = Frame::Mismatch { recv, send_bytes: u64::MAX };
    assert!(bytes(mismatch) <= ANSWER_FRAME_BYTES);
    let (offset, first_channel) = (u64::MAX, u16::MAX);
    let section =
        Frame::Section { recv, first_channel, offset, bytes: u64::MAX, chunk_bytes: u32::MAX };
    assert_eq!(bytes(section), ANSWER_FRAME_BYTES);
    for names in [1, 2, MAX_NAMES] {
        let recvs = std::iter::repeat_n(recv, names).collect();
        let all = bytes(Frame::Match { first_channel: u16::MAX, chunk_bytes: u32::MAX, recvs });
        assert!(all <= names * ANSWER_FRAME_BYTES, "{all} bytes for {names}");
    }
}

#[test]
fn no_more_bytes_follow_a_frame_than_ever_may() {
    let decoded = |frame: &Frame| {
        let mut wire = Vec::new();
        frame.encode(&mut wire);
        assert!(wire.len() <= EAGER_FRAME_BYTES);
        Frame::decode(&wire).map(|decoded| decoded.map(|(frame, _)| frame.payload_bytes()))
    };
    let longest = MAX_EAGER_BYTES;
    for bytes in [0, longest] {
        let follow = Ok(Some(bytes as usize));
        assert_eq!(decoded(&Frame::Deliver { recv: u64::MAX, bytes }), follow);
        assert_eq!(decoded(&Frame::Ahead { tag: -1, bytes }), follow);
    }
    let too_long = Frame::Deliver { recv: 1, bytes: longest + 1 };
    assert_eq!(decoded(&too_long), Err(FrameError::Body(FrameKind::Deliver)));
    let too_long = Frame::Ahead { tag: 1, bytes: u32::MAX };
    assert_eq!(decoded(&too_long), Err(FrameError::Body(FrameKind::Ahead)));
}

#[test]
fn matches_name_at_least_one_receive_and_no_more_than_a_run_has() {
    let decode = |names: usize| {
        let frame =
            Frame::Match { first_channel: 0, chunk_bytes: 1, recvs: (0..names as u64).collect() };
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        Frame::decode(&bytes).map(|decoded| decoded.map(|(frame, _)| frame) == Some(frame))
    };
    assert_eq!(decode(1), Ok(true));
    assert_eq!(decode(MAX_NAMES), Ok(true), "the longest fits a frame");
    assert_eq!(decode(0), Err(FrameError::Body(FrameKind::Match)));
    assert_eq!(decode(MAX_NAMES + 1), Err(FrameError::Body(FrameKind::Match)));
}
