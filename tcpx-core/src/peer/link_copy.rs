#![allow(unsafe_code)]
//! Copies between the link and memory of a GPU, which the CPU does not reach.
//!
//! What is short travels on the link all the same. It is copied down to a pinned buffer before its
//! frame is sent, or up from one behind its frame, with the batch of the round. Copies that follow
//! each other are under way together. Whatever else follows one waits for it in the same queue, so
//! everything keeps its order: bytes are in place before what follows them. No frame that arrives
//! later is handled meanwhile. The peer's channels go on.

use std::sync::Arc;

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
#[derive(Clone, Copy)]
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
        let next = AfterCopy::Send { frame, note: None };
        self.copy_down(&[part_of(member)], member.tag, next, cx).map(|()| None)
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
        let next = AfterCopy::Send { frame, note: note.cloned() };
        self.copy_down(&parts_of(range), 0, next, cx).map(|()| None)
    }

    fn copy_down(
        &mut self,
        parts: &[DevicePart],
        tag: i64,
        next: AfterCopy,
        cx: &mut Resources,
    ) -> Result<()> {
        let bytes = self.checked_bytes(parts)?;
        let Resources { session, ledger, batch, .. } = cx;
        let buffer = ledger.link_buffers.take(&session.memory, &mut ledger.registrations)?;
        let until = self.push_jobs(parts, &buffer, (Direction::Send, tag), batch);
        self.copies.push((buffer, bytes), until, next);
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
        (came, note): (usize, Option<Vec<u8>>),
        cx: &mut Resources,
    ) -> Result<()> {
        let bytes = self.checked_bytes(parts)?;
        let Resources { session, ledger, batch, .. } = cx;
        let mut buffer = ledger.link_buffers.take(&session.memory, &mut ledger.registrations)?;
        let payload = self.link.payload(came);
        // SAFETY: the buffer was idle, or is new: no copy uses it.
        unsafe { buffer.fill(&payload[..payload.len().min(bytes as usize)]) };
        let until = self.push_jobs(parts, &buffer, (Direction::Receive, tag), batch);
        self.copies.push((buffer, bytes), until, AfterCopy::Publish(note));
        Ok(())
    }

    /// Returns the number of bytes of the parts, which have room in a buffer by what both ends have
    /// agreed on.
    fn checked_bytes(&self, parts: &[DevicePart]) -> Result<u64> {
        let bytes = parts.iter().map(|part| part.bytes).sum();
        if bytes <= LINK_BUFFER_BYTES {
            return Ok(bytes);
        }
        Err(self.protocol_error(format!("{bytes} bytes of a GPU's memory on the control link")))
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
