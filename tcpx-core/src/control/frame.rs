//! Frames of the control link.
//!
//! Headers are those of [`tcpx_wire::frame`]. The length is checked against the limit of the link's
//! stage before anything is allocated. Types are never reused. An unknown type is a protocol error,
//! because both ends agreed on one protocol version in their hellos.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use tcpx_sys::{HANDLE_BYTES, NetHandle};
use tcpx_wire::frame::{self, HEADER_BYTES, Header};

use super::delivery::Delivery;
use super::hello::{Challenge, Proven};

/// Version of everything in this module. Two ends with different versions do not talk.
pub(crate) const PROTOCOL_VERSION: u16 = 3;
/// Longest body from somebody who has not proven who they are.
pub(crate) const MAX_STRANGER_BODY: usize = 1024;
/// Longest body of a peer: handles of 64 channels are the largest.
pub(crate) const MAX_PEER_BODY: usize = 16 * 1024;
/// Longest reason in words that is sent or read.
const MAX_REASON_BYTES: usize = 400;

/// Most receives that one match names.
pub(crate) const MAX_NAMES: usize = 1024;

/// A receiver's names for receives. A single one, which most matches have, needs no allocation.
pub(crate) type Names = SmallVec<[u64; 4]>;

/// One message of the control link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Frame {
    /// Listener → connector, first of all: a fresh nonce.
    Challenge(Challenge),
    /// Connector → listener: who I am, proven with the listener's nonce.
    Hello(Box<Proven>),
    /// Listener → connector: who I am, proven with the connector's nonce.
    Welcome(Box<Proven>),
    /// We do not fit together.
    Refuse(String),
    /// Connect handles of the sender's listen comms, one for each channel.
    Handles(Vec<NetHandle>),
    /// All receive comms of the sender are accepted: its peer may send chunks.
    Ready,
    /// A receive was posted.
    Announce {
        /// The receiver's name for it.
        recv: u64,
        /// Tag.
        tag: i32,
        /// Bytes.
        bytes: u64,
        /// Where they go.
        delivery: Delivery,
    },
    /// Sends were matched with announced receives: their chunks follow on the channels, in this order among matches.
    Match {
        /// Channel of the first chunk; the others go round robin from there.
        first_channel: u16,
        /// The receiver's name for the receive. Several share one chunk, in this order; 1 to `MAX_NAMES`.
        recvs: Names,
    },
    /// A send met an announced receive of another size; both have failed and nothing will be sent.
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
}

/// Why bytes are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error(transparent)]
    Header(#[from] frame::FrameError),
    #[error("frame of unknown type {0}")]
    UnknownType(u16),
    #[error("body of frame type {0} is malformed")]
    Body(u16),
}

const CHALLENGE: u16 = 1;
const HELLO: u16 = 2;
const WELCOME: u16 = 3;
const REFUSE: u16 = 4;
const HANDLES: u16 = 5;
const READY: u16 = 6;
const ANNOUNCE: u16 = 7;
const MATCH: u16 = 8;
const MISMATCH: u16 = 9;
const CANCEL: u16 = 10;
const CANCELLED: u16 = 11;
const PING: u16 = 12;
const PONG: u16 = 13;
const GOODBYE: u16 = 14;
const CLOSED: u16 = 15;
const ABORT: u16 = 16;

const ANNOUNCE_BYTES: usize = 21;

impl Frame {
    fn kind(&self) -> u16 {
        match self {
            Self::Challenge(_) => CHALLENGE,
            Self::Hello(_) => HELLO,
            Self::Welcome(_) => WELCOME,
            Self::Refuse(_) => REFUSE,
            Self::Handles(_) => HANDLES,
            Self::Ready => READY,
            Self::Announce { .. } => ANNOUNCE,
            Self::Match { .. } => MATCH,
            Self::Mismatch { .. } => MISMATCH,
            Self::Cancel { .. } => CANCEL,
            Self::Cancelled { .. } => CANCELLED,
            Self::Ping => PING,
            Self::Pong => PONG,
            Self::Goodbye => GOODBYE,
            Self::Closed => CLOSED,
            Self::Abort(_) => ABORT,
        }
    }

