//! The frames of a control link between two peers: everything after the handshake. Those about
//! exported memory are in [`one_sided`].

pub mod one_sided;

use std::ops::RangeInclusive;

use smallvec::SmallVec;
use tcpx_wire::frame::HEADER_BYTES;

use self::one_sided::OneSidedFrame;
use super::eager_terms::Keeping;
use super::fields::{Delivery, LinkPart};
use super::link_frame::{FrameKind, LinkFrame, append, append_reason, exactly, reason};
use crate::frames::fields::{ChannelHandle, HANDLE_BYTES};
use crate::types::{MAX_CHANNELS, MAX_EAGER_BYTES};

/// Most receives that one match names.
pub const MAX_NAMES: usize = 1024;

/// A receiver's names for receives. A single one, which most matches have, needs no allocation.
pub type Names = SmallVec<[u64; 4]>;

/// Chunks counted from the first one, by channel.
pub type ChunkCounts = SmallVec<[u64; 4]>;

/// One message between two peers.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// Connect handles of the sender's listen comms, one for each channel.
    Handles(Vec<ChannelHandle>),
    /// All receive comms of the sender are accepted: its peer may send chunks.
    Ready {
        /// How many there is room for on each channel, until a credit says more. Empty: for any
        /// number, and no credits come.
        credit: ChunkCounts,
    },
    /// A receive was posted.
    Announce {
        /// The receiver's name for it.
        recv: u64,
        /// Tag.
        tag: i64,
        /// Bytes.
        bytes: u64,
        /// Where they go.
        delivery: Delivery,
    },
    /// So much of what you make me keep may come, counted from the first one.
    MaySend {
        /// What may be sent.
        what: Keeping,
        /// How much in all, counted from the first.
        count: u64,
    },
    /// Sends were matched with announced receives. Their chunks follow on the channels, in the
    /// order of the matches.
    Match {
        /// Channel of the first chunk. The others follow round robin.
        first_channel: u16,
        /// Bytes of each chunk, but for the last: as agreed, or less.
        chunk_bytes: u32,
        /// The receiver's names for the receives, 1 to [`MAX_NAMES`]. Several share one chunk, in
        /// this order.
        recvs: Names,
    },
    /// The next section of a long message is dealt, which is longer than a chunk and has a receive
    /// of its own. The first section is the match of its receive, and others follow each in turn.
    Section {
        /// The receiver's name for the receive.
        recv: u64,
        /// Channel of the first chunk. The others follow round robin.
        first_channel: u16,
        /// Where the section begins in the message: where the one before it ends.
        offset: u64,
        /// Bytes of the section: whole chunks, but for the end of the message.
        bytes: u64,
        /// Bytes of each chunk, but for the last: as agreed, or less.
        chunk_bytes: u32,
    },
    /// A send met an announced receive of another size. Both have failed, and nothing will be sent.
    Mismatch {
        /// The receiver's name for the receive.
        recv: u64,
        /// Bytes of the send.
        send_bytes: u64,
    },
    /// Withdraw an announced receive, unless it is matched already.
    Cancel {
        /// The receiver's name for it.
        recv: u64,
    },
    /// The receive was withdrawn and will not be matched.
    Cancelled {
        /// The receiver's name for it.
        recv: u64,
    },
    /// Are you there?
    Ping,
    /// I am.
    Pong,
    /// I will post nothing more, and everything matched has finished here.
    Goodbye,
    /// My send comms are closed.
    Closed,
    /// I give up, and why.
    Abort(String),
    /// How many chunks have you sent on each channel?
    AskSent,
    /// So many: the plugin has said of each that it is sent.
    Sent(ChunkCounts),
    /// You may send so many chunks on each channel, counted from the first one.
    Credit(ChunkCounts),
    /// A send was matched with an announced receive, and here are its bytes: they follow the frame.
    Deliver {
        /// The receiver's name for the receive.
        recv: u64,
        /// Bytes of the message.
        bytes: u32,
    },
    /// A send that found no announced receive goes ahead. Its bytes follow the frame.
    Ahead {
        /// Tag.
        tag: i64,
        /// Bytes of the message.
        bytes: u32,
    },
    /// The oldest message that went ahead with this tag is out of the buffer: a receive that was
    /// not announced has it, or there will be none.
    Taken {
        /// Tag.
        tag: i64,
    },
    /// About memory that one end exports.
    OneSided(OneSidedFrame),
}

const ANNOUNCE_BYTES: usize = 25;
/// Bytes of a frame that announces a receive.
pub const ANNOUNCE_FRAME_BYTES: usize = HEADER_BYTES + ANNOUNCE_BYTES;
const SECTION_BYTES: usize = 30;
/// Most bytes that a frame has for each of the receives that it answers: of those that answer one,
/// a section is the longest; a match has six bytes, and eight for each.
pub const ANSWER_FRAME_BYTES: usize = HEADER_BYTES + SECTION_BYTES;
/// Most bytes of a frame that bytes of a message follow.
pub const EAGER_FRAME_BYTES: usize = HEADER_BYTES + 12;

