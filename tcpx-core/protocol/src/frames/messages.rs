//! Messages, as frames speak of them: their names, the way of their bytes, the readiness of a
//! receiver, and their end. Pure.
//!
//! A sender *offers* a message. A receiver says that it is *ready* for one: a receive was posted, a
//! write may begin, a read is wanted. *Chunks* follow on the channels, *parts* on the link. The end
//! that has the last word about a message *ends* it.

use std::fmt;

use smallvec::SmallVec;

use super::fields::{Body, Delivery, Fields};
use crate::exports::refusal::{Refusal, Refused};
use crate::types::memory::OperationKind;
use crate::types::{MAX_EAGER_BYTES, MAX_LINK_CHUNK_BYTES, MAX_NOTIFICATION_BYTES};

/// Most receives whose messages share a chunk.
pub const MAX_NAMES: usize = 1024;
/// In the place of a note's length: there is none.
const NO_NOTE: u32 = u32::MAX;

/// A receiver's names for receives. A single one, which most chunks have, needs no allocation.
pub type Names = SmallVec<[u64; 2]>;

/// Name of the message that a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageId {
    /// The one that a receive waits for, by the receiver's name for that.
    Receive(u64),
    /// The oldest eager one with this tag that has no receive yet.
    Eager(i64),
    /// A read, by its initiator's name.
    Read(u64),
    /// A write, by its initiator's name.
    Write(u64),
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Receive(recv) => write!(f, "receive {recv:#x}"),
            Self::Eager(tag) => write!(f, "an eager message with tag {tag}"),
            Self::Read(op) => write!(f, "read {op:#x}"),
            Self::Write(op) => write!(f, "write {op:#x}"),
        }
    }
}

impl MessageId {
    /// Returns the name of a read or a write.
    pub fn of(kind: OperationKind, op: u64) -> Self {
        match kind {
            OperationKind::Read => Self::Read(op),
            OperationKind::Write => Self::Write(op),
        }
    }

    pub(super) fn encode(self, body: &mut Body) {
        let (kind, name) = match self {
            Self::Receive(recv) => (0, recv),
            Self::Eager(tag) => (1, tag as u64),
            Self::Read(op) => (2, op),
            Self::Write(op) => (3, op),
        };
        body.u8(kind).u64(name);
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let (kind, name) = (fields.u8()?, fields.u64()?);
        Some(match kind {
            0 => Self::Receive(name),
            1 => Self::Eager(name as i64),
            2 => Self::Read(name),
            3 => Self::Write(name),
            _ => return None,
        })
    }
}

/// Offer of a sender. The parts of it that follow the frame are in this order: its bytes, its note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// An eager message, sent before its receive is known. Its bytes follow.
    Eager {
        /// Tag.
        tag: i64,
        /// Bytes of the message.
        bytes: u32,
    },
    /// A write of a list.
    Write {
        /// The initiator's name for it.
        op: u64,
        /// Number of the list, given by the initiator.
        list: u32,
        /// Way on which its bytes come.
        way: WriteWay,
        /// Bytes of the note, if there is one.
        note: Option<u32>,
    },
    /// A notification by itself. Its bytes follow.
    Note {
        /// Bytes.
        bytes: u32,
    },
}

/// Way on which the bytes of a write come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteWay {
    /// This many follow the offer: all of a short list, or none of an empty one.
    Inline(u32),
    /// On the link, in chunks, which wait for no word of the target.
    Link,
    /// On the channels, once the target is ready.
    Channels,
}

impl Offer {
    /// Returns how many bytes follow the frame.
    pub(super) fn payload_bytes(&self) -> usize {
        match self {
            Self::Eager { bytes, .. } | Self::Note { bytes } => *bytes as usize,
            Self::Write { way, note, .. } => {
                let inline = if let WriteWay::Inline(bytes) = way { *bytes } else { 0 };
                inline as usize + note.unwrap_or_default() as usize
            }
        }
    }

