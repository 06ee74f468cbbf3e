//! Encoder of fragments as control messages: the inverse of [`walk`](crate::walk), for programs
//! that play the kernel's part.

use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

use crate::cmsg::append_cmsg;
use crate::dialect::{Dialect, SOL_SOCKET};
use crate::fragment::{DeviceFragment, Fragment};

/// Reason why a dialect has no control message for a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The fragment has no bytes.
    EmptyFragment,
    /// The fragment ends beyond the last 64-bit offset.
    OffsetOverflow {
        /// The fragment's first byte.
        offset: u64,
        /// The fragment's length.
        bytes: u32,
    },
    /// The fragment's offset does not fit the 32 bits that the Google dialect has for it.
    OffsetBeyond32Bits {
        /// The fragment's first byte.
        offset: u64,
    },
    /// The dialect and the dma-buf id do not match: a mainline fragment must have an id, a Google
    /// fragment cannot carry one.
    DmabufId {
        /// Id of the fragment.
        dmabuf_id: Option<u32>,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EmptyFragment => write!(f, "fragment of 0 bytes"),
            Self::OffsetOverflow { offset, bytes } => {
                write!(f, "fragment of {bytes} bytes at offset {offset} overflows")
            }
            Self::OffsetBeyond32Bits { offset } => {
                write!(f, "fragment offset {offset} does not fit the dialect's 32 bits")
            }
            Self::DmabufId { dmabuf_id: None } => write!(f, "fragment without its dma-buf id"),
            Self::DmabufId { dmabuf_id: Some(id) } => {
                write!(f, "fragment with dma-buf id {id}, which the dialect cannot carry")
            }
        }
    }
}

impl Error for EncodeError {}

/// Appends the control message of `fragment` to `control`, with header and padding:
/// [`Dialect::cmsg_space`] bytes.
///
/// `control` must be empty, or filled by this function or by [`append_cmsg`]. [`walk`](crate::walk)
/// reads back every accepted fragment unchanged.
///
/// # Errors
/// Returns [`EncodeError`]; `control` is untouched then.
pub fn encode(
    fragment: &Fragment,
    dialect: Dialect,
    control: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    if fragment.bytes() == 0 {
        return Err(EncodeError::EmptyFragment);
    }
    let (cmsg_type, fields) = match *fragment {
        Fragment::Device(fields) => (dialect.device_cmsg_type(), fields),
        Fragment::Linear { bytes } => {
            let dmabuf_id = match dialect {
                Dialect::Google => None,
                Dialect::Mainline => Some(0),
            };
            let fields = DeviceFragment { offset: 0, bytes, token: 0, dmabuf_id };
            (dialect.linear_cmsg_type(), fields)
        }
    };
    let DeviceFragment { offset, bytes, token, dmabuf_id } = fields;
    if offset.checked_add(u64::from(bytes)).is_none() {
        return Err(EncodeError::OffsetOverflow { offset, bytes });
    }
    match (dialect, dmabuf_id) {
        (Dialect::Google, None) => {
            let offset =
                u32::try_from(offset).map_err(|_| EncodeError::OffsetBeyond32Bits { offset })?;
            append(control, cmsg_type, &[offset, bytes, token].map(u32::to_ne_bytes));
        }
        (Dialect::Mainline, Some(id)) => {
            let flags = 0_u32;
            let [low, high] = halves(offset);
            let tail = [bytes, token, id, flags].map(u32::to_ne_bytes);
            append(control, cmsg_type, &[low, high, tail[0], tail[1], tail[2], tail[3]]);
        }
        (Dialect::Google, Some(_)) | (Dialect::Mainline, None) => {
            return Err(EncodeError::DmabufId { dmabuf_id });
        }
    }
    Ok(())
}

fn append(control: &mut Vec<u8>, cmsg_type: i32, words: &[[u8; 4]]) {
    append_cmsg(control, SOL_SOCKET, cmsg_type, words.as_flattened());
}

/// Returns the two words of a 64-bit number in the order they have in memory.
fn halves(number: u64) -> [[u8; 4]; 2] {
    let [a, b, c, d, e, f, g, h] = number.to_ne_bytes();
    [[a, b, c, d], [e, f, g, h]]
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: DeviceFragment =
        DeviceFragment { offset: 0x1234, bytes: 4096, token: 7, dmabuf_id: None };

    #[test]
    fn a_google_fragment_has_the_kernels_bytes() {
        let mut control = Vec::new();
        encode(&Fragment::Device(DEVICE), Dialect::Google, &mut control).unwrap();
        let mut expected = Vec::new();
        expected.extend(28_u64.to_ne_bytes());
        expected.extend([1_u32, 99, 0x1234, 4096, 7, 0].map(u32::to_ne_bytes).as_flattened());
        assert_eq!(control, expected);
    }

    #[test]
    fn a_mainline_fragment_has_the_kernels_bytes() {
        let fragment = DeviceFragment { offset: 0x1_0000_0002, dmabuf_id: Some(3), ..DEVICE };
        let mut control = Vec::new();
        encode(&Fragment::Device(fragment), Dialect::Mainline, &mut control).unwrap();
        let mut expected = Vec::new();
        expected.extend(40_u64.to_ne_bytes());
        expected.extend([1_u32, 79].map(u32::to_ne_bytes).as_flattened());
        expected.extend(0x1_0000_0002_u64.to_ne_bytes());
        expected.extend([4096_u32, 7, 3, 0].map(u32::to_ne_bytes).as_flattened());
        assert_eq!(control, expected);
    }

    #[test]
    fn a_fragment_without_a_message_is_refused_and_nothing_is_written() {
        let far = DeviceFragment { offset: 1 << 32, ..DEVICE };
        let named = DeviceFragment { dmabuf_id: Some(1), ..DEVICE };
        let wraps = DeviceFragment { offset: u64::MAX, dmabuf_id: Some(1), ..DEVICE };
        let empty = DeviceFragment { bytes: 0, ..DEVICE };
        let cases = [
            (far, Dialect::Google, EncodeError::OffsetBeyond32Bits { offset: 1 << 32 }),
            (named, Dialect::Google, EncodeError::DmabufId { dmabuf_id: Some(1) }),
            (DEVICE, Dialect::Mainline, EncodeError::DmabufId { dmabuf_id: None }),
            (
                wraps,
                Dialect::Mainline,
                EncodeError::OffsetOverflow { offset: u64::MAX, bytes: 4096 },
            ),
            (empty, Dialect::Google, EncodeError::EmptyFragment),
        ];
        for (fragment, dialect, error) in cases {
            let mut control = Vec::new();
            assert_eq!(encode(&Fragment::Device(fragment), dialect, &mut control), Err(error));
            assert!(control.is_empty());
        }
        let mut control = Vec::new();
        let linear = Fragment::Linear { bytes: 0 };
        assert_eq!(
            encode(&linear, Dialect::Mainline, &mut control),
            Err(EncodeError::EmptyFragment)
        );
        assert!(control.is_empty());
    }
}
