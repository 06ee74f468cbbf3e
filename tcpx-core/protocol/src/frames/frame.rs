//! The frames of a control link between two peers: everything after the handshake. Those about
//! messages say it in the words of [`messages`](super::messages).

use std::ops::RangeInclusive;

use smallvec::SmallVec;
use tcpx_wire::frame::HEADER_BYTES;

use super::eager_terms::CreditKind;
use super::fields::{Body, ChannelHandle, Fields, HANDLE_BYTES};
use super::link_frame::{FrameKind, LinkFrame, append_reason, reason};
use super::list_part::{LIST_BYTES, ListPart};
use super::messages::{Chunks, Ended, LinkChunk, MessageId, Offer, Ready};
use crate::exports::refusal::Refusal;
use crate::types::MAX_CHANNELS;

/// Chunks counted from the first one, by channel.
pub type ChunkCounts = SmallVec<[u64; 2]>;

/// Statement of one end to the other.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// Connect handles of the sender's listen comms, one for each channel.
    Handles(Vec<ChannelHandle>),
    /// All receive comms of the sender are accepted: its peer may send chunks.
    Open {
        /// Number of chunks that there is room for on each channel, until a credit says more.
        /// Empty: any number, and no credits come.
        credit: ChunkCounts,
    },
    /// Are you there?
    Ping,
    /// I am, and the plugin has said of this many chunks on each channel that they are sent. Empty:
    /// the channels are not open.
    Pong(ChunkCounts),
    /// I will post nothing more, and everything matched has finished here.
    Goodbye,
    /// My send comms are closed.
    Closed,
    /// I give up, and why.
    Abort(String),
    /// This much of what you make me keep may come, counted from the first one.
    Credit {
        /// Kind of what may be sent.
        what: CreditKind,
        /// Number in all: of chunks on each channel, of all else one number.
        counts: ChunkCounts,
    },
    /// I have unpacked this many chunks on each channel, counted from the first one.
    Unpacked(ChunkCounts),
    /// This channel is lost, both ways: I have closed my comms, and deal it nothing more.
    ChannelLost {
        /// The channel.
        channel: u16,
        /// Number of chunks of it that I have unpacked, counted from the first one.
        unpacked: u64,
    },
    /// What I had dealt to a lost channel, and you have not unpacked, comes on another one, behind
    /// what I have dealt to that so far.
    Redeal {
        /// The channel that is lost.
        lost: u16,
        /// The other one.
        onto: u16,
    },
    /// A message is offered.
    Offer(Offer),
    /// A receiver is ready for a message.
    Ready(Ready),
    /// Bytes of messages follow on the channels.
    Chunks(Chunks),
    /// Bytes of a message follow this frame.
    LinkChunk(LinkChunk),
    /// A message ends.
    End {
        /// Which.
        message: MessageId,
        /// How.
        how: Ended,
    },
    /// The receiver of a message wants no more of it. A receive is withdrawn, unless it is matched
    /// already.
    Cancel {
        /// Which.
        message: MessageId,
        /// Why.
        why: Refusal,
    },
    /// A list, or more of it.
    List(Box<ListPart>),
    /// A list is not needed any more.
    Forget {
        /// Number of the list, given by the initiator.
        list: u32,
    },
}

/// Bytes of a frame that announces a receive.
pub const READY_FRAME_BYTES: usize = HEADER_BYTES + 26;
/// Most bytes that a frame has for each of the receives that it answers.
pub const ANSWER_FRAME_BYTES: usize = HEADER_BYTES + Chunks::BODY_BYTES;
/// Most bytes of a frame that the bytes of a tagged message follow.
pub const EAGER_FRAME_BYTES: usize = HEADER_BYTES + 13;

impl Frame {
    /// Returns whether it is about a message, or a list.
    pub(crate) fn is_of_message(&self) -> bool {
        self.kind() >= FrameKind::Offer
    }

    /// Returns whether it says something because the peer has asked.
    pub fn is_answer(&self) -> bool {
        match self {
            Self::Pong(_) | Self::Ready(Ready::Write { .. }) => true,
            Self::End { message, .. } => {
                matches!(message, MessageId::Read(_) | MessageId::Write(_))
            }
            _ => false,
        }
    }

    /// Makes the frame that ends a receive, by the receiver's name for it: the receive waits no
    /// more, because its send ends.
    pub(crate) fn end_of(recv: u64, how: Ended) -> Self {
        Self::End { message: MessageId::Receive(recv), how }
    }

    /// Makes the frame that says that the oldest message with this tag that went ahead is out of
    /// the buffer.
    pub(crate) fn taken(tag: i64) -> Self {
        Self::End { message: MessageId::Eager(tag), how: Ended::Done }
    }

    /// Makes the frame that says that this much may come of something that is no chunk.
    pub(crate) fn may_send(what: CreditKind, count: u64) -> Self {
        Self::Credit { what, counts: ChunkCounts::from_slice(&[count]) }
    }
}

impl LinkFrame for Frame {
    const KINDS: RangeInclusive<FrameKind> = FrameKind::Handles..=FrameKind::Forget;
    /// Lists are the longest.
    const MAX_BODY: usize = 16 * 1024;

    fn kind(&self) -> FrameKind {
        match self {
            Self::Handles(_) => FrameKind::Handles,
            Self::Open { .. } => FrameKind::Open,
            Self::Ping => FrameKind::Ping,
            Self::Pong(_) => FrameKind::Pong,
            Self::Goodbye => FrameKind::Goodbye,
            Self::Closed => FrameKind::Closed,
            Self::Abort(_) => FrameKind::Abort,
            Self::Credit { .. } => FrameKind::Credit,
            Self::Unpacked(_) => FrameKind::Unpacked,
            Self::ChannelLost { .. } => FrameKind::ChannelLost,
            Self::Redeal { .. } => FrameKind::Redeal,
            Self::Offer(_) => FrameKind::Offer,
            Self::Ready(_) => FrameKind::Ready,
            Self::Chunks(_) => FrameKind::Chunks,
            Self::LinkChunk(_) => FrameKind::LinkChunk,
            Self::End { .. } => FrameKind::End,
            Self::Cancel { .. } => FrameKind::Cancel,
            Self::List(_) => FrameKind::List,
            Self::Forget { .. } => FrameKind::Forget,
        }
    }

