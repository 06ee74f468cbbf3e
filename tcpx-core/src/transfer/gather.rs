#![allow(unsafe_code)]
//! Scattered messages on their way into one slot of a staging buffer.

use tcpx_rx::UnpackDescriptor;

use crate::transfer::batch::{Batch, BatchNumber, Job};
use crate::transfer::ledger::Ledger;
use crate::types::{MemoryType, OpKey, Span};

/// Offsets of a job's sources have 32 bits: sources whose distance from the start of their registration begins with the
/// same bits share a job.
const WINDOW_BYTES: u64 = 1 << 31;

/// A stretch of device memory that is copied.
#[derive(Clone, Copy, Debug)]
struct Copied {
    op: OpKey,
    /// Start of its window.
    base: u64,
    descriptor: UnpackDescriptor,
}

/// Copies messages together. What it keeps is the room for its lists.
#[derive(Debug, Default)]
pub(super) struct Gather {
    copies: Vec<Copied>,
}

impl Gather {
    /// Copies the messages of the chunk that begins with `first` into `slot`, one behind the other: those in host memory
    /// now, those in device memory with the batch. Returns the batch that has to finish before the slot holds them.
    ///
    /// # Safety
    /// The messages are operations of kind `slot.memory` whose memory stays readable until that batch has finished. The
    /// slot is a staging buffer's, of `bytes` bytes at least, as many as the messages have together; it stays writable, and
    /// nobody else touches it, for as long.
    pub(super) unsafe fn copy(
        &mut self,
        first: OpKey,
        slot: Span,
        bytes: u32,
        channel: u16,
        ledger: &Ledger,
        batch: &mut Batch,
    ) -> BatchNumber {
        self.copies.clear();
        let mut messages = ledger.messages(first).peekable();
        let mut dst_off = 0;
        while let Some((op, span, mut len)) = messages.next() {
            while let Some((_, _, more)) = messages.next_if(|(_, next, _)| {
                next.registration == span.registration && next.address == span.address + len
            }) {
                len += more;
            }
            match slot.memory {
                MemoryType::Host => {
                    // SAFETY: the caller vouches for both sides, which cannot overlap, since the slot is no caller's memory;
                    // the messages before this one and it fit the slot.
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            span.address as *const u8,
                            (slot.address + dst_off) as *mut u8,
                            len as usize,
                        );
                    }
                }
                MemoryType::Device => self.note(op, span, len, dst_off, ledger),
            }
            dst_off += len;
        }
        match slot.memory {
            MemoryType::Host => BatchNumber::NONE,
            MemoryType::Device => {
                self.submit(slot.address, bytes, channel, batch);
                batch.number()
            }
        }
    }

    fn note(&mut self, op: OpKey, span: Span, len: u64, dst_off: u64, ledger: &Ledger) {
        let start = ledger.registrations.start_of(span.registration).unwrap_or(span.address);
        let base = start + (span.address - start) / WINDOW_BYTES * WINDOW_BYTES;
        // Less than the window, and at most a chunk.
        let (src_off, len) = ((span.address - base) as u32, len as u32);
        self.copies.push(Copied {
            op,
            base,
            descriptor: UnpackDescriptor { src_off, len, dst_off },
        });
    }

    /// A job for each window, so that as many stretches as possible go with one.
    fn submit(&mut self, dst: u64, bytes: u32, channel: u16, batch: &mut Batch) {
        self.copies.sort_unstable_by_key(|copied| copied.base);
        for window in self.copies.chunk_by(|left, right| left.base == right.base) {
            let Some(Copied { op, base, .. }) = window.first().copied() else { continue };
            let job =
                Job { bounce: base, dst, dst_bytes: u64::from(bytes), op, channel, offset: 0 };
            batch.gather(job, window.iter().map(|copied| copied.descriptor));
        }
    }
}
