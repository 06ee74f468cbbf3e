//! Layout of a control message as `recvmsg` and `sendmsg` use it on 64-bit Linux.
//!
//! ```text
//! 0      8       12     16              16 + payload
//! | len  | level | type | payload ...   | padding to a multiple of 8 |
//! ```
//! `len` counts header and payload, not the padding, and the next header begins after the padding.
//! All numbers are in the machine's byte order.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

/// Length of the header in bytes; `cmsg_len` is never less.
pub(crate) const HEADER_BYTES: usize = 16;

const ALIGN: usize = 8;

/// Rounds a length up to where the next header may begin.
pub(crate) const fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN)
}

/// Returns the `N` bytes of `bytes` from `at` on, if `bytes` has them.
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Appends one control message of any kind, padded so that the next can follow.
///
/// `control` must be empty, or filled by this function or by [`encode`](crate::encode).
#[cfg(feature = "alloc")]
pub fn append_cmsg(control: &mut Vec<u8>, level: i32, cmsg_type: i32, payload: &[u8]) {
    let start = control.len();
    let len = HEADER_BYTES + payload.len();
    control.reserve(padded(len));
    control.extend_from_slice(&(len as u64).to_ne_bytes());
    control.extend_from_slice(&level.to_ne_bytes());
    control.extend_from_slice(&cmsg_type.to_ne_bytes());
    control.extend_from_slice(payload);
    control.resize(start + padded(len), 0);
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_laid_out_as_the_kernel_does() {
        let mut control = Vec::new();
        append_cmsg(&mut control, 1, 99, &[7; 12]);
        assert_eq!(control.len(), 32);
        assert_eq!(field(&control, 0).map(u64::from_ne_bytes), Some(28));
        assert_eq!(field(&control, 8).map(i32::from_ne_bytes), Some(1));
        assert_eq!(field(&control, 12).map(i32::from_ne_bytes), Some(99));
        assert_eq!(&control[16..], [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0]);
    }

    #[test]
    fn a_field_past_the_end_is_absent() {
        let bytes = [0_u8; 6];
        assert_eq!(field::<4>(&bytes, 2), Some([0; 4]));
        assert_eq!(field::<4>(&bytes, 3), None);
        assert_eq!(field::<4>(&bytes, usize::MAX), None);
    }
}
