#![allow(unsafe_code)]
//! Unpack queue of one receive comm (docs/plugin-contract.md §3.5). The plugin writes it, and the
//! consumer reads it at any time.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use tcpx_cuda::{CudaError, CudaGpu, DeviceBuffer, PinnedBuffer};
use tcpx_sys::{
    LoadMeta, MAX_UNPACK_ENTRIES, NetUnpackMeta, UNPACK_QUEUE_DEPTH, UnpackNetDeviceHandle,
};

use super::pooled::Pooled;
use crate::sync::AtomicU64;

/// Owner of the queue and of the device struct that points to it. Both are shared with the
/// consumer, so they are only ever written through raw pointers.
#[derive(Debug)]
pub(crate) struct UnpackQueue {
    meta: NonNull<NetUnpackMeta>,
    storage: Storage,
}

/// Kind of the memory.
#[derive(Debug)]
enum Storage {
    /// Ordinary memory, from `allocate`.
    Host { device: NonNull<UnpackNetDeviceHandle> },
    /// The queue in pinned memory, which host and GPU reach at one address; the device struct in
    /// the GPU's memory.
    Gpu { _meta: Pooled<PinnedBuffer>, device: Pooled<DeviceBuffer> },
}

// SAFETY: the allocations belong to this value alone; nothing about them is tied to a thread.
unsafe impl Send for UnpackQueue {}

impl UnpackQueue {
    /// Creates a queue with all counts zero, and a device struct whose head is one before the first
    /// slot.
    pub(crate) fn new(bounce: *mut u8) -> Self {
        let meta = allocate::<NetUnpackMeta>();
        let device = allocate::<UnpackNetDeviceHandle>();
        // SAFETY: `device` was just allocated with the size and alignment of this type.
        unsafe { device.as_ptr().write(start(meta, bounce)) };
        Self { meta, storage: Storage::Host { device } }
    }

    /// Does the same for a consumer on a GPU; `bounce` is pinned memory.
    pub(crate) fn on_gpu(gpu: &CudaGpu, bounce: *mut u8) -> Result<Self, CudaError> {
        const { assert!(align_of::<NetUnpackMeta>() <= tcpx_cuda::PAGE_BYTES as usize) };
        let pinned: Pooled<PinnedBuffer> = Pooled::new(gpu, size_of::<NetUnpackMeta>() as u64)?;
        let device: Pooled<DeviceBuffer> =
            Pooled::new(gpu, size_of::<UnpackNetDeviceHandle>() as u64)?;
        let Some(meta) = NonNull::new(pinned.as_ptr().cast::<NetUnpackMeta>()) else {
            return Err(CudaError::OutOfBounds { offset: 0, len: 0, bytes: 0 });
        };
        // SAFETY: the buffer is as large as the struct, and has no other user.
        unsafe { meta.write_bytes(0, 1) };
        let start = start(meta, bounce);
        // The queue's address as GPUs see it, as in the original. A host that reads the queue has
        // to ask the driver for its own address.
        let words = [pinned.device_address(), bounce.expose_provenance() as u64];
        let mut bytes = [0; size_of::<UnpackNetDeviceHandle>()];
        bytes[..8].copy_from_slice(&words[0].to_ne_bytes());
        bytes[8..16].copy_from_slice(&words[1].to_ne_bytes());
        bytes[16..].copy_from_slice(&start.head.to_ne_bytes());
        device.copy_from_host(0, &bytes)?;
        Ok(Self { meta, storage: Storage::Gpu { _meta: pinned, device } })
    }

    /// Returns the value of `ncclNetDeviceHandle.handle`: it points to the GPU's memory for a
    /// consumer there.
    pub(crate) fn device(&self) -> *mut UnpackNetDeviceHandle {
        match &self.storage {
            Storage::Host { device } => device.as_ptr(),
            Storage::Gpu { device, .. } => {
                core::ptr::with_exposed_provenance_mut(device.address() as usize)
            }
        }
    }

    /// Writes one entry. An index out of range is ignored: the caller counts entries and refuses
    /// more than fit.
    pub(crate) fn put(&mut self, slot: usize, index: usize, entry: LoadMeta) {
        debug_assert!(slot < UNPACK_QUEUE_DEPTH && index < MAX_UNPACK_ENTRIES);
        if slot >= UNPACK_QUEUE_DEPTH || index >= MAX_UNPACK_ENTRIES {
            return;
        }
        let row = self.row(slot);
        // SAFETY: `index` is inside the row of 2048 entries, and the row is 16-byte aligned.
        unsafe { row.add(index).write_volatile(entry) };
    }

