#![allow(unsafe_code)]
//! Gathering of scattered messages into one slot of a staging buffer.

use tcpx_protocol::plans::plan::Member;
use tcpx_protocol::types::{MemoryType, Span};
use tcpx_rx::UnpackDescriptor;

use super::batch::{Batch, BatchNumber};
use super::job::{Job, JobLabel};
use crate::plugin::registrations::Registrations;

/// Offsets of a job's sources have 32 bits: sources whose distance from the start of their
/// registration begins with the same bits share a job.
const WINDOW_BYTES: u64 = 1 << 31;

/// A segment of device memory that is copied.
#[derive(Clone, Copy, Debug)]
struct SegmentCopy {
    member: Member,
    /// Start of its window.
    base: u64,
    descriptor: UnpackDescriptor,
}

/// Copies messages together. What it keeps is the room for its lists.
#[derive(Debug, Default)]
pub(super) struct Gather {
    copies: Vec<SegmentCopy>,
}

impl Gather {
    /// Copies messages into `slot`, one behind the other: those in host memory now, those in device
    /// memory with the batch. Returns the batch that has to finish before the slot holds them.
    /// `label` names the chunk but for what differs from message to message.
    ///
    /// # Safety
    /// The messages are of kind `slot.memory`, and their memory stays readable until that batch has
    /// finished. The slot is a staging buffer's and holds all of them. For as long, the slot stays
    /// writable, and nothing else touches it.
    pub(super) unsafe fn copy(
        &mut self,
        messages: &[Member],
        slot: Span,
        label: JobLabel,
        registrations: &Registrations,
        batch: &mut Batch,
    ) -> BatchNumber {
        self.copies.clear();
        let mut dst_off = 0;
        for segment in messages.chunk_by(Member::is_followed_by) {
            let Some(first) = segment.first() else { continue };
            let len: u64 = segment.iter().map(|member| member.bytes).sum();
            match slot.memory {
                MemoryType::Host => {
                    // SAFETY: the caller vouches for both sides, which cannot overlap, since the
                    // slot is no caller's memory; the messages before this one and it fit the slot.
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            first.span.address as *const u8,
                            (slot.address + dst_off) as *mut u8,
                            len as usize,
                        );
                    }
                }
                _ => self.note(*first, len, dst_off, registrations),
            }
            dst_off += len;
        }
        match slot.memory {
            MemoryType::Host => BatchNumber::NONE,
            _ => {
                let number = batch.number_for(dst_off);
                self.submit(slot.address, dst_off, label, batch);
                number
            }
        }
    }

    fn note(&mut self, member: Member, len: u64, dst_off: u64, registrations: &Registrations) {
        let Span { registration, address, .. } = member.span;
        let start = registrations.start_of(registration).unwrap_or(address);
        let base = start + (address - start) / WINDOW_BYTES * WINDOW_BYTES;
        // Less than the window, and at most a chunk.
        let (src_off, len) = ((address - base) as u32, len as u32);
        let descriptor = UnpackDescriptor { src_off, len, dst_off };
        self.copies.push(SegmentCopy { member, base, descriptor });
    }

    /// Submits a job for each window, so that as many segments as possible go with one.
    fn submit(&mut self, dst: u64, dst_bytes: u64, label: JobLabel, batch: &mut Batch) {
        self.copies.sort_unstable_by_key(|copied| copied.base);
        for window in self.copies.chunk_by(|left, right| left.base == right.base) {
            let Some(SegmentCopy { member, base, .. }) = window.first().copied() else { continue };
            let registration = member.span.registration;
            let label = JobLabel { registration, tag: member.tag, ..label };
            let job = Job { bounce: base, dst, dst_bytes, label };
            batch.gather(job, window.iter().map(|copied| copied.descriptor));
        }
    }
}
