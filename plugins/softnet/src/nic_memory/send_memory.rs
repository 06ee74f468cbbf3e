//! Memory that a NIC sends host memory from: slots of a dma-buf, one for each chunk. Memory that
//! stands in for a GPU's is no dma-buf of its own, and host memory is none either, so chunks of
//! both are copied there first. A GPU's memory is sent where it is (`Registration::bound_to`).

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use tcpx_devmem::{DevmemError, HostBuffer, Nic, TxBinding};
use tcpx_sys::UNPACK_PAGE_BYTES;

use super::fitness::is_down;
use super::kernel_deadline::KERNEL_DEADLINE;
use super::lasting_trouble::LastingTrouble;
use crate::memory::{NicSource, Piece};

/// Bytes that the slots of a comm have together, where a chunk is not larger than half of it.
const TOTAL_BYTES: usize = 8 << 20;
const MIN_SLOTS: usize = 2;
const MAX_SLOTS: usize = 64;

/// A send comm's way to its NIC.
#[derive(Debug)]
pub(crate) struct SendMemory {
    interface: String,
    slot_bytes: usize,
    slots: Option<Slots>,
    trouble: LastingTrouble,
    /// Reason why nothing ever leaves any more.
    refusal: Option<Arc<DevmemError>>,
}

#[derive(Debug)]
struct Slots {
    buffer: HostBuffer,
    binding: TxBinding,
    free: Vec<usize>,
}

/// Chunk in its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StagedChunk {
    pub(crate) memory: Piece,
    pub(crate) source: NicSource,
}

/// Reason why a chunk is not in a slot.
#[derive(Debug)]
pub(crate) enum StageError {
    /// The caller's memory is not there.
    Memory(io::Error),
    /// There are no slots.
    Nic(Arc<DevmemError>),
}

impl SendMemory {
    /// Creates send memory for chunks of at most `chunk_bytes` that leave by `interface`. There are
    /// no slots before the first chunk that needs one. Most comms only receive or only send, and a
    /// comm of a GPU copies nothing. And the kernel is not safe from a NIC that is removed while
    /// there is a binding to send.
    pub(crate) fn new(interface: &str, chunk_bytes: u32) -> Self {
        let slot_bytes = (chunk_bytes as usize).next_multiple_of(UNPACK_PAGE_BYTES);
        let trouble = LastingTrouble::default();
        Self { interface: interface.to_owned(), slot_bytes, slots: None, trouble, refusal: None }
    }

    /// Checks that the NIC can send at all.
    ///
    /// # Errors
    /// Each with its diagnosis.
    pub(crate) fn check(&self) -> Result<(), DevmemError> {
        TxBinding::check(&Nic::named(&self.interface)?, KERNEL_DEADLINE)
    }

    pub(crate) fn interface(&self) -> &str {
        &self.interface
    }

    /// Returns why nothing leaves, if the NIC is the reason.
    pub(crate) fn trouble(&self) -> Option<Arc<DevmemError>> {
        let down = || DevmemError::NicDown { nic: self.interface.clone() };
        self.refusal.clone().or_else(|| is_down(&self.interface).then(|| Arc::new(down())))
    }

    /// Looks at trouble of the NIC after nothing has left for a while. Trouble that lasts for
    /// `limit` is an end.
    pub(crate) fn check_trouble(&mut self, limit: Option<Duration>) -> Option<Arc<DevmemError>> {
        if self.refusal.is_none() {
            self.refusal = self.trouble.update(self.trouble(), limit);
        }
        self.refusal.clone()
    }

    /// Returns whether nothing ever leaves any more.
    pub(crate) fn is_over(&self) -> bool {
        self.refusal.is_some()
    }

    /// Returns whether a chunk finds room.
    pub(crate) fn has_room(&self) -> bool {
        self.slots.as_ref().is_none_or(|slots| !slots.free.is_empty())
    }

    /// Copies a chunk to a slot; returns `None` when none is free.
    ///
    /// # Errors
    /// [`StageError`].
    pub(crate) fn stage(&mut self, chunk: Piece) -> Result<Option<StagedChunk>, StageError> {
        let slots = match &mut self.slots {
            Some(slots) => slots,
            none => match Slots::new(&self.interface, self.slot_bytes) {
                Ok(slots) => none.insert(slots),
                Err(error) => {
                    let error = self.refusal.insert(Arc::new(error));
                    return Err(StageError::Nic(Arc::clone(error)));
                }
            },
        };
        let Some(slot) = slots.free.pop() else { return Ok(None) };
        let offset = slot * self.slot_bytes;
        let bytes = chunk.len().min(self.slot_bytes);
        if let Err(error) = chunk.slice(0, bytes).save(slots.buffer.file(), offset) {
            slots.free.push(slot);
            return Err(StageError::Memory(error));
        }
        let memory = Piece::of_buffer(&slots.buffer, offset, bytes);
        let base = slots.buffer.as_mut_ptr().addr();
        Ok(Some(StagedChunk { memory, source: NicSource { binding: slots.binding.id(), base } }))
    }

    /// Frees a slot that the system reads no more; `memory` may also be no slot.
    pub(crate) fn release(&mut self, memory: Piece) {
        let Some(slots) = &mut self.slots else { return };
        let start = slots.buffer.as_mut_ptr().addr();
        if (start..start + slots.buffer.len()).contains(&memory.address()) {
            slots.free.push((memory.address() - start) / self.slot_bytes);
        }
    }
}

impl Slots {
    fn new(interface: &str, slot_bytes: usize) -> Result<Self, DevmemError> {
        let slots = (TOTAL_BYTES / slot_bytes).clamp(MIN_SLOTS, MAX_SLOTS);
        let buffer = HostBuffer::new(slots * slot_bytes)?;
        let binding = TxBinding::new(&Nic::named(interface)?, buffer.as_fd(), KERNEL_DEADLINE)?;
        Ok(Self { buffer, binding, free: (0..slots).rev().collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_made_when_they_are_needed_and_what_is_none_is_not_freed() {
        let mut memory = SendMemory::new("no-such-nic", 5000);
        assert!(memory.has_room() && memory.slots.is_none());
        memory.release(Piece::for_tests(4096, 10));
        let refused = memory.stage(Piece::EMPTY).expect_err("there is no such NIC");
        assert!(matches!(refused, StageError::Nic(_)), "{refused:?}");
        assert!(memory.is_over() && memory.trouble().is_some(), "it is known later, too");
    }
}
