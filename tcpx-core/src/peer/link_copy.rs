#![allow(unsafe_code)]
//! Copies between the link and memory of a GPU, which the CPU does not reach.
//!
//! What is short travels on the link all the same. It is copied down to a pinned buffer before its
//! frame is sent, or up from one behind its frame, with the batch of the round. Copies that follow
//! each other are under way together. Whatever else follows one waits for it in the same queue, so
//! everything keeps its order: bytes are in place before what follows them. What is longer than a
//! buffer goes through several. The rest of a chunk is read to further buffers while the first
//! bytes are copied, but no frame that arrives later is handled meanwhile. The peer's channels go
//! on.

use std::sync::Arc;

use smallvec::SmallVec;
use tcpx_protocol::frames::frame::Frame;
use tcpx_protocol::plans::piece_range::PieceRange;
use tcpx_protocol::plans::pieces::Piece;
use tcpx_protocol::plans::plan::Member;
use tcpx_protocol::types::{Direction, MemoryType, RegistrationKey};
use tcpx_rx::UnpackDescriptor;

use super::connection::Connection;
use super::resources::Resources;
use crate::error::Result;
use crate::transfer::batch::{Batch, BatchNumber};
use crate::transfer::job::{Job, JobLabel};
use crate::transfer::link_buffers::{LINK_BUFFER_BYTES, LinkBuffer};
use crate::transfer::link_copies::AfterCopy;

/// Memory of a GPU that a message lies in: where its parts begin, and how many bytes they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DevicePart {
    address: u64,
    bytes: u64,
    registration: RegistrationKey,
}

impl Connection {
    /// Returns whether a copy is under way, which later work waits for.
    #[inline]
    pub(super) fn is_copying(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Returns whether the link may be read. While copies are under way, that is the rest of a
    /// chunk alone: it goes through buffers of its own, behind them.
    pub(super) fn may_read_link(&self) -> bool {
        !self.is_copying() || (self.link.chunk_to_read().is_some() && !self.copies.is_full())
    }

    /// Sends a frame with the bytes of a message behind it, once they are copied down. Returns the
    /// frame where the CPU reaches them.
    pub(super) fn copy_message_down(
        &mut self,
        frame: Frame,
        member: &Member,
        cx: &mut Resources,
    ) -> Result<Option<Frame>> {
        if !is_copied(cx, member.span.memory, member.bytes) {
            return Ok(Some(frame));
        }
        self.copy_down(&[part_of(member)], member.tag, (frame, None), cx).map(|()| None)
    }

    /// Does the same with bytes of a list and a note.
    pub(super) fn copy_range_down(
        &mut self,
        frame: Frame,
        range: &PieceRange,
        note: Option<&Arc<[u8]>>,
        cx: &mut Resources,
    ) -> Result<Option<Frame>> {
        if !is_copied(cx, range.memory(), range.bytes()) {
            return Ok(Some(frame));
        }
        self.copy_down(&parts_of(range), 0, (frame, note.cloned()), cx).map(|()| None)
    }

    fn copy_down(
        &mut self,
        parts: &[DevicePart],
        tag: i64,
        (frame, note): (Frame, Option<Arc<[u8]>>),
        cx: &mut Resources,
    ) -> Result<()> {
        // A GPU takes a batch of any length (`batch_bytes`): all buffers of a frame are copied
        // before the first is sent, and nothing else comes between them on the link.
        let (mut frame, mut note) = (Some(frame), note);
        let mut fills = Fills::of(parts);
        while let Some((parts, bytes)) = fills.next() {
            let buffer = take_buffer(cx)?;
            let until = self.push_jobs(&parts, &buffer, (Direction::Send, tag), &mut cx.batch);
            let note = if fills.is_over() { note.take() } else { None };
            self.copies.push((buffer, bytes), until, AfterCopy::Send { frame: frame.take(), note });
        }
        Ok(())
    }

    /// Copies the bytes of a message to its place. Returns whether it does: the CPU does not reach
    /// the place.
    pub(super) fn copy_message_up(&mut self, member: &Member, cx: &mut Resources) -> Result<bool> {
        if !is_copied(cx, member.span.memory, member.bytes) {
            return Ok(false);
        }
        let payload = (member.bytes as usize, None);
        self.copy_up(&[part_of(member)], member.tag, payload, cx).map(|()| true)
    }

    /// Does the same with bytes of a list, the first ones of this many that came. The note that is
    /// behind them is passed on then.
    pub(super) fn copy_range_up(
        &mut self,
        range: &PieceRange,
        (came, note): (usize, Option<Vec<u8>>),
        cx: &mut Resources,
    ) -> Result<()> {
        self.copy_up(&parts_of(range), 0, (came, note), cx)
    }

    fn copy_up(
        &mut self,
        parts: &[DevicePart],
        tag: i64,
        (came, mut note): (usize, Option<Vec<u8>>),
        cx: &mut Resources,
    ) -> Result<()> {
        let (mut fills, mut at) = (Fills::of(parts), 0);
        while let Some((parts, bytes)) = fills.next() {
            let mut buffer = take_buffer(cx)?;
            let payload = self.link.payload(came);
            let end = payload.len().min(at + bytes as usize);
            // SAFETY: the buffer was idle, or is new: no copy uses it.
            unsafe { buffer.fill(&payload[at.min(end)..end]) };
            at = end;
            let note = if fills.is_over() { note.take() } else { None };
            self.push_copy_up((buffer, bytes), &parts, (tag, note), &mut cx.batch);
        }
        Ok(())
    }

    /// Copies what was read to a buffer to its place, which is this range.
    pub(super) fn copy_buffer_up(
        &mut self,
        buffer: LinkBuffer,
        range: &PieceRange,
        cx: &mut Resources,
    ) {
        self.push_copy_up((buffer, range.bytes()), &parts_of(range), (0, None), &mut cx.batch);
    }

    fn push_copy_up(
        &mut self,
        (buffer, bytes): (LinkBuffer, u64),
        parts: &[DevicePart],
        (tag, note): (i64, Option<Vec<u8>>),
        batch: &mut Batch,
    ) {
        let until = self.push_jobs(parts, &buffer, (Direction::Receive, tag), batch);
        self.copies.push((buffer, bytes), until, AfterCopy::Publish(note));
    }

    /// Adds the copies between a buffer and the parts, one behind the other there, to the batch.
    /// Returns which that is.
    fn push_jobs(
        &self,
        parts: &[DevicePart],
        buffer: &LinkBuffer,
        (direction, tag): (Direction, i64),
        batch: &mut Batch,
    ) -> BatchNumber {
        let until = batch.number_for(parts.iter().map(|part| part.bytes).sum());
        let mut at = buffer.address();
        for DevicePart { address, bytes, registration } in parts.iter().copied() {
            let (bounce, dst) = match direction {
                Direction::Send => (address, at),
                Direction::Receive => (at, address),
            };
            let label =
                JobLabel { peer: self.key, direction, channel: 0, registration, tag, chunk: 0 };
            batch.gather(Job { bounce, dst, dst_bytes: bytes, label }, [whole(bytes)]);
            at += bytes;
        }
        until
    }
}

/// Parts by the buffers that they go through, one behind the other.
struct Fills<'a> {
    parts: &'a [DevicePart],
    /// Bytes of the first part that went through earlier buffers.
    done: u64,
}

