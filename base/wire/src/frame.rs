//! Frames: a header of 8 bytes, then a body.
//!
//! | bytes | field |
//! |---|---|
//! | 0–3 | length of the body in bytes, u32, little-endian |
//! | 4–5 | kind, u16, little-endian: what the body is |
//! | 6–7 | zero |
//!
//! The caller sets the body limit of each frame that it reads. A link can thus allow less to a peer
//! that has not yet proven its identity.
//!
//! ```
//! use tcpx_wire::frame;
//!
//! let mut stream = Vec::new();
//! frame::append(&mut stream, 7, |body| body.extend_from_slice(b"hello"));
//! frame::append(&mut stream, 8, |_| {});
//!
//! let first = frame::split(&stream, 1024)?.expect("a whole frame");
//! assert_eq!((first.kind, first.body), (7, &b"hello"[..]));
//! let second = frame::split(&stream[first.taken..], 1024)?.expect("a whole frame");
//! assert_eq!((second.kind, second.body), (8, &b""[..]));
//!
//! // Half a frame is no error: the rest has not arrived.
//! assert_eq!(frame::split(&stream[..first.taken - 1], 1024)?, None);
//! # Ok::<(), frame::FrameError>(())
//! ```

use std::io::{self, Read};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 8;

/// Reason why bytes are not a frame. The stream cannot be read any further after such an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Body longer than the reader allows.
    #[error("frame of {bytes} bytes, at most {limit} are allowed here")]
    Oversized {
        /// Length of the body in bytes, according to the header.
        bytes: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// Nonzero last two bytes of the header: most likely the peer speaks another protocol.
    #[error("reserved header bits are set")]
    Reserved,
}

impl From<FrameError> for io::Error {
    fn from(error: FrameError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// Checked contents of the first 8 bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Kind of the body. Any number is allowed: the caller knows its own kinds.
    pub kind: u16,
    /// Length of the body in bytes, at most the limit of [`Header::decode`].
    pub body_bytes: usize,
}

impl Header {
    /// Reads and checks a header.
    ///
    /// # Errors
    /// [`FrameError::Reserved`], or [`FrameError::Oversized`] when the body has more than
    /// `body_limit` bytes.
    pub fn decode(bytes: [u8; HEADER_BYTES], body_limit: usize) -> Result<Self, FrameError> {
        let [l0, l1, l2, l3, k0, k1, reserved @ ..] = bytes;
        if reserved != [0, 0] {
            return Err(FrameError::Reserved);
        }
        // A length that does not fit a usize is past every limit.
        let body_bytes =
            usize::try_from(u32::from_le_bytes([l0, l1, l2, l3])).unwrap_or(usize::MAX);
        if body_bytes > body_limit {
            return Err(FrameError::Oversized { bytes: body_bytes, limit: body_limit });
        }
        Ok(Self { kind: u16::from_le_bytes([k0, k1]), body_bytes })
    }

    fn encode(self) -> [u8; HEADER_BYTES] {
        let [l0, l1, l2, l3] = u32::try_from(self.body_bytes).unwrap_or(u32::MAX).to_le_bytes();
        let [k0, k1] = self.kind.to_le_bytes();
        [l0, l1, l2, l3, k0, k1, 0, 0]
    }
}

/// Frame at the front of a byte slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitFrame<'a> {
    /// Kind of the body.
    pub kind: u16,
    /// The body.
    pub body: &'a [u8],
    /// Length of the whole frame in bytes: the next frame begins there.
    pub taken: usize,
}

