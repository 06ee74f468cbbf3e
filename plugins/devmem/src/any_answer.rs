//! Properties that hold for any bytes that the kernel may answer. Tests and a fuzz target check
//! them.

use crate::netlink::message::{Answer, Attribute, answers, attributes, generic_attributes, nested};

/// Sequence number of the request that is answered.
pub(crate) const SEQUENCE: u32 = 7;
const HEADER_BYTES: usize = 16;
/// Limit of a value in bytes. Longer values are cut on writing, because no request has one.
const MOST_VALUE_BYTES: usize = 1 << 10;

/// Reads a datagram as the answer to a request, and decodes its content in every way there is.
///
/// # Panics
/// Panics when a naive reading finds something else.
pub(crate) fn check(datagram: &[u8]) {
    let found: Vec<_> = answers(datagram, SEQUENCE).collect();
    assert_eq!(found, read_naively(datagram));
    for answer in found {
        match answer {
            Answer::Payload(payload) => {
                crate::nic::read_any(payload);
                generic_attributes(payload).for_each(|attribute| check_attribute(attribute, 0));
            }
            Answer::Refused { message, .. } => assert!(!message.contains('\0')),
            Answer::End => {}
        }
    }
    check_list(datagram, 0);
}

/// Depth to which nested attributes are read. A datagram may nest attributes to any depth; no code
/// here reads deeper than three.
const DEPTH: u8 = 4;

fn check_list(bytes: &[u8], depth: u8) {
    let found: Vec<_> = attributes(bytes).collect();
    let taken: usize = found.iter().map(|attribute| 4 + attribute.value.len()).sum();
    assert!(taken <= bytes.len());
    let pairs: Vec<_> = found.iter().map(|attribute| (attribute.kind, attribute.value)).collect();
    if pairs.iter().all(|(_, value)| value.len() <= MOST_VALUE_BYTES) {
        let written = nested(&pairs);
        assert_eq!(attributes(&written).collect::<Vec<_>>(), found);
    }
    if depth < DEPTH {
        found.into_iter().for_each(|attribute| check_attribute(attribute, depth));
    }
}

fn check_attribute(attribute: Attribute<'_>, depth: u8) {
    let Attribute { value, .. } = attribute;
    assert_eq!(attribute.u8().is_some(), !value.is_empty());
    assert_eq!(attribute.u16().is_some(), value.len() >= 2);
    assert_eq!(attribute.u32().is_some(), value.len() >= 4);
    assert!(!attribute.text().contains('\0'));
    check_list(value, depth + 1);
}

/// Decodes the same as `answers`, one byte after the other.
fn read_naively(datagram: &[u8]) -> Vec<Answer<'_>> {
    let number = |at: usize, bytes: usize| -> usize {
        let word = &datagram[at..at + bytes];
        word.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
    };
    let (mut found, mut at) = (Vec::new(), 0);
    while at + HEADER_BYTES <= datagram.len() {
        let length = number(at, 4);
        if length < HEADER_BYTES || length > datagram.len() - at {
            break;
        }
        if number(at + 8, 4) == SEQUENCE as usize {
            let payload = &datagram[at + HEADER_BYTES..at + length];
            let is_status = matches!(number(at + 4, 2), 2 | 3);
            let status = payload.first_chunk().copied().map(i32::from_ne_bytes);
            found.push(match (is_status, status) {
                (false, _) => Answer::Payload(payload),
                (true, Some(0) | None) => Answer::End,
                (true, Some(negative)) => Answer::Refused {
                    errno: negative.saturating_neg(),
                    message: words(number(at + 4, 2) == 2, number(at + 6, 2), payload),
                },
            });
        }
        at += length.div_ceil(4) * 4;
    }
    found
}

/// Returns the text of a refusal: the first attribute of kind 1 behind the copy of the request.
fn words(is_error: bool, flags: usize, payload: &[u8]) -> String {
    if !is_error || flags & 0x200 == 0 {
        return String::new();
    }
    let copied = match payload.get(4..8) {
        _ if flags & 0x100 != 0 => HEADER_BYTES as u64,
        Some(length) => length.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
        None => return String::new(),
    };
    let start = (copied + 4).div_ceil(4) * 4;
    let tail = usize::try_from(start).ok().and_then(|start| payload.get(start..));
    let mut all = attributes(tail.unwrap_or_default());
    all.find(|attribute| attribute.kind == 1).map(|it| it.text()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a message whose length field is right, or off by `lie`.
    fn message(kind: u16, flags: u16, lie: i8, payload: &[u8]) -> Vec<u8> {
        let length = (HEADER_BYTES + payload.len()) as u32;
        let mut bytes = length.saturating_add_signed(lie.into()).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(SEQUENCE.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    proptest! {
        #[test]
        fn any_answer_is_read_as_a_naive_reading_does(
            messages in prop::collection::vec(
                (0u16..5, 0u16..0x400, prop_oneof![4 => Just(0i8), 1 => any::<i8>()], any::<Vec<u8>>()),
                0..5,
            ),
            end in any::<prop::sample::Index>(),
        ) {
            let mut datagram: Vec<u8> = messages
                .iter()
                .flat_map(|(kind, flags, lie, payload)| message(*kind, *flags, *lie, payload))
                .collect();
            check(&datagram);
            datagram.truncate(end.index(datagram.len() + 1));
            check(&datagram);
        }
    }
}