    /// Appends the frame to `out`. Allocates only when `out` has to grow.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        frame::append(out, self.kind(), |out| match self {
            Self::Challenge(challenge) => append(out, challenge),
            Self::Hello(proven) | Self::Welcome(proven) => append(out, proven.as_ref()),
            Self::Refuse(reason) | Self::Abort(reason) => append(out, &shortened(reason)),
            Self::Handles(handles) => {
                for handle in handles {
                    out.extend_from_slice(&handle.0);
                }
            }
            Self::Announce { recv, tag, bytes, delivery } => {
                let mut body = [0; ANNOUNCE_BYTES];
                body[..8].copy_from_slice(&recv.to_le_bytes());
                body[8..16].copy_from_slice(&bytes.to_le_bytes());
                body[16..20].copy_from_slice(&tag.to_le_bytes());
                body[20] = delivery.to_wire();
                out.extend_from_slice(&body);
            }
            Self::Match { recvs, first_channel } => {
                out.extend_from_slice(&first_channel.to_le_bytes());
                out.extend(recvs.iter().flat_map(|recv| recv.to_le_bytes()));
            }
            Self::Mismatch { recv, send_bytes } => append(out, &(recv, send_bytes)),
            Self::Cancel { recv } | Self::Cancelled { recv } => append(out, recv),
            Self::Ready | Self::Ping | Self::Pong | Self::Goodbye | Self::Closed => {}
        });
    }

    /// Reads one frame from the front of `bytes`; `None` when more bytes are needed. Returns the bytes it took.
    pub(crate) fn decode(
        bytes: &[u8],
        body_limit: usize,
    ) -> Result<Option<(Self, usize)>, FrameError> {
        let Some(header) = bytes.first_chunk() else { return Ok(None) };
        let Header { kind, body_bytes } = Header::decode(*header, body_limit)?;
        if kind == 0 || kind > ABORT {
            return Err(FrameError::UnknownType(kind));
        }
        let Some(body) = bytes[HEADER_BYTES..].get(..body_bytes) else { return Ok(None) };
        let frame = Self::decode_body(kind, body).ok_or(FrameError::Body(kind))?;
        Ok(Some((frame, HEADER_BYTES + body_bytes)))
    }

    fn decode_body(kind: u16, body: &[u8]) -> Option<Self> {
        Some(match kind {
            CHALLENGE => Self::Challenge(exactly(body)?),
            HELLO => Self::Hello(Box::new(exactly(body)?)),
            WELCOME => Self::Welcome(Box::new(exactly(body)?)),
            REFUSE => Self::Refuse(reason(body)?),
            ABORT => Self::Abort(reason(body)?),
            HANDLES => {
                let (handles, []) = body.as_chunks::<HANDLE_BYTES>() else { return None };
                Self::Handles(handles.iter().copied().map(NetHandle).collect())
            }
            ANNOUNCE => announce(body)?,
            MATCH => {
                let (first_channel, names) = body.split_first_chunk()?;
                let (names, []) = names.as_chunks() else { return None };
                if !(1..=MAX_NAMES).contains(&names.len()) {
                    return None;
                }
                let recvs = names.iter().copied().map(u64::from_le_bytes).collect();
                Self::Match { first_channel: u16::from_le_bytes(*first_channel), recvs }
            }
            MISMATCH => {
                let (recv, send_bytes) = exactly(body)?;
                Self::Mismatch { recv, send_bytes }
            }
            CANCEL => Self::Cancel { recv: exactly(body)? },
            CANCELLED => Self::Cancelled { recv: exactly(body)? },
            READY if body.is_empty() => Self::Ready,
            PING if body.is_empty() => Self::Ping,
            PONG if body.is_empty() => Self::Pong,
            GOODBYE if body.is_empty() => Self::Goodbye,
            CLOSED if body.is_empty() => Self::Closed,
            _ => return None,
        })
    }
}

fn announce(body: &[u8]) -> Option<Frame> {
    let (recv, rest) = body.split_first_chunk()?;
    let (bytes, rest) = rest.split_first_chunk()?;
    let (tag, rest) = rest.split_first_chunk()?;
    let [delivery] = *rest else { return None };
    Some(Frame::Announce {
        recv: u64::from_le_bytes(*recv),
        tag: i32::from_le_bytes(*tag),
        bytes: u64::from_le_bytes(*bytes),
        delivery: Delivery::from_wire(delivery)?,
    })
}

/// A body that is this value and nothing more.
fn exactly<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

fn reason(body: &[u8]) -> Option<String> {
    exactly::<&str>(body).map(|text| shortened(text).to_owned())
}

