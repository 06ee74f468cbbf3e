//! Frames: magic `TCPXBOOT`, version (u16 LE), body length (u32 LE), body (postcard).

use serde::Serialize;
use serde::de::DeserializeOwned;

const MAGIC: &[u8; 8] = b"TCPXBOOT";
const VERSION: u16 = 2;
pub(crate) const HEADER_BYTES: usize = 14;
/// Longest body: the times of every iteration there can be, of three ways each, and room to spare.
pub(crate) const MAX_BODY_BYTES: u32 = 4 << 20;

/// Why bytes are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("it began with {}", hex(.0))]
    Magic([u8; 8]),
    #[error("it speaks version {0} of it, this end version {VERSION}")]
    Version(u16),
    #[error("it announced {0} bytes, at most {MAX_BODY_BYTES} are allowed")]
    TooLong(u32),
    #[error("a message of {0} bytes cannot be read")]
    Body(usize),
}

fn hex(bytes: &[u8; 8]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(" ")
}

/// Checks a header and returns the length of the body, in bytes.
pub(crate) fn body_bytes(header: &[u8; HEADER_BYTES]) -> Result<usize, FrameError> {
    let [magic @ .., v0, v1, l0, l1, l2, l3] = *header;
    if magic != *MAGIC {
        return Err(FrameError::Magic(magic));
    }
    let version = u16::from_le_bytes([v0, v1]);
    if version != VERSION {
        return Err(FrameError::Version(version));
    }
    match u32::from_le_bytes([l0, l1, l2, l3]) {
        length @ ..=MAX_BODY_BYTES => Ok(length as usize),
        length => Err(FrameError::TooLong(length)),
    }
}

/// A whole frame.
pub(crate) fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let body = postcard::to_allocvec(message).map_err(|_| FrameError::Body(0))?;
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    if length > MAX_BODY_BYTES {
        return Err(FrameError::TooLong(length));
    }
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
    frame.extend_from_slice(MAGIC);
    frame.extend_from_slice(&VERSION.to_le_bytes());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// The message in a body, which must be used up by it.
pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        _ => Err(FrameError::Body(body.len())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::message::Message;
    use super::*;

    fn header(frame: &[u8]) -> &[u8; HEADER_BYTES] {
        frame[..HEADER_BYTES].try_into().unwrap()
    }

    #[test]
    fn a_frame_is_read_back() {
        let frame = encode(&Message::Abort { reason: "why".into() }).unwrap();
        assert_eq!(body_bytes(header(&frame)), Ok(frame.len() - HEADER_BYTES));
        let message: Message = decode(&frame[HEADER_BYTES..]).unwrap();
        assert_eq!(message, Message::Abort { reason: "why".into() });
    }

    #[test]
    fn other_protocols_versions_and_lengths_are_refused() {
        assert_eq!(body_bytes(b"GET / HTTP/1.1"), Err(FrameError::Magic(*b"GET / HT")),);
        let mut frame = encode(&Message::Go).unwrap();
        frame[8] = 9;
        assert_eq!(body_bytes(header(&frame)), Err(FrameError::Version(9)));
        frame[8..10].copy_from_slice(&VERSION.to_le_bytes());
        frame[10..14].copy_from_slice(&(MAX_BODY_BYTES + 1).to_le_bytes());
        assert_eq!(body_bytes(header(&frame)), Err(FrameError::TooLong(MAX_BODY_BYTES + 1)));
        let long = Message::Abort { reason: "x".repeat(MAX_BODY_BYTES as usize) };
        assert!(matches!(encode(&long), Err(FrameError::TooLong(_))));
    }

    #[test]
    fn bytes_past_the_message_are_refused() {
        let mut frame = encode(&Message::Go).unwrap();
        frame.push(0);
        assert!(decode::<Message>(&frame[HEADER_BYTES..]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<Message>(&bytes);
            if let Some(header) = bytes.first_chunk() {
                let _ = body_bytes(header);
            }
        }
    }
}
