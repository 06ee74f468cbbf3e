//! The frames of a control link until both ends have proven who they are.

use std::ops::RangeInclusive;

use super::hello::{Challenge, Proven};
use super::introduction::Introduction;
use super::link_frame::{FrameKind, LinkFrame, append, append_reason, exactly, reason};

/// One message of the handshake.
#[derive(Clone, Debug, PartialEq)]
pub enum HandshakeFrame {
    /// Listener → connector, first of all: a fresh nonce.
    Challenge(Challenge),
    /// Connector → listener: who I am, proven with the listener's nonce.
    Hello(Box<Introduction>),
    /// Listener → connector: who I am, proven with the connector's nonce.
    Welcome(Box<Proven>),
    /// Listener → connector: we do not fit together, and why.
    Refuse(String),
    /// Listener → connector: too many come now; try again. On the wire it is a refusal without any
    /// bytes.
    Busy,
}

impl LinkFrame for HandshakeFrame {
    const KINDS: RangeInclusive<FrameKind> = FrameKind::Challenge..=FrameKind::Refuse;
    /// Little, because anybody may send it.
    const MAX_BODY: usize = 1024;

    fn kind(&self) -> FrameKind {
        match self {
            Self::Challenge(_) => FrameKind::Challenge,
            Self::Hello(_) => FrameKind::Hello,
            Self::Welcome(_) => FrameKind::Welcome,
            Self::Refuse(_) | Self::Busy => FrameKind::Refuse,
        }
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Challenge(challenge) => append(out, challenge),
            Self::Hello(introduction) => append(out, introduction.as_ref()),
            Self::Welcome(proven) => append(out, proven.as_ref()),
            Self::Refuse(reason) => append_reason(out, reason),
            Self::Busy => {}
        }
    }

    fn decode_body(kind: FrameKind, body: &[u8]) -> Option<Self> {
        Some(match kind {
            FrameKind::Challenge => Self::Challenge(exactly(body)?),
            FrameKind::Hello => Self::Hello(Box::new(exactly(body)?)),
            FrameKind::Welcome => Self::Welcome(Box::new(exactly(body)?)),
            FrameKind::Refuse if body.is_empty() => Self::Busy,
            FrameKind::Refuse => Self::Refuse(reason(body)?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frames::conn_info::Secret;
    use crate::frames::hello::tests::sample_hello;
    use crate::frames::link_frame::tests::{survive_any_body, survive_the_wire};

    fn any_frame() -> impl Strategy<Value = HandshakeFrame> {
        let proven = |mac| Proven { hello: sample_hello(), mac: [mac; 32] };
        let introduced = move |mac| Introduction::new(proven(mac), &Secret([mac; 32]));
        prop_oneof![
            any::<[u8; 32]>().prop_map(|nonce| HandshakeFrame::Challenge(Challenge::new(nonce))),
            any::<u8>().prop_map(move |mac| HandshakeFrame::Hello(Box::new(introduced(mac)))),
            any::<u8>().prop_map(move |mac| HandshakeFrame::Welcome(Box::new(proven(mac)))),
            "\\PC{0,100}".prop_map(HandshakeFrame::Refuse),
            Just(HandshakeFrame::Busy),
        ]
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
            let _ = HandshakeFrame::decode(&bytes);
            survive_any_body::<HandshakeFrame>(&bytes);
        }
    }

    #[test]
    fn a_long_reason_is_shortened_where_a_character_ends() {
        let mut bytes = Vec::new();
        HandshakeFrame::Refuse("ß".repeat(1000) + "x").encode(&mut bytes);
        let (read, _) = HandshakeFrame::decode(&bytes).unwrap().unwrap();
        assert_eq!(read, HandshakeFrame::Refuse("ß".repeat(200)));
    }
}
