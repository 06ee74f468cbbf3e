//! Common part of the frames of the control link: their kinds, and their encoding as bytes.
//!
//! The header is that of [`tcpx_wire::frame`]. A link speaks two sets of frames, one after the
//! other: [`HandshakeFrame`](super::handshake_frame::HandshakeFrame) until both ends are proven,
//! then [`Frame`](super::frame::Frame). A header is refused before its body arrives when the body
//! is too long for the set, or when the kind is not of the set. The bytes of a small message follow
//! some frames: these bytes are no part of the frame, and are not decoded.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use tcpx_wire::frame::{self, HEADER_BYTES, Header};

use super::messages::LinkChunk;

/// Version of all frames. Two ends with different versions do not talk.
pub const PROTOCOL_VERSION: u16 = 21;
/// Longest reason in words that is sent or read.
const MAX_REASON_BYTES: usize = 400;

/// Kind of a frame, with its number on the wire. The first four kinds never change: ends of two
/// versions say by them that they cannot talk. The others belong to their version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum FrameKind {
    /// The listener's nonce.
    Challenge = 1,
    /// Hello of the connector.
    Hello,
    /// Hello of the listener.
    Welcome,
    /// Reason why there is no connection.
    Refuse,
    /// The connector's proof of the secret, before the ends exchange keys.
    Opening,
    /// Bytes of the exchange of keys.
    Tls,
    /// Handles of listen comms.
    Handles,
    /// All receive comms are accepted.
    Open,
    /// A sign of life is wanted.
    Ping,
    /// It is given, with the number of chunks sent.
    Pong,
    /// No more posts.
    Goodbye,
    /// Send comms are closed.
    Closed,
    /// Reason why the sender gives up.
    Abort,
    /// Limit of what may be sent.
    Credit,
    /// Number of chunks that are unpacked.
    Unpacked,
    /// A channel is lost.
    ChannelLost,
    /// Chunks of a lost channel go to another.
    Redeal,
    /// A message is offered.
    Offer,
    /// A receiver is ready for one.
    Ready,
    /// Bytes of messages, on the channels.
    Chunks,
    /// Bytes of a message, on the link.
    LinkChunk,
    /// End of a message.
    End,
    /// No more of a message is wanted.
    Cancel,
    /// A list of ranges, or more of it.
    List,
    /// A list is not needed any more.
    Forget,
}

impl FrameKind {
    const ALL: [Self; 25] = [
        Self::Challenge,
        Self::Hello,
        Self::Welcome,
        Self::Refuse,
        Self::Opening,
        Self::Tls,
        Self::Handles,
        Self::Open,
        Self::Ping,
        Self::Pong,
        Self::Goodbye,
        Self::Closed,
        Self::Abort,
        Self::Credit,
        Self::Unpacked,
        Self::ChannelLost,
        Self::Redeal,
        Self::Offer,
        Self::Ready,
        Self::Chunks,
        Self::LinkChunk,
        Self::End,
        Self::Cancel,
        Self::List,
        Self::Forget,
    ];

    fn from_wire(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// Reason why bytes are no frame of the set that is spoken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The header of a frame.
    #[error(transparent)]
    Header(#[from] frame::FrameError),
    /// Both ends agreed on one protocol version, so this is no newer frame but an error.
    #[error("frame of unknown kind {0}")]
    UnknownKind(u16),
    /// The kind is of the other set.
    #[error("a frame {0:?} at the wrong time")]
    WrongTime(FrameKind),
    /// The body of a frame of this kind.
    #[error("the body of a frame {0:?} is malformed")]
    Body(FrameKind),
}

/// A set of frames: what may travel at one time in the life of a link.
pub trait LinkFrame: Sized {
    /// The kinds of the set.
    const KINDS: RangeInclusive<FrameKind>;
    /// Longest body that is read, in bytes.
    const MAX_BODY: usize;

    /// Returns the kind of this frame.
    fn kind(&self) -> FrameKind;

    /// Returns the number of bytes of a message that follow the frame.
    fn payload_bytes(&self) -> usize {
        0
    }

    /// Returns the chunk that it is, if it is one that may be taken in several.
    fn as_chunk(&self) -> Option<LinkChunk> {
        None
    }

    /// Returns the frame that is this chunk, if the set has any.
    fn from_chunk(_chunk: LinkChunk) -> Option<Self> {
        None
    }

    /// Appends the body to `out`.
    fn encode_body(&self, out: &mut Vec<u8>);

    /// Reads a body of one of the [`KINDS`](Self::KINDS). `None`: it is malformed.
    fn decode_body(kind: FrameKind, body: &[u8]) -> Option<Self>;

    /// Appends the frame to `out`. Allocates only when `out` has to grow.
    fn encode(&self, out: &mut Vec<u8>) {
        frame::append(out, self.kind() as u16, |out| self.encode_body(out));
    }

    /// Reads the frame at the front of `bytes`, and says how many bytes it has. `None`: more bytes
    /// are needed.
    #[inline]
    fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, FrameError> {
        let Some((header, rest)) = bytes.split_first_chunk() else { return Ok(None) };
        let Header { kind, body_bytes } = Header::decode(*header, Self::MAX_BODY)?;
        let kind = FrameKind::from_wire(kind).ok_or(FrameError::UnknownKind(kind))?;
        if !Self::KINDS.contains(&kind) {
            return Err(FrameError::WrongTime(kind));
        }
        let Some(body) = rest.get(..body_bytes) else { return Ok(None) };
        let frame = Self::decode_body(kind, body).ok_or(FrameError::Body(kind))?;
        Ok(Some((frame, HEADER_BYTES + body_bytes)))
    }
}

/// Reads a body that is this value and nothing more.
pub fn exactly<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

/// Reads a body that is a reason in words.
pub fn reason(body: &[u8]) -> Option<String> {
    exactly::<&str>(body).map(|text| shortened(text).to_owned())
}

/// Appends a reason in words, shortened to what is read.
pub fn append_reason(out: &mut Vec<u8>, reason: &str) {
    append(out, &shortened(reason));
}

/// Appends a value that [`exactly`] reads.
pub fn append<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    struct Appender<'a>(&'a mut Vec<u8>);
    impl Extend<u8> for Appender<'_> {
        fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
            self.0.extend(bytes);
        }
    }
    // Writing plain types into a growing vector cannot fail. If it ever did, the reader would
    // refuse the short body.
    let _ = postcard::to_extend(value, Appender(out));
}