impl<'a> Fills<'a> {
    fn of(parts: &'a [DevicePart]) -> Self {
        Self { parts, done: 0 }
    }

    fn is_over(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Iterator for Fills<'_> {
    type Item = (SmallVec<[DevicePart; 4]>, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let (mut of_buffer, mut bytes) = (SmallVec::new(), 0);
        while bytes < LINK_BUFFER_BYTES
            && let Some((first, others)) = self.parts.split_first()
        {
            let left = first.bytes - self.done;
            let fits = left.min(LINK_BUFFER_BYTES - bytes);
            of_buffer.push(DevicePart {
                address: first.address + self.done,
                bytes: fits,
                ..*first
            });
            bytes += fits;
            (self.parts, self.done) =
                if fits == left { (others, 0) } else { (self.parts, self.done + fits) };
        }
        (!of_buffer.is_empty()).then_some((of_buffer, bytes))
    }
}

/// Takes a buffer for one copy.
pub(super) fn take_buffer(cx: &mut Resources) -> Result<LinkBuffer> {
    let Resources { session, ledger, .. } = cx;
    ledger.link_buffers.take(&session.memory, &mut ledger.registrations)
}

/// Returns whether bytes in memory of this kind are copied for the link: the CPU does not reach
/// them.
pub(super) fn is_copied(cx: &Resources, memory: MemoryType, bytes: u64) -> bool {
    cx.session.copies_on_link && memory == MemoryType::Device && bytes > 0
}

fn part_of(member: &Member) -> DevicePart {
    let span = member.span;
    DevicePart { address: span.address, bytes: member.bytes, registration: span.registration }
}

fn parts_of(range: &PieceRange) -> Vec<DevicePart> {
    let part = |piece: Piece| DevicePart {
        address: piece.address,
        bytes: piece.bytes,
        registration: range.registration(&piece),
    };
    range.iter().map(part).collect()
}

/// Returns the descriptor of a part that is copied whole.
fn whole(bytes: u64) -> UnpackDescriptor {
    UnpackDescriptor { src_off: 0, len: bytes as u32, dst_off: 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_fill_one_buffer_after_the_other(lengths in prop::collection::vec(0..3 * LINK_BUFFER_BYTES, 0..6)) {
            let registration = RegistrationKey::default();
            let address = |index: usize| (index as u64) << 20;
            let parts: Vec<_> = (0..).zip(&lengths).map(|(index, &bytes)| DevicePart { address: address(index), bytes, registration }).collect();
            let mut fills = Fills::of(&parts);
            let mut rest = parts.iter().flat_map(|part| (0..part.bytes).map(|at| part.address + at));
            let mut left: u64 = lengths.iter().sum();
            while let Some((of_buffer, bytes)) = fills.next() {
                prop_assert_eq!(bytes, left.min(LINK_BUFFER_BYTES));
                prop_assert_eq!(of_buffer.iter().map(|part| part.bytes).sum::<u64>(), bytes);
                for part in of_buffer {
                    for at in 0..part.bytes {
                        prop_assert_eq!(rest.next(), Some(part.address + at));
                    }
                }
                left -= bytes;
                prop_assert!(!fills.is_over() || left == 0);
            }
            prop_assert!(fills.is_over() && rest.next().is_none());
        }
    }
}