    pub(super) fn encode(&self, body: &mut Body) {
        match self {
            Self::Eager { tag, bytes } => body.u8(0).u64(*tag as u64).u32(*bytes),
            Self::Note { bytes } => body.u8(1).u32(*bytes),
            Self::Write { op, list, way, note } => {
                let (way, inline) = match way {
                    WriteWay::Inline(bytes) => (2, *bytes),
                    WriteWay::Link => (3, 0),
                    WriteWay::Channels => (4, 0),
                };
                body.u8(way).u64(*op).u32(*list).u32(inline).u32(note.unwrap_or(NO_NOTE))
            }
        };
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        Some(match fields.u8()? {
            0 => Self::Eager { tag: fields.u64()? as i64, bytes: eager_bytes(fields.u32()?)? },
            1 => Self::Note { bytes: note_bytes(fields.u32()?)? },
            way @ 2..=4 => {
                let (op, list, inline) = (fields.u64()?, fields.u32()?, fields.u32()?);
                let note = match fields.u32()? {
                    NO_NOTE => None,
                    bytes => Some(note_bytes(bytes)?),
                };
                let way = match (way, inline) {
                    (2, bytes) => {
                        eager_bytes(bytes.checked_add(note.unwrap_or_default())?)?;
                        WriteWay::Inline(bytes)
                    }
                    (3, 0) => WriteWay::Link,
                    (4, 0) => WriteWay::Channels,
                    _ => return None,
                };
                Self::Write { op, list, way, note }
            }
            _ => return None,
        })
    }
}

/// Readiness of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// A receive was posted.
    Receive {
        /// The receiver's name for it.
        recv: u64,
        /// Tag.
        tag: i64,
        /// Bytes.
        bytes: u64,
        /// Delivery of the bytes.
        delivery: Delivery,
    },
    /// A write that was offered may begin, on the channels.
    Write {
        /// The initiator's name for it.
        op: u64,
        /// The target's name for the receive of the write.
        recv: u64,
        /// Whether each range is to travel by itself.
        cut: bool,
    },
    /// A list is to be read.
    Read {
        /// The initiator's name for the read.
        op: u64,
        /// Number of the list, given by the initiator.
        list: u32,
        /// Whether each range is to travel by itself.
        cut: bool,
        /// Whether its bytes may come on the link.
        on_link: bool,
    },
}

impl Ready {
    pub(super) fn encode(&self, body: &mut Body) {
        match self {
            Self::Receive { recv, tag, bytes, delivery } => {
                body.u8(0).u64(*recv).u64(*bytes).u64(*tag as u64).u8(delivery.to_wire())
            }
            Self::Write { op, recv, cut } => body.u8(1).u64(*op).u64(*recv).u8((*cut).into()),
            Self::Read { op, list, cut, on_link } => {
                body.u8(2).u64(*op).u32(*list).u8((*cut).into()).u8((*on_link).into())
            }
        };
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        Some(match fields.u8()? {
            0 => {
                let (recv, bytes, tag) = (fields.u64()?, fields.u64()?, fields.u64()? as i64);
                Self::Receive { recv, tag, bytes, delivery: Delivery::from_wire(fields.u8()?)? }
            }
            1 => Self::Write { op: fields.u64()?, recv: fields.u64()?, cut: fields.bool()? },
            2 => {
                let (op, list) = (fields.u64()?, fields.u32()?);
                Self::Read { op, list, cut: fields.bool()?, on_link: fields.bool()? }
            }
            _ => return None,
        })
    }
}

/// Chunks that follow on the channels: all or some of the bytes of one message, or several whole
/// messages that share one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// The receiver's names for the receives, 1 to [`MAX_NAMES`], in the order of their bytes.
    pub recvs: Names,
    /// Channel of the first chunk. The others follow round robin.
    pub first_channel: u16,
    /// Bytes of each chunk, but for the last: as agreed, or less.
    pub chunk_bytes: u32,
    /// Offset in the message at which they begin: where those before them end.
    pub offset: u64,
    /// Bytes of all of them: whole chunks, but for the end of the message.
    pub bytes: u64,
}

impl Chunks {
    /// Bytes of the body, but for the names.
    const FIXED_BYTES: usize = 22;
    /// Bytes of the body of those that are for one receive.
    pub(super) const BODY_BYTES: usize = Self::FIXED_BYTES + size_of::<u64>();
    /// Bytes of the longest body.
    pub(super) const MAX_BODY: usize = Self::FIXED_BYTES + MAX_NAMES * size_of::<u64>();

