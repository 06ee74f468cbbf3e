//! Decoder of control messages as fragments.

use core::iter::FusedIterator;

use crate::cmsg::{HEADER_BYTES, field, padded};
use crate::cmsg_error::CmsgError;
use crate::dialect::{Dialect, SOL_SOCKET};
use crate::fragment::{DeviceFragment, Fragment};

/// Totals of a [`Walk`] so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WalkTotals {
    /// Fragments in device memory.
    pub device_fragments: usize,
    /// Bytes in them.
    pub device_bytes: u64,
    /// Bytes announced as linear.
    pub linear_bytes: u64,
    /// Control messages that describe no bytes of the stream: messages of another kind, such as
    /// timestamps, and linear pieces of 0 bytes.
    pub skipped: usize,
}

/// Iterator over the fragments that the control bytes of one `recvmsg` describe, in byte order.
///
/// Made by [`walk`]. The iterator ends after the first error: later messages have lost their place
/// in the stream.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    control: &'a [u8],
    at: usize,
    dialect: Dialect,
    totals: WalkTotals,
}

/// Reads control bytes as `recvmsg` filled them.
///
/// `control` begins at `msg_control` and has the `msg_controllen` bytes that the kernel reported.
/// Its address needs no alignment.
///
/// No content of `control` makes the walk panic, read beyond it, or yield an empty or overflowing
/// fragment. The offsets are the kernel's: compare them with the size of the bounce buffer (see
/// [`check`](crate::check)). Compare the bytes of [`Walk::totals`] with what `recvmsg` returned:
/// bytes beyond the totals landed in host memory without being announced.
#[must_use]
pub const fn walk(control: &[u8], dialect: Dialect) -> Walk<'_> {
    let totals = WalkTotals { device_fragments: 0, device_bytes: 0, linear_bytes: 0, skipped: 0 };
    Walk { control, at: 0, dialect, totals }
}

/// Control message whose length is proved to lie in the control bytes.
struct ControlMessage<'a> {
    at: usize,
    level: i32,
    cmsg_type: i32,
    payload: &'a [u8],
}

impl<'a> Walk<'a> {
    /// Returns the sums over everything yielded or skipped so far.
    #[must_use]
    pub const fn totals(&self) -> WalkTotals {
        self.totals
    }

    /// Returns the next fragment. Skips any message that describes none.
    fn next_fragment(&mut self) -> Result<Option<Fragment>, CmsgError> {
        while self.at < self.control.len() {
            let message = self.next_message()?;
            if let Some(fragment) = decode(&message, self.dialect)? {
                return Ok(Some(fragment));
            }
            self.totals.skipped += 1;
        }
        Ok(None)
    }

    /// Takes one message off the control bytes.
    fn next_message(&mut self) -> Result<ControlMessage<'a>, CmsgError> {
        let at = self.at;
        let control: &'a [u8] = self.control;
        let rest = &control[at..];
        let truncated = CmsgError::TruncatedHeader { at, left: rest.len() };
        let (Some(len), Some(level), Some(cmsg_type)) =
            (field(rest, 0), field(rest, 8), field(rest, 12))
        else {
            return Err(truncated);
        };
        let len = u64::from_ne_bytes(len);
        if len < HEADER_BYTES as u64 {
            return Err(CmsgError::LengthBelowHeader { at, len });
        }
        let past_end = CmsgError::LengthPastEnd { at, len, left: rest.len() };
        let payload_end = usize::try_from(len).map_err(|_| past_end)?;
        let payload = rest.get(HEADER_BYTES..payload_end).ok_or(past_end)?;
        // The last message may come without its padding.
        self.at = at + padded(payload_end).min(rest.len());
        Ok(ControlMessage {
            at,
            level: i32::from_ne_bytes(level),
            cmsg_type: i32::from_ne_bytes(cmsg_type),
            payload,
        })
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Fragment, CmsgError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_fragment();
        match &next {
            Ok(Some(Fragment::Device(fragment))) => {
                self.totals.device_fragments += 1;
                self.totals.device_bytes += u64::from(fragment.bytes);
            }
            Ok(Some(Fragment::Linear { bytes })) => self.totals.linear_bytes += u64::from(*bytes),
            Ok(None) => {}
            Err(_) => self.at = self.control.len(),
        }
        next.transpose()
    }
}

