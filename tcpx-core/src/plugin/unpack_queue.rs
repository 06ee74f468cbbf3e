#![allow(unsafe_code)]
//! Unpack queue that the plugin shares with its consumers.

use std::fmt;
use std::sync::atomic::{Ordering, fence};

use tcpx_rx::UnpackDescriptor;
use tcpx_sys::{
    LoadMeta, MAX_UNPACK_ENTRIES, NetDeviceHandle, NetUnpackMeta, UNPACK_QUEUE_DEPTH,
    UnpackNetDeviceHandle,
};

use crate::error::{BounceBufferProblem, Error, MemoryUnavailable, Result};
use crate::memory::device_memory::DeviceMemory;
use crate::memory::host_buffer::mapped_bytes;

/// Unpack queue of one receive comm: memory that the plugin writes.
///
/// This module never forms a reference to that memory. Entries are copied out once `test` has said
/// done: from then on the plugin does not write the slot until it is consumed.
#[derive(Debug)]
pub(crate) struct UnpackQueue {
    meta: *const NetUnpackMeta,
    bounce: u64,
    bounce_bytes: u64,
}

// SAFETY: the pointer is to memory of the plugin that lives as long as the comm, which owns this
// queue. Any thread may read it.
unsafe impl Send for UnpackQueue {}

impl Default for UnpackQueue {
    fn default() -> Self {
        Self { meta: std::ptr::null(), bounce: 0, bounce_bytes: 0 }
    }
}

impl UnpackQueue {
    /// Reads a device handle that `accept` filled.
    pub(crate) fn read(handle: &NetDeviceHandle, memory: &DeviceMemory) -> Result<Self> {
        let unusable = |problem| Error::MemoryUnavailable(MemoryUnavailable::BounceBuffer(problem));
        if handle.handle.is_null() || handle.size < size_of::<UnpackNetDeviceHandle>() {
            return Err(unusable(BounceBufferProblem::NoDeviceHandle));
        }
        let mut raw = [0u8; size_of::<UnpackNetDeviceHandle>()];
        // SAFETY: a plugin that returns a comm has filled the handle with the address of a struct
        // of `size` bytes, which it does not change afterwards.
        unsafe { memory.read(handle.handle as u64, &mut raw) }?;
        // SAFETY: the struct is three plain words, so any bytes are a value. The source may be
        // unaligned.
        let device =
            unsafe { std::ptr::read_unaligned(raw.as_ptr().cast::<UnpackNetDeviceHandle>()) };
        if device.meta.is_null() || !device.meta.is_aligned() {
            return Err(unusable(BounceBufferProblem::NoUnpackQueue));
        }
        let bounce = device.bounce_buf as u64;
        if bounce == 0 {
            return Err(unusable(BounceBufferProblem::Missing));
        }
        let bounce_bytes =
            memory.bytes_from(bounce)?.ok_or_else(|| unusable(BounceBufferProblem::NotMapped))?;
        // A GPU's consumers read the queue at its GPU address. The host has an address of its own.
        let meta = memory.host_address(device.meta as u64)?;
        let Some(meta) = meta.filter(|&meta| {
            mapped_bytes(meta).is_some_and(|bytes| bytes >= size_of::<NetUnpackMeta>() as u64)
        }) else {
            return Err(unusable(BounceBufferProblem::QueueNotMapped));
        };
        Ok(Self { meta: meta as *const NetUnpackMeta, bounce, bounce_bytes })
    }

    /// Returns the address of the bounce buffer.
    pub(crate) fn bounce(&self) -> u64 {
        self.bounce
    }

    /// Returns the number of bytes from there to the end of the memory that the bounce buffer lies
    /// in.
    pub(crate) fn bounce_bytes(&self) -> u64 {
        self.bounce_bytes
    }