/// Returns the frame at the front of `bytes`, or `None` when more bytes are needed.
///
/// # Errors
/// Returns the errors of [`Header::decode`], as soon as the header is complete.
pub fn split(bytes: &[u8], body_limit: usize) -> Result<Option<SplitFrame<'_>>, FrameError> {
    let Some((header, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let Header { kind, body_bytes } = Header::decode(*header, body_limit)?;
    Ok(rest.get(..body_bytes).map(|body| SplitFrame {
        kind,
        body,
        taken: HEADER_BYTES + body_bytes,
    }))
}

/// Appends a frame whose body `write_body` appends. Allocates only when `out` has to grow.
///
/// `write_body` must not touch what `out` already contains. The length is filled in afterwards. The
/// header cannot express a body of 4 GiB or more: it then says [`u32::MAX`], which is past the
/// limit of any sensible reader.
pub fn append(out: &mut Vec<u8>, kind: u16, write_body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let body_start = out.len();
    write_body(out);
    let header = Header { kind, body_bytes: out.len().saturating_sub(body_start) };
    if let Some(place) = out.get_mut(start..body_start) {
        place.copy_from_slice(&header.encode());
    }
}

/// Reads one frame and returns its kind and its body. Returns `None` when the reader ends where a
/// frame would begin.
///
/// Blocks as long as the reader does: deadlines are up to the reader. Requests no byte past the
/// frame from the reader.
///
/// # Errors
/// Returns the reader's errors. A reader that ends inside a frame gives
/// [`io::ErrorKind::UnexpectedEof`]. A bad header gives [`io::ErrorKind::InvalidData`] around a
/// [`FrameError`], before a body is allocated.
pub fn read(reader: &mut impl Read, body_limit: usize) -> io::Result<Option<(u16, Vec<u8>)>> {
    let mut header = [0; HEADER_BYTES];
    let (first, others) = header.split_at_mut(1);
    loop {
        match reader.read(first) {
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    reader.read_exact(others)?;
    let Header { kind, body_bytes } = Header::decode(header, body_limit)?;
    let mut body = vec![0; body_bytes];
    reader.read_exact(&mut body)?;
    Ok(Some((kind, body)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 300;

    fn one(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        append(&mut bytes, kind, |out| out.extend_from_slice(body));
        bytes
    }

    #[test]
    fn the_bytes_are_laid_out_as_documented() {
        assert_eq!(one(0x0102, b"abc"), *b"\x03\0\0\0\x02\x01\0\0abc");
    }

    #[test]
    fn a_header_is_refused_before_its_body_arrives() {
        let long = [&301u32.to_le_bytes()[..], &[1, 0, 0, 0]].concat();
        let oversized = FrameError::Oversized { bytes: 301, limit: LIMIT };
        assert_eq!(split(&long, LIMIT), Err(oversized));
        assert_eq!(split(b"\0\0\0\0\x01\0\0\x01", LIMIT), Err(FrameError::Reserved));
        assert!(split(b"GET / HTTP/1.1\r\n", LIMIT).is_err(), "another protocol");
        // If the body were read first, the error would be that the reader has ended.
        let error = read(&mut &b"\xff\xff\xff\xff\x01\0\0\0"[..], LIMIT).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("4294967295"), "{error}");
    }

    #[test]
    fn a_body_writer_that_shortens_its_vector_does_no_harm() {
        let mut out = b"before".to_vec();
        append(&mut out, 1, Vec::clear);
        assert!(out.is_empty());
    }

    proptest! {
        #[test]
        fn frames_survive_the_stream_in_order_and_every_cut_is_not_yet(
            frames in proptest::collection::vec(
                (any::<u16>(), proptest::collection::vec(any::<u8>(), 0..40)),
                0..8,
            ),
        ) {
            let wire: Vec<u8> = frames.iter().flat_map(|(kind, body)| one(*kind, body)).collect();
            let mut rest = wire.as_slice();
            for (kind, body) in &frames {
                let taken = HEADER_BYTES + body.len();
                for cut in 0..taken {
                    prop_assert_eq!(split(&rest[..cut], LIMIT), Ok(None));
                    let ended = read(&mut &rest[..cut], LIMIT);
                    if cut == 0 {
                        prop_assert!(ended.unwrap().is_none());
                    } else {
                        prop_assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
                    }
                }
                let whole = SplitFrame { kind: *kind, body, taken };
                prop_assert_eq!(split(rest, LIMIT), Ok(Some(whole)));
                let before = rest.len();
                prop_assert_eq!(read(&mut rest, LIMIT).unwrap(), Some((*kind, body.clone())));
                prop_assert_eq!(before - rest.len(), taken);
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn a_flipped_bit_never_reads_as_the_same_frame(
            kind: u16,
            body in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let wire = one(kind, &body);
            for bit in 0..wire.len() * 8 {
                let mut damaged = wire.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let read = split(&damaged, LIMIT);
                prop_assert_ne!(read, Ok(Some(SplitFrame { kind, body: &body, taken: wire.len() })));
                if bit / 8 >= 6 && bit / 8 < HEADER_BYTES {
                    prop_assert_eq!(read, Err(FrameError::Reserved));
                }
            }
        }

        #[test]
        fn arbitrary_bytes_give_a_frame_within_the_limit_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..LIMIT + 20),
            short: bool,
        ) {
            // Small lengths are rare among arbitrary lengths.
            let mut bytes = bytes;
            if short {
                for at in [1, 2, 3, 6, 7] {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = 0;
                    }
                }
            }
            let by_split = split(&bytes, LIMIT);
            if let Ok(Some(frame)) = by_split {
                prop_assert!(frame.body.len() <= LIMIT);
                prop_assert_eq!(&one(frame.kind, frame.body)[..], &bytes[..frame.taken]);
            }
            let by_read = read(&mut &bytes[..], LIMIT);
            let body = by_split.ok().flatten().map(|frame| (frame.kind, frame.body.to_vec()));
            prop_assert_eq!(by_read.ok().flatten(), body);
        }
    }
}