impl FusedIterator for Walk<'_> {}

/// Returns the fragment of a message, if the message describes one.
fn decode(message: &ControlMessage<'_>, dialect: Dialect) -> Result<Option<Fragment>, CmsgError> {
    let ControlMessage { at, level, cmsg_type, payload } = *message;
    let device = cmsg_type == dialect.device_cmsg_type();
    if level != SOL_SOCKET || !(device || cmsg_type == dialect.linear_cmsg_type()) {
        return Ok(None);
    }
    let Some(fragment) = payload_fields(payload, dialect) else {
        let expected = dialect.payload_bytes();
        return Err(CmsgError::PayloadSize { at, cmsg_type, bytes: payload.len(), expected });
    };
    let DeviceFragment { offset, bytes, .. } = fragment;
    if !device {
        return Ok((bytes > 0).then_some(Fragment::Linear { bytes }));
    }
    if bytes == 0 {
        return Err(CmsgError::EmptyFragment { at });
    }
    if offset.checked_add(u64::from(bytes)).is_none() {
        return Err(CmsgError::OffsetOverflow { at, offset, bytes });
    }
    Ok(Some(Fragment::Device(fragment)))
}

/// Returns the raw fields of a payload, or `None` when its size is not the dialect's.
fn payload_fields(payload: &[u8], dialect: Dialect) -> Option<DeviceFragment> {
    if payload.len() != dialect.payload_bytes() {
        return None;
    }
    let u32_at = |at| field(payload, at).map(u32::from_ne_bytes);
    Some(match dialect {
        Dialect::Google => DeviceFragment {
            offset: u64::from(u32_at(0)?),
            bytes: u32_at(4)?,
            token: u32_at(8)?,
            dmabuf_id: None,
        },
        Dialect::Mainline => DeviceFragment {
            offset: u64::from_ne_bytes(field(payload, 0)?),
            bytes: u32_at(8)?,
            token: u32_at(12)?,
            dmabuf_id: Some(u32_at(16)?),
        },
    })
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::append_cmsg;
    use crate::dialect::{google, mainline};

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn google_fragment(offset: u32, bytes: u32, token: u32) -> Vec<u8> {
        let mut control = Vec::new();
        let payload = words(&[offset, bytes, token]);
        append_cmsg(&mut control, SOL_SOCKET, google::SCM_DEVMEM_OFFSET, &payload);
        control
    }

    fn mainline_payload(offset: u64, rest: [u32; 4]) -> Vec<u8> {
        let mut payload = offset.to_ne_bytes().to_vec();
        payload.extend(words(&rest));
        payload
    }

    fn first_error(control: &[u8], dialect: Dialect) -> CmsgError {
        let mut walk = walk(control, dialect);
        let error = walk.find_map(Result::err).expect("an error");
        assert_eq!(walk.next(), None, "the walk goes on after {error}");
        error
    }

    #[test]
    fn empty_control_bytes_have_no_fragments() {
        let mut walk = walk(&[], Dialect::Google);
        assert_eq!(walk.next(), None);
        assert_eq!(walk.totals(), WalkTotals::default());
    }

    #[test]
    fn google_fragments_are_read_and_other_messages_skipped() {
        let mut control = google_fragment(0xF000_0001, 4095, 17);
        append_cmsg(&mut control, SOL_SOCKET, 29, &[1; 16]);
        append_cmsg(&mut control, SOL_SOCKET, google::SCM_DEVMEM_HEADER, &words(&[9, 100, 9]));
        append_cmsg(&mut control, SOL_SOCKET, google::SCM_DEVMEM_HEADER, &words(&[0, 0, 0]));
        append_cmsg(&mut control, 41, google::SCM_DEVMEM_OFFSET, &[3]);

        let mut walk = walk(&control, Dialect::Google);
        let device =
            DeviceFragment { offset: 0xF000_0001, bytes: 4095, token: 17, dmabuf_id: None };
        assert_eq!(walk.next(), Some(Ok(Fragment::Device(device))));
        assert_eq!(walk.next(), Some(Ok(Fragment::Linear { bytes: 100 })));
        assert_eq!(walk.next(), None);
        assert_eq!(
            walk.totals(),
            WalkTotals { device_fragments: 1, device_bytes: 4095, linear_bytes: 100, skipped: 3 }
        );
    }

    #[test]
    fn mainline_offsets_have_64_bits_and_flags_are_reserved() {
        let mut control = Vec::new();
        let payload = mainline_payload(1 << 40, [4096, 5, 33, u32::MAX]);
        append_cmsg(&mut control, SOL_SOCKET, mainline::SCM_DEVMEM_DMABUF, &payload);
        let fragments: Vec<_> = walk(&control, Dialect::Mainline).collect();
        let device = DeviceFragment { offset: 1 << 40, bytes: 4096, token: 5, dmabuf_id: Some(33) };
        assert_eq!(fragments, [Ok(Fragment::Device(device))]);
    }

    #[test]
    fn messages_of_the_other_dialect_are_skipped() {
        let control = google_fragment(0, 4096, 1);
        let mut walk = walk(&control, Dialect::Mainline);
        assert_eq!(walk.next(), None);
        assert_eq!(walk.totals(), WalkTotals { skipped: 1, ..WalkTotals::default() });
    }

    #[test]
    fn the_last_message_may_lack_its_padding() {
        let control = google_fragment(8, 16, 1);
        let fragments: Vec<_> = walk(&control[..28], Dialect::Google).collect();
        assert!(matches!(fragments[..], [Ok(Fragment::Device(_))]));
    }

    #[test]
    fn wrong_lengths_are_errors() {
        let good = google_fragment(8, 16, 1);
        let with_len = |len: u64| {
            let mut control = [good.clone(), good.clone()].concat();
            control[32..40].copy_from_slice(&len.to_ne_bytes());
            control
        };
        for len in [0, 1, 15] {
            assert_eq!(
                first_error(&with_len(len), Dialect::Google),
                CmsgError::LengthBelowHeader { at: 32, len }
            );
        }
        for len in [33, 1 << 31, 1 << 32, u64::MAX - 7, u64::MAX] {
            assert_eq!(
                first_error(&with_len(len), Dialect::Google),
                CmsgError::LengthPastEnd { at: 32, len, left: 32 }
            );
        }
        for left in [1, 15] {
            assert_eq!(
                first_error(&with_len(28)[..32 + left], Dialect::Google),
                CmsgError::TruncatedHeader { at: 32, left }
            );
        }
    }

    #[test]
    fn payloads_of_another_size_are_errors() {
        for (dialect, expected) in [(Dialect::Google, 12), (Dialect::Mainline, 24)] {
            for cmsg_type in [dialect.linear_cmsg_type(), dialect.device_cmsg_type()] {
                for bytes in [0, 11, 13, 23, 25] {
                    let mut control = Vec::new();
                    append_cmsg(&mut control, SOL_SOCKET, cmsg_type, &vec![1; bytes]);
                    assert_eq!(
                        first_error(&control, dialect),
                        CmsgError::PayloadSize { at: 0, cmsg_type, bytes, expected }
                    );
                }
            }
        }
    }

    #[test]
    fn invalid_fragments_are_errors() {
        assert_eq!(
            first_error(&google_fragment(8, 0, 1), Dialect::Google),
            CmsgError::EmptyFragment { at: 0 }
        );
        let mut control = Vec::new();
        let payload = mainline_payload(u64::MAX, [1, 2, 3, 0]);
        append_cmsg(&mut control, SOL_SOCKET, mainline::SCM_DEVMEM_DMABUF, &payload);
        assert_eq!(
            first_error(&control, Dialect::Mainline),
            CmsgError::OffsetOverflow { at: 0, offset: u64::MAX, bytes: 1 }
        );
    }
}
