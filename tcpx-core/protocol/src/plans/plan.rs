//! What travels together: one message of any size, or several small ones that share a chunk. Pure.
//!
//! The protocol makes plans, the lanes carry them out, and what has been carried out comes back to
//! the protocol. A plan owns its messages, so a lane needs to look nothing up.

use crate::types::{MemoryType, OpKey, Span, TransferKey};

/// One matched message: whose it is, and where its bytes are at this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The operation at this end.
    pub op: OpKey,
    /// The transfer that it is of.
    pub transfer: TransferKey,
    /// Where its bytes lie.
    pub span: Span,
    /// Its bytes.
    pub bytes: u64,
    /// Its tag.
    pub tag: i64,
}

impl Member {
    /// Whether `next` begins where this ends, in one registration.
    pub fn is_followed_by(&self, next: &Self) -> bool {
        self.span.registration == next.span.registration
            && self.span.address.checked_add(self.bytes) == Some(next.span.address)
    }
}

/// The messages of a plan, at least one.
#[derive(Debug, PartialEq, Eq)]
pub enum Members {
    /// A message by itself, cut into as many chunks as it takes.
    One(Member),
    /// Messages whose bytes lie one behind the other in one chunk, in this order.
    Many(Vec<Member>),
}

impl Members {
    /// Returns them in their order.
    pub fn as_slice(&self) -> &[Member] {
        match self {
            Self::One(member) => std::slice::from_ref(member),
            Self::Many(members) => members,
        }
    }
}

/// What is dealt to channels at once.
#[derive(Debug, PartialEq, Eq)]
pub struct ChunkPlan {
    /// The messages, in their order.
    pub members: Members,
    /// Where it begins in its message, of which it may be a section; 0 for several messages.
    pub offset: u64,
    /// Bytes of all members, or of the section.
    pub bytes: u64,
    /// Bytes of each chunk, but for the last. Several messages fit one.
    pub chunk_bytes: u32,
    /// Channel of the first chunk; the others go round robin from there.
    pub first_channel: u16,
    /// Members that lie apart are copied together first, in memory of this kind. `None`: the bytes
    /// lie in one piece, and are sent from there. Nothing is gathered to be received.
    pub gathered: Option<MemoryType>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::types::RegistrationKey;

    pub(crate) fn member(bytes: u64) -> Member {
        let (op, transfer) = (OpKey::default(), TransferKey::default());
        let registration = RegistrationKey::default();
        let span = Span { registration, address: 0, memory: MemoryType::Host };
        Member { op, transfer, span, bytes, tag: 0 }
    }

    pub(crate) fn plan(bytes: u64, chunk_bytes: u32, first_channel: u16) -> ChunkPlan {
        let members = Members::One(member(bytes));
        ChunkPlan { members, offset: 0, bytes, chunk_bytes, first_channel, gathered: None }
    }

    #[test]
    fn neighbours_follow_each_other_in_one_registration() {
        let first = Member { span: Span { address: 100, ..member(8).span }, ..member(8) };
        let at = |address| Member { span: Span { address, ..first.span }, ..first };
        assert!(first.is_followed_by(&at(108)));
        assert!(!first.is_followed_by(&at(107)) && !first.is_followed_by(&at(109)));
        let endless = Member { bytes: u64::MAX, ..first };
        assert!(!endless.is_followed_by(&at(99)));
    }
}
