//! A chunk on its way, as the parts of messages that it has.

use crate::transfer::plan::Member;
use crate::transfer::stripe_queue::StripeQueue;
use crate::types::TransferKey;

/// Bytes of one message, which a chunk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The message, by the key of its transfer.
    pub(super) of: TransferKey,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// A chunk on its way.
pub(super) type Chunk = Vec<Piece>;

/// Takes the next chunk of a lane.
pub(super) fn take_chunk(stripes: &mut StripeQueue) -> Option<Chunk> {
    let (stripe, range) = stripes.peek()?;
    let whole = |member: &Member| Piece { of: member.transfer, offset: 0, bytes: member.bytes };
    let chunk = match stripe.members() {
        [one] => {
            vec![Piece { of: one.transfer, offset: range.offset, bytes: u64::from(range.bytes) }]
        }
        many => many.iter().map(whole).collect(),
    };
    stripes.take();
    Some(chunk)
}
