//! Receives as their own end sees them: what is announced of one, and which of them may share a
//! chunk. Pure.

use crate::frames::fields::Delivery;
use crate::types::{MemoryType, Span};

/// The end of the receive that was announced or matched last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct MessageEnd {
    span: Span,
    bytes: u64,
}

impl MessageEnd {
    pub(in super::super) fn new(span: Span, bytes: u64) -> Self {
        Self { span, bytes }
    }

    /// Returns whether `next` begins where this ends, in one registration.
    fn is_followed_by(&self, next: &Span) -> bool {
        self.span.registration == next.registration
            && self.span.address.checked_add(self.bytes) == Some(next.address)
    }

    /// Returns what to announce of a receive into `next` after this one.
    pub(in super::super) fn delivery(before: Option<&Self>, next: &Span) -> Delivery {
        match next.memory {
            MemoryType::Device => Delivery::Unpacked,
            MemoryType::Host if before.is_some_and(|end| end.is_followed_by(next)) => {
                Delivery::InPlaceBehind
            }
            MemoryType::Host => Delivery::InPlace,
        }
    }
}

/// The receives of one match, as the receiver puts them together. What the peer says is checked
/// here.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Receives {
    end: MessageEnd,
    /// Bytes of all of them.
    pub(in super::super) bytes: u64,
}

impl Receives {
    pub(in super::super) fn new(span: Span, bytes: u64) -> Self {
        Self { end: MessageEnd::new(span, bytes), bytes }
    }

    /// Adds a receive to the chunk. Returns false when it cannot share it.
    pub(in super::super) fn join(&mut self, span: Span, bytes: u64, chunk_bytes: u32) -> bool {
        let together = self.bytes.saturating_add(bytes);
        let is_unpacked = [self.end.span.memory, span.memory] == [MemoryType::Device; 2];
        let fits = self.bytes > 0 && bytes > 0 && together <= u64::from(chunk_bytes);
        if !fits || !(is_unpacked || self.end.is_followed_by(&span)) {
            return false;
        }
        *self = Self { end: MessageEnd::new(span, bytes), bytes: together };
        true
    }
}

#[cfg(test)]
mod tests {
    use slotmap::KeyData;

    use super::*;
    use crate::types::RegistrationKey;

    const CHUNK_BYTES: u32 = 64;

    fn span(registration: u64, address: u64, memory: MemoryType) -> Span {
        let registration = RegistrationKey::from(KeyData::from_ffi(registration | 1 << 32));
        Span { registration, address, memory }
    }

    #[test]
    fn a_receive_is_announced_by_where_its_bytes_go() {
        let host = |registration, address| span(registration, address, MemoryType::Host);
        let end = MessageEnd::new(host(1, 0), 8);
        let device = span(1, 8, MemoryType::Device);
        for (before, next, expected) in [
            (None, host(1, 8), Delivery::InPlace),
            (Some(&end), host(1, 8), Delivery::InPlaceBehind),
            (Some(&end), host(1, 9), Delivery::InPlace),
            (Some(&end), host(2, 8), Delivery::InPlace),
            (Some(&end), device, Delivery::Unpacked),
        ] {
            assert_eq!(MessageEnd::delivery(before, &next), expected, "{next:?}");
        }
    }

    #[test]
    fn a_match_of_receives_that_lie_apart_is_refused() {
        let [near, host, device] =
            [(0, MemoryType::Host), (90, MemoryType::Host), (90, MemoryType::Device)]
                .map(|(address, memory)| span(1, address, memory));
        let join = |first: (Span, u64), next: (Span, u64)| {
            Receives::new(first.0, first.1).join(next.0, next.1, CHUNK_BYTES)
        };
        assert!(join((near, 90 - 60), (span(1, 30, MemoryType::Host), 34)));
        assert!(!join((near, 30), (host, 34)), "it would be written behind the first");
        assert!(join((device, 30), (span(2, 0, MemoryType::Device), 34)));
        assert!(!join((device, 31), (span(2, 0, MemoryType::Device), 34)), "longer than a chunk");
        assert!(!join((device, 30), (span(1, 0, MemoryType::Host), 34)));
        assert!(!join((device, 0), (device, 8)) && !join((device, 8), (device, 0)));
        assert!(!join((device, 8), (device, u64::MAX)));
    }
}
