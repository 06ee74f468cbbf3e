//! The stripes of one lane. Pure.
//!
//! Chunks leave a lane in the order in which they were scheduled, and finish in that order too. So
//! the stripes stand in one queue, and a stripe stays in it until its last chunk has finished:
//!
//! ```text
//! front                                                             back
//! | every chunk taken, some unfinished | some chunks taken | none taken |
//!                                        ^ the next chunk is taken here
//! ```
//!
//! A chunk in flight needs only the number of its stripe to find its messages.

use std::collections::VecDeque;

use super::plan::{ChunkRange, Member, Members, Stripe};
use crate::types::{MemoryType, OpKey, TransferKey};

/// Names a stripe of one lane, for as long as a chunk of it has not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeNumber(u64);

/// Work that has been carried out.
#[derive(Debug, PartialEq, Eq)]
pub enum Finished {
    /// Chunks of one message.
    Parts {
        /// Channel on which they were sent. `None`: they have arrived.
        sent_on: Option<u16>,
        /// The operation.
        op: OpKey,
        /// The transfer that it is of.
        transfer: TransferKey,
        /// Number of chunks.
        chunks: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// All messages that shared a chunk.
    Together {
        /// Channel on which it was sent. `None`: it has arrived.
        sent_on: Option<u16>,
        /// The messages.
        members: Vec<Member>,
    },
}

/// See the top of the file.
#[derive(Debug)]
pub struct StripeQueue {
    /// Channel of a lane that sends.
    channel: Option<u16>,
    stripes: VecDeque<Stripe>,
    /// Number of the front stripe.
    front: u64,
    /// Number of stripes at the front whose chunks are all taken.
    taken: usize,
}

impl StripeQueue {
    /// Makes the empty queue of a lane that sends on this channel.
    pub fn sending(channel: u16) -> Self {
        Self { channel: Some(channel), ..Self::receiving() }
    }

    /// Makes the empty queue of a lane that receives.
    pub fn receiving() -> Self {
        Self { channel: None, stripes: VecDeque::new(), front: 0, taken: 0 }
    }

    /// Puts a stripe behind the others.
    pub fn push(&mut self, stripe: Stripe) {
        self.stripes.push_back(stripe);
    }

    /// Returns whether no chunk waits or is unfinished.
    pub fn is_empty(&self) -> bool {
        self.stripes.is_empty()
    }

    /// Returns the stripe whose chunk is to be taken next, and that chunk.
    pub fn peek(&self) -> Option<(&Stripe, ChunkRange)> {
        let stripe = self.stripes.get(self.taken)?;
        Some((stripe, stripe.peek()?))
    }

    /// Returns the message that begins the next chunk, and the kind of memory that the chunk is
    /// gathered from.
    pub fn peek_first(&self) -> Option<(Member, ChunkRange, Option<MemoryType>)> {
        let (stripe, range) = self.peek()?;
        Some((*stripe.members().first()?, range, stripe.gathered))
    }

    /// Takes the chunk that `peek` shows. Returns the number of its stripe.
    pub fn take(&mut self) -> StripeNumber {
        let number = StripeNumber(self.front + self.taken as u64);
        if let Some(stripe) = self.stripes.get_mut(self.taken) {
            self.taken += usize::from(!stripe.advance());
        }
        number
    }

    /// Returns the messages of a stripe that has unfinished chunks.
    pub fn members(&self, number: StripeNumber) -> &[Member] {
        let index = usize::try_from(number.0 - self.front).unwrap_or(usize::MAX);
        self.stripes.get(index).map_or(&[], Stripe::members)
    }

