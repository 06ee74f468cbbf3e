//! What a NIC sends from: slots of a dma-buf, one to a chunk. Memory that stands in for a GPU's is
//! no dma-buf of its own, and host memory is none either, so chunks of both are copied there first.

use std::os::fd::AsFd;
use std::sync::Arc;

use tcpx_devmem::{DevmemError, HostBuffer, Nic, TxBinding};
use tcpx_sys::UNPACK_PAGE_BYTES;

use super::fitness::is_down;
use super::kernel_deadline::KERNEL_DEADLINE;
use crate::memory::Piece;

/// Bytes that the slots of a comm have together, where a chunk is not larger than half of it.
const TOTAL_BYTES: usize = 8 << 20;
const MIN_SLOTS: usize = 2;
const MAX_SLOTS: usize = 64;

/// The slots of one send comm.
#[derive(Debug)]
pub(crate) struct SendMemory {
    interface: String,
    buffer: Arc<HostBuffer>,
    binding: TxBinding,
    slot_bytes: usize,
    free: Vec<usize>,
}

impl SendMemory {
    /// For chunks of at most `chunk_bytes` that leave by `interface`.
    ///
    /// # Errors
    /// Each with its diagnosis.
    pub(crate) fn new(interface: &str, chunk_bytes: u32) -> Result<Self, DevmemError> {
        let slot_bytes = (chunk_bytes as usize).next_multiple_of(UNPACK_PAGE_BYTES);
        let slots = (TOTAL_BYTES / slot_bytes).clamp(MIN_SLOTS, MAX_SLOTS);
        let buffer = HostBuffer::new(slots * slot_bytes)?;
        let binding = TxBinding::new(&Nic::named(interface)?, buffer.as_fd(), KERNEL_DEADLINE)?;
        let free = (0..slots).rev().collect();
        let interface = interface.to_owned();
        Ok(Self { interface, buffer: Arc::new(buffer), binding, slot_bytes, free })
    }

    /// Why nothing leaves, if the NIC is why.
    pub(crate) fn trouble(&self) -> Option<Arc<DevmemError>> {
        let down = || DevmemError::NicDown { nic: self.interface.clone() };
        is_down(&self.interface).then(|| Arc::new(down()))
    }

    /// The number of its binding, and the memory.
    pub(super) fn parts(&self) -> (u32, Arc<HostBuffer>) {
        (self.binding.id(), Arc::clone(&self.buffer))
    }

    /// Whether a slot is free.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Copies a chunk to a slot; `None` when none is free.
    ///
    /// # Errors
    /// The caller's memory is not there.
    pub(crate) fn stage(&mut self, chunk: Piece) -> std::io::Result<Option<Piece>> {
        let Some(slot) = self.free.pop() else { return Ok(None) };
        let offset = slot * self.slot_bytes;
        let bytes = chunk.len().min(self.slot_bytes);
        if let Err(error) = chunk.part(0, bytes).save(self.buffer.file(), offset) {
            self.free.push(slot);
            return Err(error);
        }
        Ok(Some(Piece::of_buffer(&self.buffer, offset, bytes)))
    }

    /// The system reads the slot of this chunk no more.
    pub(crate) fn release(&mut self, staged: Piece) {
        let start = self.buffer.as_mut_ptr().addr();
        if let Some(offset) = staged.address().checked_sub(start).filter(|_| staged.len() > 0) {
            self.free.push(offset / self.slot_bytes);
        }
    }
}
