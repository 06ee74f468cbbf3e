//! Reason why control messages could not be read.

use core::error::Error;
use core::fmt;

use crate::cmsg::HEADER_BYTES;

/// Reason why control messages could not be read. `at` is the offset of the message in the control
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CmsgError {
    /// Fewer bytes are left than a header has.
    TruncatedHeader {
        /// Offset of the header.
        at: usize,
        /// Bytes left, less than 16.
        left: usize,
    },
    /// A message claims to be shorter than its own header.
    LengthBelowHeader {
        /// Offset of the message.
        at: usize,
        /// `cmsg_len` of the message.
        len: u64,
    },
    /// A message claims to be longer than the rest of the bytes.
    LengthPastEnd {
        /// Offset of the message.
        at: usize,
        /// `cmsg_len` of the message.
        len: u64,
        /// Bytes left, header of the message included.
        left: usize,
    },
    /// A message about device memory has a payload of another size than the dialect's. Either the
    /// control buffer was too small (see `MSG_CTRUNC`), or the kernel speaks the other dialect.
    PayloadSize {
        /// Offset of the message.
        at: usize,
        /// Type of the message.
        cmsg_type: i32,
        /// Bytes of its payload.
        bytes: usize,
        /// Bytes that the dialect's payload has.
        expected: usize,
    },
    /// A fragment in device memory has no bytes.
    EmptyFragment {
        /// Offset of the message.
        at: usize,
    },
    /// A fragment ends beyond the last 64-bit offset.
    OffsetOverflow {
        /// Offset of the message.
        at: usize,
        /// The fragment's first byte.
        offset: u64,
        /// The fragment's length.
        bytes: u32,
    },
}

impl fmt::Display for CmsgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TruncatedHeader { at, left } => {
                write!(f, "control message at {at}: {left} bytes left, a header has {HEADER_BYTES}")
            }
            Self::LengthBelowHeader { at, len } => {
                write!(f, "control message at {at}: length {len} is below its header's")
            }
            Self::LengthPastEnd { at, len, left } => {
                write!(f, "control message at {at}: length {len}, but {left} bytes are left")
            }
            Self::PayloadSize { at, cmsg_type, bytes, expected } => write!(
                f,
                "control message at {at}: type {cmsg_type} carries {bytes} bytes, expected \
                 {expected}"
            ),
            Self::EmptyFragment { at } => {
                write!(f, "control message at {at}: fragment of 0 bytes")
            }
            Self::OffsetOverflow { at, offset, bytes } => {
                write!(f, "control message at {at}: {bytes} bytes at offset {offset} overflow")
            }
        }
    }
}

impl Error for CmsgError {}
