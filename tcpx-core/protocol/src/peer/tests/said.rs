//! Frames as the tests say and find them.

use crate::exports::capability::{ListedKey, ListedRange};
use crate::exports::refusal::{Refusal, Refused};
use crate::frames::fields::Delivery;
use crate::frames::frame::Frame;
use crate::frames::list_part::{ListHead, ListPart};
use crate::frames::messages::{Chunks, Ended, LinkChunk, MessageId, Names, Offer, Ready, WriteWay};
use crate::types::memory::OperationKind;

/// Says that a receive was posted, into memory that is unpacked to.
pub(super) fn announce(recv: u64, tag: i64, bytes: u64) -> Frame {
    Frame::Ready(Ready::Receive { recv, tag, bytes, delivery: Delivery::Unpacked })
}

/// Says that these bytes of a message follow on the channels.
pub(super) fn section(
    recv: u64,
    first_channel: u16,
    (offset, bytes): (u64, u64),
    chunk_bytes: u32,
) -> Frame {
    let recvs = Names::from_slice(&[recv]);
    Frame::Chunks(Chunks { recvs, first_channel, chunk_bytes, offset, bytes })
}

/// Says that these messages, of this many bytes together, follow on the first channel.
pub(super) fn matched(recvs: &[u64], bytes: u64, chunk_bytes: u32) -> Frame {
    let recvs = Names::from_slice(recvs);
    Frame::Chunks(Chunks { recvs, first_channel: 0, chunk_bytes, offset: 0, bytes })
}

/// Tells all of a list in one frame, with these totals.
pub(super) fn list(list: u32, head: ListHead, keys: &[ListedKey], ranges: &[ListedRange]) -> Frame {
    let (keys, ranges) = (keys.into(), ranges.into());
    Frame::List(Box::new(ListPart { list, head: Some(head), keys, ranges }))
}

/// Tells more of a list.
pub(super) fn more_of(list: u32, keys: &[ListedKey], ranges: &[ListedRange]) -> Frame {
    Frame::List(Box::new(ListPart { list, head: None, keys: keys.into(), ranges: ranges.into() }))
}

pub(super) fn write(op: u64, list: u32, way: WriteWay, note: Option<u32>) -> Frame {
    Frame::Offer(Offer::Write { op, list, way, note })
}

pub(super) fn read(op: u64, list: u32, on_link: bool) -> Frame {
    Frame::Ready(Ready::Read { op, list, cut: false, on_link })
}

pub(super) fn grant(op: u64, recv: u64) -> Frame {
    Frame::Ready(Ready::Write { op, recv, cut: false })
}

pub(super) fn note(bytes: u32) -> Frame {
    Frame::Offer(Offer::Note { bytes })
}

pub(super) fn link_chunk(kind: OperationKind, op: u64, bytes: u32) -> Frame {
    Frame::LinkChunk(LinkChunk { of: MessageId::of(kind, op), bytes })
}

/// Answers a write, for its target.
pub(super) fn answer(op: u64, refused: Option<Refusal>) -> Frame {
    let refused = refused.map(|why| Refused { why, range: 0 });
    let how = refused.map_or(Ended::Done, Ended::Refused);
    Frame::End { message: MessageId::Write(op), how }
}

/// Says, for the sender of a read or a write, that no more comes.
pub(super) fn stopped(kind: OperationKind, op: u64) -> Frame {
    let how = Ended::Stopped(Refused { why: Refusal::Cancelled, range: 0 });
    Frame::End { message: MessageId::of(kind, op), how }
}

/// Says, for the receiver, that it wants no more.
pub(super) fn halt(kind: OperationKind, op: u64) -> Frame {
    Frame::Cancel { message: MessageId::of(kind, op), why: Refusal::Cancelled }
}

pub(super) fn is_stopped(frame: &Frame) -> bool {
    matches!(frame, Frame::End { how: Ended::Stopped(_), .. })
}

pub(super) fn is_done(frame: &Frame) -> bool {
    matches!(frame, Frame::End { message: MessageId::Write(_), how: Ended::Done })
}

/// Returns whether it is about a read, a write, a list or a notification, and no chunks.
pub(super) fn is_one_sided(frame: &Frame) -> bool {
    let is_access =
        |message: &MessageId| matches!(message, MessageId::Read(_) | MessageId::Write(_));
    match frame {
        Frame::Offer(Offer::Write { .. } | Offer::Note { .. })
        | Frame::Ready(Ready::Write { .. } | Ready::Read { .. })
        | Frame::List(_)
        | Frame::Forget { .. } => true,
        Frame::LinkChunk(LinkChunk { of: message, .. })
        | Frame::End { message, .. }
        | Frame::Cancel { message, .. } => is_access(message),
        _ => false,
    }
}