    fn payload_bytes(&self) -> usize {
        match self {
            Self::Offer(offer) => offer.payload_bytes(),
            Self::LinkChunk(chunk) => chunk.bytes as usize,
            _ => 0,
        }
    }

    fn as_chunk(&self) -> Option<LinkChunk> {
        match self {
            Self::LinkChunk(chunk) if chunk.may_be_cut() => Some(*chunk),
            _ => None,
        }
    }

    fn from_chunk(chunk: LinkChunk) -> Option<Self> {
        Some(Self::LinkChunk(chunk))
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        let mut body = Body::default();
        match self {
            Self::Handles(handles) => {
                for handle in handles {
                    out.extend_from_slice(&handle.0);
                }
            }
            Self::Open { credit: counts } | Self::Pong(counts) | Self::Unpacked(counts) => {
                append_counts(out, counts);
            }
            Self::ChannelLost { channel, unpacked } => {
                body.u16(*channel).u64(*unpacked);
            }
            Self::Redeal { lost, onto } => {
                body.u16(*lost).u16(*onto);
            }
            Self::Ping | Self::Goodbye | Self::Closed => {}
            Self::Abort(reason) => append_reason(out, reason),
            Self::Credit { what, counts } => {
                out.push(what.to_wire());
                append_counts(out, counts);
            }
            Self::Offer(offer) => offer.encode(&mut body),
            Self::Ready(ready) => ready.encode(&mut body),
            Self::Chunks(chunks) => chunks.encode(out),
            Self::LinkChunk(chunk) => chunk.encode(&mut body),
            Self::End { message, how } => {
                message.encode(&mut body);
                how.encode(&mut body);
            }
            Self::Cancel { message, why } => {
                message.encode(&mut body);
                body.u8(why.to_wire());
            }
            Self::List(list) => list.encode(out),
            Self::Forget { list } => {
                body.u32(*list);
            }
        }
        body.append_to(out);
    }

    fn decode_body(kind: FrameKind, body: &[u8]) -> Option<Self> {
        let mut fields = Fields::of(body);
        let frame = match kind {
            FrameKind::Handles => {
                let (handles, []) = fields.rest().as_chunks::<HANDLE_BYTES>() else { return None };
                Self::Handles(handles.iter().copied().map(ChannelHandle).collect())
            }
            FrameKind::Open => Self::Open { credit: counts(&mut fields)? },
            FrameKind::Ping => Self::Ping,
            FrameKind::Pong => Self::Pong(counts(&mut fields)?),
            FrameKind::Goodbye => Self::Goodbye,
            FrameKind::Closed => Self::Closed,
            FrameKind::Abort => Self::Abort(reason(fields.rest())?),
            FrameKind::Credit => {
                let (what, counts) = (CreditKind::from_wire(fields.u8()?)?, counts(&mut fields)?);
                let is_fit = what == CreditKind::Chunks || counts.len() == 1;
                is_fit.then_some(Self::Credit { what, counts })?
            }
            FrameKind::Unpacked => Self::Unpacked(counts(&mut fields)?),
            FrameKind::ChannelLost => {
                Self::ChannelLost { channel: fields.u16()?, unpacked: fields.u64()? }
            }
            FrameKind::Redeal => Self::Redeal { lost: fields.u16()?, onto: fields.u16()? },
            FrameKind::Offer => Self::Offer(Offer::decode(&mut fields)?),
            FrameKind::Ready => Self::Ready(Ready::decode(&mut fields)?),
            FrameKind::Chunks => Self::Chunks(Chunks::decode(&mut fields)?),
            FrameKind::LinkChunk => Self::LinkChunk(LinkChunk::decode(&mut fields)?),
            FrameKind::End => Self::End {
                message: MessageId::decode(&mut fields)?,
                how: Ended::decode(&mut fields)?,
            },
            FrameKind::Cancel => Self::Cancel {
                message: MessageId::decode(&mut fields)?,
                why: Refusal::from_wire(fields.u8()?)?,
            },
            FrameKind::List => Self::List(Box::new(ListPart::decode(&mut fields)?)),
            FrameKind::Forget => Self::Forget { list: fields.u32()? },
            FrameKind::Challenge
            | FrameKind::Hello
            | FrameKind::Welcome
            | FrameKind::Refuse
            | FrameKind::Opening
            | FrameKind::Tls => return None,
        };
        fields.is_at_end().then_some(frame)
    }
}

const _: () = assert!(Chunks::MAX_BODY <= Frame::MAX_BODY);
const _: () = assert!(LIST_BYTES + ListPart::FRONT_BYTES <= Frame::MAX_BODY);
const _: () = assert!(MAX_CHANNELS as usize * HANDLE_BYTES <= Frame::MAX_BODY);

fn append_counts(out: &mut Vec<u8>, counts: &ChunkCounts) {
    out.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
}

fn counts(fields: &mut Fields<'_>) -> Option<ChunkCounts> {
    let (counts, []) = fields.rest().as_chunks() else { return None };
    let is_possible = counts.len() <= usize::from(MAX_CHANNELS);
    is_possible.then(|| counts.iter().copied().map(u64::from_le_bytes).collect())
}

#[cfg(test)]
mod tests;