    #[inline]
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Body::default();
        body.u64(self.offset).u64(self.bytes).u16(self.first_channel).u32(self.chunk_bytes);
        if let [recv] = self.recvs[..] {
            body.u64(recv).append_to(out);
            return;
        }
        body.append_to(out);
        out.extend(self.recvs.iter().flat_map(|recv| recv.to_le_bytes()));
    }

    #[inline]
    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let (offset, bytes) = (fields.u64()?, fields.u64()?);
        let (first_channel, chunk_bytes) = (fields.u16()?, fields.u32()?);
        let (names, []) = fields.rest().as_chunks() else { return None };
        if !(1..=MAX_NAMES).contains(&names.len()) {
            return None;
        }
        let recvs = names.iter().copied().map(u64::from_le_bytes).collect();
        Some(Self { recvs, first_channel, chunk_bytes, offset, bytes })
    }
}

/// End of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its receiver has all of it; or has taken it out of the buffer, of one that went ahead.
    Done,
    /// Its receive was withdrawn, as was asked, and will not be matched.
    Withdrawn,
    /// Its send has this many bytes, and its receive others. Nothing will be sent.
    OtherSize(u64),
    /// Its receiver takes none of it, or no more.
    Refused(Refused),
    /// Its sender sends no more of it: all chunks and parts came before.
    Stopped(Refused),
}

impl Ended {
    pub(super) fn encode(self, body: &mut Body) {
        let mut refused = |kind, Refused { why, range }: Refused| {
            body.u8(kind).u8(why.to_wire()).u32(range);
        };
        match self {
            Self::Refused(why) => refused(3, why),
            Self::Stopped(why) => refused(4, why),
            Self::Done => {
                body.u8(0);
            }
            Self::Withdrawn => {
                body.u8(1);
            }
            Self::OtherSize(bytes) => {
                body.u8(2).u64(bytes);
            }
        }
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let kind = fields.u8()?;
        let mut refused =
            || Some(Refused { why: Refusal::from_wire(fields.u8()?)?, range: fields.u32()? });
        Some(match kind {
            3 => Self::Refused(refused()?),
            4 => Self::Stopped(refused()?),
            0 => Self::Done,
            1 => Self::Withdrawn,
            2 => Self::OtherSize(fields.u64()?),
            _ => return None,
        })
    }
}

/// Some bytes of a message that travels on the link, which follow a frame.
///
/// The cuts of a read or a write into chunks have no meaning. So the end that receives one may
/// take it in several, as its bytes come. A message with a tag is one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkChunk {
    /// The message.
    pub of: MessageId,
    /// Bytes.
    pub bytes: u32,
}

impl LinkChunk {
    /// Returns whether it may be taken in several.
    pub(super) fn may_be_cut(self) -> bool {
        matches!(self.of, MessageId::Read(_) | MessageId::Write(_))
    }

    /// Returns the first bytes of it, and no more than it has.
    pub fn first(self, bytes: usize) -> Self {
        Self { bytes: self.bytes.min(bytes.try_into().unwrap_or(u32::MAX)), ..self }
    }

    /// Returns the rest of it behind this many bytes, if there is any.
    pub fn after(self, bytes: usize) -> Option<Self> {
        let left = self.bytes - self.first(bytes).bytes;
        (left > 0).then_some(Self { bytes: left, ..self })
    }

    pub(super) fn encode(self, body: &mut Body) {
        self.of.encode(body);
        body.u32(self.bytes);
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let (of, bytes) = (MessageId::decode(fields)?, fields.u32()?);
        let is_fit = match of {
            MessageId::Receive(_) => bytes <= MAX_EAGER_BYTES,
            MessageId::Eager(_) => false,
            MessageId::Read(_) | MessageId::Write(_) => (1..=MAX_LINK_CHUNK_BYTES).contains(&bytes),
        };
        is_fit.then_some(Self { of, bytes })
    }
}

/// Returns how many bytes follow a frame that are taken with it, if they are no more than ever may.
fn eager_bytes(bytes: u32) -> Option<u32> {
    (bytes <= MAX_EAGER_BYTES).then_some(bytes)
}

/// Returns the number of bytes of a note, if one may have this many.
fn note_bytes(bytes: u32) -> Option<u32> {
    (bytes <= MAX_NOTIFICATION_BYTES).then_some(bytes)
}

#[cfg(test)]
pub(super) mod tests;