impl Frame {
    /// Whether it says something because the peer has asked.
    pub fn is_answer(&self) -> bool {
        match self {
            Self::Pong | Self::Sent(_) => true,
            Self::OneSided(frame) => matches!(
                frame,
                OneSidedFrame::Answer { .. }
                    | OneSidedFrame::Stopped { .. }
                    | OneSidedFrame::Grant { .. }
            ),
            _ => false,
        }
    }
}

impl LinkFrame for Frame {
    const KINDS: RangeInclusive<FrameKind> = FrameKind::Handles..=FrameKind::MaySend;
    /// The ranges of a list are the longest, and the handles of 64 channels.
    const MAX_BODY: usize = 16 * 1024;

    fn kind(&self) -> FrameKind {
        match self {
            Self::Handles(_) => FrameKind::Handles,
            Self::Ready { .. } => FrameKind::Ready,
            Self::Announce { .. } => FrameKind::Announce,
            Self::MaySend { .. } => FrameKind::MaySend,
            Self::Match { .. } => FrameKind::Match,
            Self::Section { .. } => FrameKind::Section,
            Self::Mismatch { .. } => FrameKind::Mismatch,
            Self::Cancel { .. } => FrameKind::Cancel,
            Self::Cancelled { .. } => FrameKind::Cancelled,
            Self::Ping => FrameKind::Ping,
            Self::Pong => FrameKind::Pong,
            Self::Goodbye => FrameKind::Goodbye,
            Self::Closed => FrameKind::Closed,
            Self::Abort(_) => FrameKind::Abort,
            Self::AskSent => FrameKind::AskSent,
            Self::Sent(_) => FrameKind::Sent,
            Self::Credit(_) => FrameKind::Credit,
            Self::Deliver { .. } => FrameKind::Deliver,
            Self::Ahead { .. } => FrameKind::Ahead,
            Self::Taken { .. } => FrameKind::Taken,
            Self::OneSided(frame) => frame.kind(),
        }
    }

    fn payload_bytes(&self) -> usize {
        match self {
            Self::Deliver { bytes, .. } | Self::Ahead { bytes, .. } => *bytes as usize,
            Self::OneSided(frame) => frame.payload_bytes(),
            _ => 0,
        }
    }

    fn as_part(&self) -> Option<LinkPart> {
        match self {
            Self::OneSided(OneSidedFrame::Part(part)) => Some(*part),
            _ => None,
        }
    }