    /// Notes in `done` that the oldest chunk that was taken has finished.
    pub fn finish(&mut self, done: &mut Vec<Finished>) {
        let Some(stripe) = self.stripes.front_mut() else { return };
        if let ([first], Some(range)) = (stripe.members(), stripe.oldest()) {
            finish_part(self.channel, first, range.bytes.into(), done);
        }
        if !stripe.finish() {
            return;
        }
        self.front += 1;
        self.taken = self.taken.saturating_sub(1);
        let members = self.stripes.pop_front().map(Stripe::into_members);
        if let Some(Members::Many(members)) = members {
            done.push(Finished::Together { sent_on: self.channel, members });
        }
    }
}

impl StripeQueue {
    /// Moves everything that has not finished behind the stripes of another lane, in its order. The
    /// chunks that were taken are taken again there. Returns the number of chunks.
    pub fn move_to(&mut self, other: &mut Self) -> u64 {
        let chunks = self.stripes.iter().map(Stripe::chunks_left).sum();
        self.front += self.stripes.len() as u64;
        self.taken = 0;
        other.stripes.extend(self.stripes.drain(..).map(|mut stripe| {
            stripe.take_back();
            stripe
        }));
        chunks
    }
}

/// Notes a chunk of a message, together with those of the same message just before it.
fn finish_part(sent_on: Option<u16>, message: &Member, more: u64, done: &mut Vec<Finished>) {
    if let Some(Finished::Parts { sent_on: last, op, chunks, bytes, .. }) = done.last_mut()
        && (*last, *op) == (sent_on, message.op)
    {
        *chunks += 1;
        *bytes += more;
        return;
    }
    let Member { op, transfer, .. } = *message;
    done.push(Finished::Parts { sent_on, op, transfer, chunks: 1, bytes: more });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plans::channel_set::ChannelSet;
    use crate::plans::plan::ChunkPlan;
    use crate::plans::plan::tests::{member, plan};

    proptest! {
        /// Against the plainest model: a list of chunks, taken and finished from the front.
        #[test]
        fn chunks_are_taken_and_finish_in_the_order_in_which_they_were_dealt(
            sizes in proptest::collection::vec(1u64..40, 1..12),
            turns in proptest::collection::vec(any::<bool>(), 200),
        ) {
            let mut queue = StripeQueue::sending(3);
            let mut chunks = VecDeque::new();
            for bytes in sizes {
                let (_, stripe) = plan(bytes, 10, 0).stripes().next().unwrap();
                queue.push(stripe);
                chunks.extend((0..bytes).step_by(10).map(|at| (bytes, at, (bytes - at).min(10))));
            }
            let (mut taken, mut done, mut finished) = (VecDeque::new(), Vec::new(), 0);
            for turn in turns {
                if turn {
                    let expected = chunks.pop_front();
                    let (seen, number) = match queue.peek_first() {
                        Some((member, range, None)) => {
                            let seen = (member.bytes, range.offset, u64::from(range.bytes));
                            (Some(seen), Some(queue.take()))
                        }
                        _ => (None, None),
                    };
                    prop_assert_eq!(seen, expected);
                    taken.extend(expected.zip(number));
                } else if let Some(((message, _, bytes), number)) = taken.pop_front() {
                    prop_assert_eq!(queue.members(number)[0].bytes, message);
                    queue.finish(&mut done);
                    prop_assert_eq!(bytes, bytes.min(10));
                    finished += 1;
                    // All messages here have the same key, so that their chunks are noted together.
                    let [Finished::Parts { chunks, .. }] = done[..] else {
                        return Err(TestCaseError::fail(format!("{done:?}")));
                    };
                    prop_assert_eq!(chunks, finished);
                }
                prop_assert_eq!(queue.is_empty(), chunks.is_empty() && taken.is_empty());
            }
        }
    }

    #[test]
    fn messages_that_share_a_chunk_finish_with_it() {
        let members = vec![member(10), member(20)];
        let plan = ChunkPlan {
            members: Members::Many(members.clone()),
            offset: 0,
            bytes: 30,
            chunk_bytes: 30,
            first_channel: 0,
            channels: ChannelSet::first(2),
            gathered: Some(MemoryType::Host),
        };
        let mut queue = StripeQueue::sending(3);
        plan.stripes().for_each(|(_, stripe)| queue.push(stripe));
        let number = queue.take();
        assert!(queue.peek().is_none() && !queue.is_empty());
        assert_eq!(queue.members(number), members);
        let mut done = Vec::new();
        queue.finish(&mut done);
        queue.finish(&mut done);
        assert_eq!(done, [Finished::Together { sent_on: Some(3), members }]);
        assert!(queue.is_empty());
    }
}
