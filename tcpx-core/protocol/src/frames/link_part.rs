//! Some bytes of an operation that travels on the link. Pure.

use crate::types::remote_access::OperationKind;

/// So many bytes of an operation, which follow a frame.
///
/// How the bytes of an operation are cut into parts means nothing. So whoever receives a part may
/// take it in several, as its bytes come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPart {
    /// Whether it is a read or a write.
    pub kind: OperationKind,
    /// The operation, by its initiator's name.
    pub op: u64,
    /// Bytes.
    pub bytes: u32,
}

impl LinkPart {
    /// The first bytes of it, of which there are not more.
    pub fn first(self, bytes: usize) -> Self {
        Self { bytes: self.bytes.min(bytes.try_into().unwrap_or(u32::MAX)), ..self }
    }

    /// What is left of it behind so many bytes, if anything is.
    pub fn after(self, bytes: usize) -> Option<Self> {
        let left = self.bytes - self.first(bytes).bytes;
        (left > 0).then_some(Self { bytes: left, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_and_what_is_left_are_the_whole() {
        let part = |bytes| LinkPart { kind: OperationKind::Write, op: 7, bytes };
        for (bytes, first, left) in [
            (0, 0, Some(100)),
            (1, 1, Some(99)),
            (99, 99, Some(1)),
            (100, 100, None),
            (101, 100, None),
            (usize::MAX, 100, None),
        ] {
            let whole = part(100);
            assert_eq!((whole.first(bytes), whole.after(bytes)), (part(first), left.map(part)));
        }
    }
}