    /// Makes the first `count` entries of a slot visible. They are written before the count, and
    /// the count before the caller can see that the request is done.
    pub(crate) fn publish(&mut self, slot: usize, count: u64) {
        debug_assert!(slot < UNPACK_QUEUE_DEPTH);
        // SAFETY: `meta` is a live allocation; the address of a field of it is computed, no
        // reference is formed.
        let counts = unsafe { &raw mut (*self.meta.as_ptr()).cnt };
        // SAFETY: `slot` is reduced to the sixteen elements of the array.
        let cell = unsafe { counts.cast::<u64>().add(slot % UNPACK_QUEUE_DEPTH) };
        // SAFETY: the cell is aligned and live, and every other access to it is a read of the
        // consumer's.
        let cell = unsafe { AtomicU64::from_ptr(cell) };
        cell.store(count, Ordering::Release);
    }

    fn row(&self, slot: usize) -> *mut LoadMeta {
        // SAFETY: `meta` is a live allocation; the address of a field of it is computed, no
        // reference is formed.
        let rows = unsafe { &raw mut (*self.meta.as_ptr()).mem };
        // SAFETY: the caller checked `slot` against the sixteen rows.
        unsafe { rows.cast::<LoadMeta>().add(slot * MAX_UNPACK_ENTRIES) }
    }
}

impl Drop for UnpackQueue {
    fn drop(&mut self) {
        let Storage::Host { device } = &self.storage else { return };
        // SAFETY: allocated in `new` with this layout, freed only here.
        unsafe { dealloc(self.meta.as_ptr().cast(), Layout::new::<NetUnpackMeta>()) };
        // SAFETY: as above.
        unsafe { dealloc(device.as_ptr().cast(), Layout::new::<UnpackNetDeviceHandle>()) };
    }
}

fn start(meta: NonNull<NetUnpackMeta>, bounce: *mut u8) -> UnpackNetDeviceHandle {
    UnpackNetDeviceHandle { meta: meta.as_ptr(), bounce_buf: bounce.cast(), head: u64::MAX }
}

fn allocate<T>() -> NonNull<T> {
    let layout = Layout::new::<T>();
    // SAFETY: neither type has size zero.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory.cast()).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_finds_what_was_published() {
        let mut bounce = [0u8; 16];
        let mut queue = UnpackQueue::new(bounce.as_mut_ptr());
        let entry = LoadMeta { src_off: 4096, len: 9, dst_off: 1 << 33 };
        queue.put(15, MAX_UNPACK_ENTRIES - 1, entry);
        queue.publish(15, 2048);
        // SAFETY: the queue is live, and this thread is the only one that touches it.
        let device = unsafe { queue.device().read() };
        assert_eq!((device.head, device.bounce_buf), (u64::MAX, bounce.as_mut_ptr().cast()));
        // SAFETY: as above.
        let meta = unsafe { &*device.meta };
        assert_eq!(meta.mem[15][MAX_UNPACK_ENTRIES - 1], entry);
        assert_eq!(meta.mem[15][0], LoadMeta::default());
        assert_eq!(meta.cnt, std::array::from_fn(|slot| if slot == 15 { 2048 } else { 0 }));
    }

    #[test]
    fn a_queue_in_memory_of_another_begins_empty() {
        let Some(gpu) = tcpx_cuda::test_gpu() else { return };
        for _ in 0..2 {
            let bounce: *mut u8 = core::ptr::with_exposed_provenance_mut(4096);
            let mut queue = UnpackQueue::on_gpu(&gpu, bounce).expect("there is room");
            // SAFETY: the queue is live, and this thread is the only one that touches it.
            let counts = unsafe { (&raw const (*queue.meta.as_ptr()).cnt).read() };
            assert_eq!(counts, [0; UNPACK_QUEUE_DEPTH]);
            queue.put(3, 0, LoadMeta { src_off: 1, len: 2, dst_off: 3 });
            queue.publish(3, 1);
        }
    }
}
