//! Messages and attributes of netlink: encoding, and decoding that trusts no length.

use std::sync::atomic::{AtomicU32, Ordering};

const HEADER_BYTES: usize = 16;
const GENERIC_HEADER_BYTES: usize = 4;
const ATTRIBUTE_HEADER_BYTES: usize = 4;

const FLAG_REQUEST: u16 = 0x1;
const FLAG_ACK: u16 = 0x4;
const FLAG_DUMP: u16 = 0x300;
/// Flag of an answer: an error without the request's payload.
const FLAG_CAPPED: u16 = 0x100;
/// Flag of an answer: attributes follow the error.
const FLAG_ACK_TLVS: u16 = 0x200;
const FLAG_NESTED: u16 = 0x8000;
/// Mask of an attribute's kind, without the flags for nesting and byte order.
const KIND_MASK: u16 = 0x3fff;

const TYPE_ERROR: u16 = 2;
const TYPE_DONE: u16 = 3;
const ERROR_MESSAGE: u16 = 1;

/// Request under construction.
#[derive(Debug)]
pub struct Request {
    bytes: Vec<u8>,
    sequence: u32,
}

impl Request {
    fn new(kind: u16, flags: u16) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let sequence = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        let mut request = Self { bytes, sequence };
        request.seal();
        request
    }

    /// Creates a request to a generic netlink family.
    pub(super) fn generic(family: u16, command: u8, version: u8) -> Self {
        let mut request = Self::new(family, FLAG_REQUEST | FLAG_ACK);
        request.append(&[command, version, 0, 0]);
        request
    }

    /// Requests a dump of all objects instead of one object.
    #[must_use]
    pub fn of_all(mut self) -> Self {
        let flags = u16_at(&self.bytes, 6).unwrap_or_default() | FLAG_DUMP;
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        self
    }

    /// Adds a number.
    pub fn push_u32(&mut self, kind: u16, value: u32) {
        self.append(&encode(kind, &value.to_ne_bytes()));
    }

    /// Adds a text.
    pub fn push_text(&mut self, kind: u16, value: &str) {
        self.append(&encode(kind, &text(value)));
    }

    /// Adds an attribute that holds others, see [`nested`].
    pub fn push_nest(&mut self, kind: u16, attributes: &[u8]) {
        self.append(&encode(kind | FLAG_NESTED, attributes));
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn sequence(&self) -> u32 {
        self.sequence
    }

    fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.seal();
    }

    /// Writes the length. Requests here are a few dozen bytes, so their length fits.
    fn seal(&mut self) {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
    }
}

/// Returns the content of an attribute that holds `(kind, value)` pairs.
#[must_use]
pub fn nested(attributes: &[(u16, &[u8])]) -> Vec<u8> {
    attributes.iter().flat_map(|(kind, value)| encode(*kind, value)).collect()
}

/// Returns a text as an attribute's value: with a NUL at its end, and none before.
#[must_use]
pub fn text(text: &str) -> Vec<u8> {
    text.bytes().take_while(|&byte| byte != 0).chain([0]).collect()
}

fn encode(kind: u16, value: &[u8]) -> Vec<u8> {
    // Values here are names and numbers; the kernel would refuse a longer value.
    let value = &value[..value.len().min(1 << 10)];
    let length = ATTRIBUTE_HEADER_BYTES + value.len();
    let mut bytes = Vec::with_capacity(length.next_multiple_of(4));
    bytes.extend_from_slice(&(length as u16).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(length.next_multiple_of(4), 0);
    bytes
}

/// Attribute of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Kind of the attribute, as its family numbers kinds.
    pub kind: u16,
    /// Value of the attribute.
    pub value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// Returns the first byte.
    #[must_use]
    pub fn u8(&self) -> Option<u8> {
        self.value.first().copied()
    }

    /// Returns the first two bytes as a number.
    #[must_use]
    pub fn u16(&self) -> Option<u16> {
        u16_at(self.value, 0)
    }

    /// Returns the first four bytes as a number.
    #[must_use]
    pub fn u32(&self) -> Option<u32> {
        u32_at(self.value, 0)
    }

    /// Returns the text, up to the first NUL.
    #[must_use]
    pub fn text(&self) -> String {
        let end = self.value.iter().position(|&byte| byte == 0).unwrap_or(self.value.len());
        String::from_utf8_lossy(&self.value[..end]).into_owned()
    }

    /// Returns the nested attributes.
    pub fn inner(&self) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        attributes(self.value)
    }
}

/// Returns the attributes in `bytes`, up to the first with a wrong length.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & KIND_MASK;
        let value = rest.get(ATTRIBUTE_HEADER_BYTES..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Attribute { kind, value })
    })
}

/// Returns the attributes of an answer from a generic netlink family: the bytes after its header.
pub fn generic_attributes(payload: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    attributes(payload.get(GENERIC_HEADER_BYTES..).unwrap_or_default())
}

/// Message of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    Payload(&'a [u8]),
    End,
    Refused { errno: i32, message: String },
}

/// Returns the messages in a datagram that answer request `sequence`, up to the first with a wrong
/// length.
pub(crate) fn answers(datagram: &[u8], sequence: u32) -> impl Iterator<Item = Answer<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        loop {
            let length = usize::try_from(u32_at(rest, 0)?).ok()?;
            let (kind, flags) = (u16_at(rest, 4)?, u16_at(rest, 6)?);
            let answered = u32_at(rest, 8)?;
            let payload = rest.get(HEADER_BYTES..length)?;
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            if answered == sequence {
                return Some(decode(kind, flags, payload));
            }
        }
    })
}

