//! A chunk on its way, as the parts of messages that it has.

use crate::plans::plan::Member;
use crate::plans::stripe_queue::StripeQueue;
use crate::types::{OpKey, TransferKey};

/// Bytes of one message, which a chunk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The message, by the key of its transfer.
    pub(super) of: TransferKey,
    pub(super) op: OpKey,
    pub(super) address: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// A chunk on its way.
pub(super) type Chunk = Vec<Piece>;

/// Takes the next chunk of a lane.
pub(super) fn take_chunk(stripes: &mut StripeQueue) -> Option<Chunk> {
    let (stripe, range) = stripes.peek()?;
    let part = |member: &Member, offset: u64, bytes: u64| Piece {
        of: member.transfer,
        op: member.op,
        address: member.span.address + offset,
        offset,
        bytes,
    };
    let chunk = match stripe.members() {
        [one] => vec![part(one, range.offset, u64::from(range.bytes))],
        many => many.iter().map(|member| part(member, 0, member.bytes)).collect(),
    };
    stripes.take();
    Some(chunk)
}