fn append<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    struct Appender<'a>(&'a mut Vec<u8>);
    impl Extend<u8> for Appender<'_> {
        fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
            self.0.extend(bytes);
        }
    }
    // Writing plain types into a growing vector cannot fail; if it ever did, the short body would be refused.
    let _ = postcard::to_extend(value, Appender(out));
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_REASON_BYTES)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::control::hello::tests::sample_hello;

    fn any_frame() -> impl Strategy<Value = Frame> {
        prop_oneof![
            Just(Frame::Challenge(Challenge::new([3; 32]))),
            Just(Frame::Hello(Box::new(Proven { hello: sample_hello(), mac: [5; 32] }))),
            Just(Frame::Welcome(Box::new(Proven { hello: sample_hello(), mac: [6; 32] }))),
            "\\PC{0,200}".prop_map(|text| Frame::Refuse(shortened(&text).to_owned())),
            "\\PC{0,200}".prop_map(|text| Frame::Abort(shortened(&text).to_owned())),
            (0usize..65).prop_map(|count| Frame::Handles(vec![
                NetHandle(
                    [count as u8; HANDLE_BYTES]
                );
                count
            ])),
            Just(Frame::Ready),
            any::<(u64, i32, u64)>().prop_flat_map(|(recv, tag, bytes)| (0u8..3).prop_map(
                move |delivery| {
                    let delivery = Delivery::from_wire(delivery).expect("one of three");
                    Frame::Announce { recv, tag, bytes, delivery }
                }
            )),
            (any::<u16>(), proptest::collection::vec(any::<u64>(), 1..=MAX_NAMES)).prop_map(
                |(first_channel, recvs)| Frame::Match { first_channel, recvs: recvs.into() }
            ),
            any::<(u64, u64)>().prop_map(|(recv, send_bytes)| Frame::Mismatch { recv, send_bytes }),
            any::<u64>().prop_map(|recv| Frame::Cancel { recv }),
            any::<u64>().prop_map(|recv| Frame::Cancelled { recv }),
            Just(Frame::Ping),
            Just(Frame::Pong),
            Just(Frame::Goodbye),
            Just(Frame::Closed),
        ]
    }

    proptest! {
        #[test]
        fn frames_survive_the_wire_in_order(frames in proptest::collection::vec(any_frame(), 0..20)) {
            let mut wire = Vec::new();
            for frame in &frames {
                frame.encode(&mut wire);
            }
            let mut rest = wire.as_slice();
            for frame in &frames {
                // A frame that has not arrived in full is "not yet", whatever the cut.
                prop_assert_eq!(Frame::decode(&rest[..HEADER_BYTES - 1], MAX_PEER_BODY), Ok(None));
                let (read, taken) = Frame::decode(rest, MAX_PEER_BODY).unwrap().unwrap();
                prop_assert_eq!(Frame::decode(&rest[..taken - 1], MAX_PEER_BODY), Ok(None));
                prop_assert_eq!(&read, frame);
                rest = &rest[taken..];
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Frame::decode(&bytes, MAX_PEER_BODY);
        }

        #[test]
        fn arbitrary_bodies_never_panic(kind in 1u16..=ABORT, body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
            bytes.extend_from_slice(&kind.to_le_bytes());
            bytes.extend_from_slice(&[0, 0]);
            bytes.extend_from_slice(&body);
            let _ = Frame::decode(&bytes, MAX_PEER_BODY);
        }
    }

    #[test]
    fn matches_name_at_least_one_receive_and_no_more_than_a_run_has() {
        let decode = |names: usize| {
            let frame = Frame::Match { first_channel: 0, recvs: (0..names as u64).collect() };
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            Frame::decode(&bytes, MAX_PEER_BODY)
                .map(|decoded| decoded.map(|(frame, _)| frame) == Some(frame))
        };
        assert_eq!(decode(1), Ok(true));
        assert_eq!(decode(MAX_NAMES), Ok(true), "the longest fits a frame");
        assert_eq!(decode(0), Err(FrameError::Body(MATCH)));
        assert_eq!(decode(MAX_NAMES + 1), Err(FrameError::Body(MATCH)));
    }

    #[test]
    fn oversized_and_unknown_frames_are_refused_before_the_body_arrives() {
        let refusal = |bytes: u32, kind: u16| {
            let header = [&bytes.to_le_bytes()[..], &kind.to_le_bytes(), &[0, 0]].concat();
            Frame::decode(&header, MAX_STRANGER_BODY)
        };
        let oversized = frame::FrameError::Oversized { bytes: 2000, limit: MAX_STRANGER_BODY };
        assert_eq!(refusal(2000, HELLO), Err(FrameError::Header(oversized)));
        for kind in [0, ABORT + 1, u16::MAX] {
            assert_eq!(refusal(1, kind), Err(FrameError::UnknownType(kind)));
        }
        assert_eq!(refusal(1, ABORT), Ok(None));
    }

    #[test]
    fn foreign_protocols_are_refused_by_their_first_bytes() {
        assert!(Frame::decode(b"GET / HTTP/1.1\r\n\r\n", MAX_STRANGER_BODY).is_err());
        assert!(Frame::decode(b"SSH-2.0-OpenSSH_9\r\n", MAX_STRANGER_BODY).is_err());
    }
}