    /// Copies the entries of a slot, and returns the number that the plugin announced. Above the
    /// queue's capacity none are copied.
    pub(crate) fn read_slot(&self, slot: usize, out: &mut Vec<UnpackDescriptor>) -> u64 {
        const { assert!(size_of::<UnpackDescriptor>() == size_of::<LoadMeta>()) };
        const { assert!(align_of::<UnpackDescriptor>() == align_of::<LoadMeta>()) };
        out.clear();
        if self.meta.is_null() || slot >= UNPACK_QUEUE_DEPTH {
            return 0;
        }
        // Pairs with the plugin's release fence before its done = 1.
        fence(Ordering::Acquire);
        // SAFETY: the queue is mapped as long as the comm lives, which `read` has checked, and the
        // slot is in range.
        let counter = unsafe { &raw const (*self.meta).cnt[slot] };
        // SAFETY: this is an aligned u64 of that queue. It is volatile because the plugin writes
        // it.
        let count = unsafe { counter.read_volatile() };
        if count > MAX_UNPACK_ENTRIES as u64 {
            return count;
        }
        out.reserve(count as usize);
        // SAFETY: as above for the entries of the slot.
        let entries = unsafe { &raw const (*self.meta).mem[slot] };
        // SAFETY: `count` entries fit the slot, and the plugin does not write it between done and
        // consumed. The vector has room and is no memory of the plugin. Both types are two u32 and
        // a u64, as asserted above and in their crates.
        unsafe {
            std::ptr::copy_nonoverlapping(
                entries.cast::<UnpackDescriptor>(),
                out.as_mut_ptr(),
                count as usize,
            );
        }
        // SAFETY: that many entries were just initialised.
        unsafe { out.set_len(count as usize) };
        count
    }

    /// Copies the first bytes of a fragment, for a hex probe in the log.
    pub(crate) fn probe(
        &self,
        memory: &DeviceMemory,
        descriptor: UnpackDescriptor,
        out: &mut [u8],
    ) -> Result<usize> {
        let bytes = out.len().min(descriptor.len as usize);
        // SAFETY: the caller has checked the descriptor against the bounce buffer, and has not
        // given its pages back yet.
        unsafe { memory.read(self.bounce + u64::from(descriptor.src_off), &mut out[..bytes]) }?;
        Ok(bytes)
    }
}

impl fmt::Display for UnpackQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "meta={:p} bounce_buf={:#x} bounce_bytes={}",
            self.meta, self.bounce, self.bounce_bytes
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::host_buffer::HostBuffer;

    #[test]
    fn a_queue_is_read_slot_by_slot_and_never_past_its_capacity() {
        let storage = HostBuffer::new(size_of::<NetUnpackMeta>()).unwrap();
        let meta = storage.address() as *mut NetUnpackMeta;
        let device = UnpackNetDeviceHandle { meta, bounce_buf: meta.cast(), head: u64::MAX };
        let handle = NetDeviceHandle {
            net_device_type: 1,
            net_device_version: 7,
            handle: (&raw const device).cast_mut().cast(),
            size: 24,
            needs_proxy_progress: 1,
        };
        let queue = UnpackQueue::read(&handle, &DeviceMemory::Emulated).unwrap();
        // SAFETY: the storage is a whole queue, private to this test.
        unsafe {
            (*meta).mem[3][0] = LoadMeta { src_off: 1, len: 2, dst_off: 3 };
            (*meta).mem[3][1] = LoadMeta { src_off: 4, len: 5, dst_off: 6 };
            (*meta).cnt[3] = 2;
            (*meta).cnt[4] = 2049;
        }
        let mut out = Vec::new();
        assert_eq!(queue.read_slot(3, &mut out), 2);
        assert_eq!(out[1], UnpackDescriptor { src_off: 4, len: 5, dst_off: 6 });
        assert_eq!(queue.read_slot(4, &mut out), 2049);
        assert!(out.is_empty());
        assert_eq!(queue.read_slot(16, &mut out), 0);
    }

    #[test]
    fn handles_without_memory_behind_them_are_refused() {
        let mut device =
            UnpackNetDeviceHandle { meta: std::ptr::null_mut(), bounce_buf: 16 as *mut _, head: 0 };
        let refuse = |device: &UnpackNetDeviceHandle, size| {
            let handle = NetDeviceHandle {
                net_device_type: 1,
                net_device_version: 7,
                handle: std::ptr::from_ref(device).cast_mut().cast(),
                size,
                needs_proxy_progress: 1,
            };
            UnpackQueue::read(&handle, &DeviceMemory::Emulated).unwrap_err().to_string()
        };
        assert!(refuse(&device, 24).contains("no unpack queue"));
        assert!(refuse(&device, 8).contains("without a device handle"));
        device.meta = 4096 as *mut _;
        assert!(refuse(&device, 24).contains("not mapped"));
        device.bounce_buf = std::ptr::null_mut();
        assert!(refuse(&device, 24).contains("no bounce buffer"));
    }
}
