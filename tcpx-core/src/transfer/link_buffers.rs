#![allow(unsafe_code)]
//! Buffers in pinned host memory for short messages between the link and a GPU.
//!
//! The memory is freed with the session, as a [`StagingPool`](super::staging_pool::StagingPool)'s
//! is.

use tcpx_protocol::types::MemoryType;

use crate::error::Result;
use crate::memory::device_memory::DeviceMemory;
use crate::plugin::registrations::Registrations;

/// Bytes of a buffer. What is longer goes through several.
pub(crate) const LINK_BUFFER_BYTES: u64 = 64 << 10;
/// Most bytes of reads or writes of a GPU's memory that are on the link at a time. Beyond it,
/// channels are as fast, and faster where much is under way: they copy and send parts at the same
/// time (docs/benchmarks/2026-11-29-gpu-link-chunks.md).
pub(crate) const LINK_DEVICE_BYTES: u64 = 4 * LINK_BUFFER_BYTES;
/// Number of buffers that are made at once: to pin memory takes much longer than a copy.
const BUFFERS_AT_ONCE: u64 = 16;

/// Buffers that no copy uses.
#[derive(Debug, Default)]
pub(crate) struct LinkBuffers {
    idle: Vec<LinkBuffer>,
    /// Number of buffers that copies use.
    taken: usize,
}

/// A buffer of one copy at a time.
#[derive(Debug)]
pub(crate) struct LinkBuffer {
    address: u64,
}

impl LinkBuffers {
    /// Takes an idle buffer, or makes some.
    ///
    /// # Errors
    /// [`Error::MemoryUnavailable`](crate::Error::MemoryUnavailable): the driver pins no more
    /// memory.
    pub(crate) fn take(
        &mut self,
        device: &DeviceMemory,
        registrations: &mut Registrations,
    ) -> Result<LinkBuffer> {
        if let Some(idle) = self.idle.pop() {
            self.taken += 1;
            return Ok(idle);
        }
        let bytes = BUFFERS_AT_ONCE * LINK_BUFFER_BYTES;
        let owned = device.allocate_pinned(bytes as usize)?;
        let address = owned.address();
        registrations.add_own(bytes, MemoryType::Host, owned);
        let others = (1..BUFFERS_AT_ONCE).rev().map(|at| address + at * LINK_BUFFER_BYTES);
        self.idle.extend(others.map(|address| LinkBuffer { address }));
        self.taken += 1;
        Ok(LinkBuffer { address })
    }

    /// Takes a buffer back, which no copy uses any more.
    pub(crate) fn give_back(&mut self, buffer: LinkBuffer) {
        self.idle.push(buffer);
        self.taken -= 1;
    }

    /// Returns whether copies are under way.
    #[inline]
    pub(crate) fn are_taken(&self) -> bool {
        self.taken > 0
    }
}

impl LinkBuffer {
    /// Returns the address of the first byte, for the host and for the GPU.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Returns the first bytes, no more than there are.
    ///
    /// # Safety
    /// No copy that writes the buffer is under way for as long as the slice is used.
    pub(super) unsafe fn bytes(&self, count: u64) -> &[u8] {
        let count = count.min(LINK_BUFFER_BYTES) as usize;
        let first = std::ptr::with_exposed_provenance(self.address as usize);
        // SAFETY: the buffer is as long, was zeroed when it was made, and stays until the session
        // ends. Its owner alone writes it, and the caller vouches for copies.
        unsafe { std::slice::from_raw_parts(first, count) }
    }

    /// Copies bytes to the start of the buffer, no more than it has room for.
    ///
    /// # Safety
    /// No copy of the buffer is under way.
    pub(crate) unsafe fn fill(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(LINK_BUFFER_BYTES as usize);
        let first = std::ptr::with_exposed_provenance_mut(self.address as usize);
        // SAFETY: the buffer has room for them, and is the session's own memory. No reference to
        // it is kept. The caller vouches for copies.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), first, count) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_never_by_two() {
        let (mut buffers, mut registrations) = (LinkBuffers::default(), Registrations::default());
        let device = DeviceMemory::open(None).unwrap();
        let mut take =
            |buffers: &mut LinkBuffers| buffers.take(&device, &mut registrations).unwrap();
        let [mut first, second] = [take(&mut buffers), take(&mut buffers)];
        assert_eq!(second.address(), first.address() + LINK_BUFFER_BYTES);
        let of_one = [(); BUFFERS_AT_ONCE as usize].map(|()| take(&mut buffers).address());
        assert!(!of_one.contains(&first.address()));
        let long = vec![7; LINK_BUFFER_BYTES as usize + 1];
        // SAFETY: nothing copies the buffers.
        let (bytes, others) = unsafe {
            first.fill(&long);
            (first.bytes(u64::MAX), second.bytes(2))
        };
        assert_eq!((bytes, others), (&long[1..], &[0; 2][..]));
        let address = first.address();
        buffers.give_back(first);
        assert_eq!(take(&mut buffers).address(), address);
        assert_ne!(take(&mut buffers).address(), address);
    }
}