    fn from_part(part: LinkPart) -> Option<Self> {
        Some(Self::OneSided(OneSidedFrame::Part(part)))
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Handles(handles) => {
                for handle in handles {
                    out.extend_from_slice(&handle.0);
                }
            }
            Self::Announce { recv, tag, bytes, delivery } => {
                let mut body = [0; ANNOUNCE_BYTES];
                body[..8].copy_from_slice(&recv.to_le_bytes());
                body[8..16].copy_from_slice(&bytes.to_le_bytes());
                body[16..24].copy_from_slice(&tag.to_le_bytes());
                body[24] = delivery.to_wire();
                out.extend_from_slice(&body);
            }
            Self::Match { recvs, first_channel, chunk_bytes } => {
                out.extend_from_slice(&first_channel.to_le_bytes());
                out.extend_from_slice(&chunk_bytes.to_le_bytes());
                out.extend(recvs.iter().flat_map(|recv| recv.to_le_bytes()));
            }
            Self::Section { recv, first_channel, offset, bytes, chunk_bytes } => {
                let mut body = [0; SECTION_BYTES];
                body[..8].copy_from_slice(&recv.to_le_bytes());
                body[8..16].copy_from_slice(&offset.to_le_bytes());
                body[16..24].copy_from_slice(&bytes.to_le_bytes());
                body[24..26].copy_from_slice(&first_channel.to_le_bytes());
                body[26..].copy_from_slice(&chunk_bytes.to_le_bytes());
                out.extend_from_slice(&body);
            }
            Self::Mismatch { recv, send_bytes } => append(out, &(recv, send_bytes)),
            Self::Cancel { recv } | Self::Cancelled { recv } => append(out, recv),
            Self::Ping | Self::Pong | Self::Goodbye | Self::Closed | Self::AskSent => {}
            Self::Ready { credit: chunks } | Self::Sent(chunks) | Self::Credit(chunks) => {
                out.extend(chunks.iter().flat_map(|count| count.to_le_bytes()))
            }
            Self::Abort(reason) => append_reason(out, reason),
            Self::Deliver { recv, bytes } => {
                out.extend_from_slice(&recv.to_le_bytes());
                out.extend_from_slice(&bytes.to_le_bytes());
            }
            Self::Ahead { tag, bytes } => {
                out.extend_from_slice(&tag.to_le_bytes());
                out.extend_from_slice(&bytes.to_le_bytes());
            }
            Self::Taken { tag } => out.extend_from_slice(&tag.to_le_bytes()),
            Self::MaySend { what, count } => {
                out.push(what.to_wire());
                out.extend_from_slice(&count.to_le_bytes());
            }
            Self::OneSided(frame) => frame.encode_body(out),
        }
    }

    fn decode_body(kind: FrameKind, body: &[u8]) -> Option<Self> {
        Some(match kind {
            FrameKind::Handles => {
                let (handles, []) = body.as_chunks::<HANDLE_BYTES>() else { return None };
                Self::Handles(handles.iter().copied().map(ChannelHandle).collect())
            }
            FrameKind::Announce => announce(body)?,
            FrameKind::Match => {
                let (first_channel, rest) = body.split_first_chunk()?;
                let (chunk_bytes, names) = rest.split_first_chunk()?;
                let (names, []) = names.as_chunks() else { return None };
                if !(1..=MAX_NAMES).contains(&names.len()) {
                    return None;
                }
                let recvs = names.iter().copied().map(u64::from_le_bytes).collect();
                Self::Match {
                    first_channel: u16::from_le_bytes(*first_channel),
                    chunk_bytes: u32::from_le_bytes(*chunk_bytes),
                    recvs,
                }
            }
            FrameKind::Section => section(body)?,
            FrameKind::Mismatch => {
                let (recv, send_bytes) = exactly(body)?;
                Self::Mismatch { recv, send_bytes }
            }
            FrameKind::Cancel => Self::Cancel { recv: exactly(body)? },
            FrameKind::Cancelled => Self::Cancelled { recv: exactly(body)? },
            FrameKind::Ready => Self::Ready { credit: counts(body)? },
            FrameKind::Ping if body.is_empty() => Self::Ping,
            FrameKind::Pong if body.is_empty() => Self::Pong,
            FrameKind::Goodbye if body.is_empty() => Self::Goodbye,
            FrameKind::Closed if body.is_empty() => Self::Closed,
            FrameKind::Abort => Self::Abort(reason(body)?),
            FrameKind::AskSent if body.is_empty() => Self::AskSent,
            FrameKind::Sent => Self::Sent(counts(body)?),
            FrameKind::Credit => Self::Credit(counts(body)?),
            FrameKind::Deliver => {
                let (recv, bytes) = body.split_first_chunk()?;
                Self::Deliver { recv: u64::from_le_bytes(*recv), bytes: payload_bytes(bytes)? }
            }
            FrameKind::Ahead => {
                let (tag, bytes) = body.split_first_chunk()?;
                Self::Ahead { tag: i64::from_le_bytes(*tag), bytes: payload_bytes(bytes)? }
            }
            FrameKind::Taken => Self::Taken { tag: i64::from_le_bytes(body.try_into().ok()?) },
            FrameKind::MaySend => {
                let (what, count) = body.split_first()?;
                Self::MaySend {
                    what: Keeping::from_wire(*what)?,
                    count: u64::from_le_bytes(count.try_into().ok()?),
                }
            }
            kind => Self::OneSided(OneSidedFrame::decode_body(kind, body)?),
        })
    }
}

fn counts(body: &[u8]) -> Option<ChunkCounts> {
    let (counts, []) = body.as_chunks() else { return None };
    let is_possible = counts.len() <= usize::from(MAX_CHANNELS);
    is_possible.then(|| counts.iter().copied().map(u64::from_le_bytes).collect())
}

/// How many bytes follow the frame, if they are no more than ever may.
fn payload_bytes(body: &[u8]) -> Option<u32> {
    let bytes = u32::from_le_bytes(body.try_into().ok()?);
    (bytes <= MAX_EAGER_BYTES).then_some(bytes)
}

fn announce(body: &[u8]) -> Option<Frame> {
    let (recv, rest) = body.split_first_chunk()?;
    let (bytes, rest) = rest.split_first_chunk()?;
    let (tag, rest) = rest.split_first_chunk()?;
    let [delivery] = *rest else { return None };
    Some(Frame::Announce {
        recv: u64::from_le_bytes(*recv),
        tag: i64::from_le_bytes(*tag),
        bytes: u64::from_le_bytes(*bytes),
        delivery: Delivery::from_wire(delivery)?,
    })
}

fn section(body: &[u8]) -> Option<Frame> {
    let (recv, rest) = body.split_first_chunk()?;
    let (offset, rest) = rest.split_first_chunk()?;
    let (bytes, rest) = rest.split_first_chunk()?;
    let (first_channel, rest) = rest.split_first_chunk()?;
    let (chunk_bytes, []) = rest.split_first_chunk()? else { return None };
    Some(Frame::Section {
        recv: u64::from_le_bytes(*recv),
        first_channel: u16::from_le_bytes(*first_channel),
        offset: u64::from_le_bytes(*offset),
        bytes: u64::from_le_bytes(*bytes),
        chunk_bytes: u32::from_le_bytes(*chunk_bytes),
    })
}

#[cfg(test)]
mod tests;