fn shortened(text: &str) -> &str {
    let mut ends = (0..=text.len().min(MAX_REASON_BYTES)).rev();
    &text[..ends.find(|&end| text.is_char_boundary(end)).unwrap_or(0)]
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fmt::Debug;

    use super::*;
    use crate::frames::frame::Frame;
    use crate::frames::handshake_frame::HandshakeFrame;

    /// Writes frames into one stream and reads them back. A frame that has not arrived in full is
    /// no error, whatever the cut.
    pub(crate) fn survive_the_wire<F: LinkFrame + Debug + PartialEq>(frames: &[F]) {
        let mut wire = Vec::new();
        for frame in frames {
            frame.encode(&mut wire);
        }
        let mut rest = wire.as_slice();
        for frame in frames {
            assert_eq!(F::decode(&rest[..HEADER_BYTES - 1]), Ok(None));
            let (read, taken) = F::decode(rest).unwrap().unwrap();
            assert_eq!(F::decode(&rest[..taken - 1]), Ok(None));
            assert_eq!(&read, frame);
            rest = &rest[taken..];
        }
        assert!(rest.is_empty());
    }

    /// Reads any body as a frame of each kind of a set: it must not panic.
    pub(crate) fn survive_any_body<F: LinkFrame>(body: &[u8]) {
        for kind in FrameKind::ALL.into_iter().filter(|kind| F::KINDS.contains(kind)) {
            let _ = F::decode_body(kind, body);
        }
    }

    /// Returns the answer to a header alone.
    fn header<F: LinkFrame>(bytes: u32, kind: u16) -> Result<bool, FrameError> {
        let header = [&bytes.to_le_bytes()[..], &kind.to_le_bytes(), &[0, 0]].concat();
        F::decode(&header).map(|frame| frame.is_some())
    }

    #[test]
    fn every_kind_belongs_to_one_set_and_keeps_its_number() {
        for (number, kind) in (1..).zip(FrameKind::ALL) {
            assert_eq!((kind as u16, FrameKind::from_wire(number)), (number, Some(kind)));
            let is_handshake = number <= 6;
            assert_eq!(HandshakeFrame::KINDS.contains(&kind), is_handshake, "{kind:?}");
            assert_eq!(Frame::KINDS.contains(&kind), !is_handshake, "{kind:?}");
        }
    }

    #[test]
    fn a_header_is_refused_before_its_body_arrives() {
        let oversized = frame::FrameError::Oversized { bytes: 2000, limit: 1024 };
        assert_eq!(header::<HandshakeFrame>(2000, 2), Err(FrameError::Header(oversized)));
        for kind in [0, FrameKind::ALL.len() as u16 + 1, u16::MAX] {
            assert_eq!(header::<HandshakeFrame>(1, kind), Err(FrameError::UnknownKind(kind)));
            assert_eq!(header::<Frame>(1, kind), Err(FrameError::UnknownKind(kind)));
        }
        let wrong_time = |kind| Err(FrameError::WrongTime(kind));
        assert_eq!(header::<HandshakeFrame>(1, 11), wrong_time(FrameKind::Goodbye));
        assert_eq!(header::<Frame>(1, 2), wrong_time(FrameKind::Hello));
        assert_eq!(header::<HandshakeFrame>(1, 2), Ok(false));
        assert_eq!(header::<Frame>(1, 11), Ok(false));
    }

    #[test]
    fn other_protocols_are_refused_by_their_first_bytes() {
        for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"SSH-2.0-OpenSSH_9\r\n"] {
            assert!(HandshakeFrame::decode(words).is_err());
        }
    }
}