fn decode(kind: u16, flags: u16, payload: &[u8]) -> Answer<'_> {
    match kind {
        TYPE_DONE | TYPE_ERROR => match u32_at(payload, 0).map(u32::cast_signed) {
            Some(0) => Answer::End,
            Some(negative) => Answer::Refused {
                errno: negative.saturating_neg(),
                message: if kind == TYPE_ERROR {
                    error_message(flags, payload)
                } else {
                    String::new()
                },
            },
            None => Answer::End,
        },
        _ => Answer::Payload(payload),
    }
}

/// Returns the kernel's words behind the error number and the copy of the request.
fn error_message(flags: u16, payload: &[u8]) -> String {
    if flags & FLAG_ACK_TLVS == 0 {
        return String::new();
    }
    let copied = if flags & FLAG_CAPPED != 0 {
        HEADER_BYTES
    } else {
        u32_at(payload, 4).and_then(|length| usize::try_from(length).ok()).unwrap_or(usize::MAX)
    };
    let start = copied.saturating_add(4).checked_next_multiple_of(4).unwrap_or(usize::MAX);
    attributes(payload.get(start..).unwrap_or_default())
        .find(|attribute| attribute.kind == ERROR_MESSAGE)
        .map(|attribute| attribute.text())
        .unwrap_or_default()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes =
            u32::try_from(HEADER_BYTES + payload.len()).expect("short").to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn attributes_are_read_back() {
        let mut request = Request::generic(0x10, 3, 1);
        request.push_text(2, "netdev");
        request.push_u32(7, 0x0102_0304);
        request.push_nest(9, &nested(&[(1, &[5]), (2, b"ab\0")]));
        let found: Vec<_> = generic_attributes(&request.bytes()[HEADER_BYTES..]).collect();
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].kind, found[0].text().as_str()), (2, "netdev"));
        assert_eq!((found[1].kind, found[1].u32()), (7, Some(0x0102_0304)));
        assert_eq!(found[2].kind, 9);
        let inner: Vec<_> = found[2].inner().collect();
        assert_eq!((inner[0].u8(), inner[1].text().as_str()), (Some(5), "ab"));
        let length = u32::from_ne_bytes(*request.bytes().first_chunk().expect("a header"));
        assert_eq!(length as usize, request.bytes().len());
    }

    #[test]
    fn answers_to_other_requests_are_skipped() {
        let mut datagram = message(20, 0, 1, b"other");
        datagram.extend(message(20, 0, 2, b"ours"));
        datagram.extend(message(TYPE_DONE, 0, 2, &[0; 4]));
        let found: Vec<_> = answers(&datagram, 2).collect();
        assert_eq!(found, [Answer::Payload(b"ours"), Answer::End]);
    }

    #[test]
    fn a_refusal_carries_the_kernels_message() {
        let mut payload = (-95i32).to_ne_bytes().to_vec();
        payload.extend_from_slice(&[0; HEADER_BYTES]);
        payload.extend(encode(ERROR_MESSAGE, b"no netmem\0"));
        let refused = |flags| {
            let datagram = message(TYPE_ERROR, flags, 7, &payload);
            answers(&datagram, 7).next().map(|answer| format!("{answer:?}"))
        };
        assert_eq!(
            refused(FLAG_CAPPED | FLAG_ACK_TLVS).as_deref(),
            Some("Refused { errno: 95, message: \"no netmem\" }")
        );
        assert_eq!(refused(0).as_deref(), Some("Refused { errno: 95, message: \"\" }"));
    }

    #[test]
    fn wrong_lengths_end_the_reading() {
        let whole = message(TYPE_ERROR, FLAG_ACK_TLVS, 7, &[0xff; 40]);
        for end in 0..whole.len() {
            assert!(answers(&whole[..end], 7).count() <= 1);
            assert!(attributes(&whole[..end]).count() <= end / 4);
        }
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0);
        assert_eq!(attributes(&[0xff; 64]).count(), 0);
    }

    proptest! {
        #[test]
        fn any_datagram_is_read_to_an_end(bytes: Vec<u8>, sequence: u32) {
            prop_assert!(answers(&bytes, sequence).count() <= bytes.len() / HEADER_BYTES);
            for attribute in attributes(&bytes) {
                prop_assert!(attribute.inner().count() <= attribute.value.len() / 4);
                let _ = (attribute.u8(), attribute.u16(), attribute.u32(), attribute.text());
            }
        }

        #[test]
        fn refusals_with_any_tail_are_read(flags: u16, payload: Vec<u8>) {
            let datagram = message(TYPE_ERROR, flags, 7, &payload);
            prop_assert!(answers(&datagram, 7).count() <= 1);
        }

        #[test]
        fn attributes_of_any_content_are_read_back(values in prop::collection::vec((0u16..0x4000, prop::collection::vec(any::<u8>(), 0..40)), 0..8)) {
            let pairs: Vec<(u16, &[u8])> = values.iter().map(|(kind, value)| (*kind, value.as_slice())).collect();
            let bytes = nested(&pairs);
            let found: Vec<(u16, &[u8])> = attributes(&bytes).map(|attribute| (attribute.kind, attribute.value)).collect();
            prop_assert_eq!(found, pairs);
        }
    }
}
