#![allow(unsafe_code)]
//! The receiving end of a pair: posts, and reads what the plugin says has landed.

use std::ffi::c_int;

use tcpx_sys::{LoadMeta, NetUnpackMeta, UnpackNetDeviceHandle};

use super::{Net, PluginPtr};

/// A receive comm and its unpack queue.
pub(crate) struct Receiver {
    pub(crate) net: Net,
    pub(crate) comm: PluginPtr,
    meta: *const NetUnpackMeta,
    bounce: *const u8,
    posted: u64,
}

// SAFETY: the comm is an id, the queue is read by the thread that has the receiver.
unsafe impl Send for Receiver {}

impl Receiver {
    pub(crate) fn new(net: Net, comm: PluginPtr, device: *const UnpackNetDeviceHandle) -> Self {
        // SAFETY: accept returned this pointer, and the comm is open.
        let device = unsafe { device.read() };
        assert_eq!(device.head, u64::MAX);
        Self { net, comm, meta: device.meta, bounce: device.bounce_buf.cast(), posted: 0 }
    }

    /// Posts a receive; its number is how many were posted before.
    pub(crate) fn post(
        &mut self,
        data: *mut u8,
        bytes: usize,
        mhandle: PluginPtr,
    ) -> (u64, PluginPtr) {
        let (rc, posted) = self.try_post(data, bytes, mhandle);
        assert_eq!(rc, 0);
        posted
    }

    /// The same, with the code. A receive that was refused does not count.
    pub(crate) fn try_post(
        &mut self,
        data: *mut u8,
        bytes: usize,
        mhandle: PluginPtr,
    ) -> (c_int, (u64, PluginPtr)) {
        let (rc, request) = self.net.irecv(self.comm, data, bytes as c_int, mhandle);
        let number = self.posted;
        self.posted += u64::from(rc == 0);
        (rc, (number, request))
    }

    /// The entries of a done receive.
    pub(crate) fn entries(&self, number: u64) -> Vec<LoadMeta> {
        let slot = (number % 16) as usize;
        // SAFETY: the queue lives as long as the comm; done was reported, so the slot is not being
        // written.
        let count =
            unsafe { (&raw const (*self.meta).cnt).cast::<u64>().add(slot).read_volatile() };
        assert!(count <= 2048);
        // SAFETY: as above; the row has 2048 entries.
        let row = unsafe { (&raw const (*self.meta).mem).cast::<LoadMeta>().add(slot * 2048) };
        // SAFETY: as above, `count` is within the row.
        (0..count as usize).map(|index| unsafe { row.add(index).read_volatile() }).collect()
    }

    /// The count of a slot as it is now, done or not.
    fn raw_count(&self, slot: usize) -> u64 {
        // SAFETY: the queue lives as long as the comm; a racing write is what `read_volatile` is
        // for.
        unsafe { (&raw const (*self.meta).cnt).cast::<u64>().add(slot).read_volatile() }
    }

    /// Copies a done device receive to `place`, as a consumer does that trusts the plugin.
    ///
    /// # Safety
    /// `place` has room for the message.
    pub(crate) unsafe fn unpack_to(&self, number: u64, place: *mut u8) {
        let slot = (number % 16) as usize;
        let count = self.raw_count(slot) as usize;
        // SAFETY: the queue lives as long as the comm; the row has 2048 entries.
        let row = unsafe { (&raw const (*self.meta).mem).cast::<LoadMeta>().add(slot * 2048) };
        for index in 0..count.min(2048) {
            // SAFETY: as above, `index` is within the row.
            let entry = unsafe { row.add(index).read_volatile() };
            // SAFETY: entries lie in the bounce region and within the message; the caller gave room
            // for that.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.bounce.add(entry.src_off as usize),
                    place.add(entry.dst_off as usize),
                    entry.len as usize,
                );
            }
        }
    }

    /// Bytes of the bounce region as they are now.
    pub(crate) fn read(&self, offset: u32, bytes: usize) -> Vec<u8> {
        assert!(offset as usize + bytes <= tcpx_softnet::bounce_bytes() as usize);
        // SAFETY: the range lies in the bounce region, which is mapped for good.
        unsafe { std::slice::from_raw_parts(self.bounce.add(offset as usize), bytes) }.to_vec()
    }

    /// Gathers a done device receive of `bytes` bytes from its entries, checking every one of them.
    pub(crate) fn unpack(&self, number: u64, bytes: usize) -> Vec<u8> {
        let mut gathered = vec![0; bytes];
        let mut entries = self.entries(number);
        entries.sort_by_key(|entry| entry.dst_off);
        let mut covered = 0;
        for entry in entries {
            let (from, len, to) =
                (entry.src_off as usize, entry.len as usize, entry.dst_off as usize);
            assert!(len > 0 && from + len <= tcpx_softnet::bounce_bytes() as usize, "{entry:?}");
            assert_eq!(from / 4096, (from + len - 1) / 4096, "crosses a page: {entry:?}");
            assert_eq!(to, covered, "overlaps, or leaves something out: {entry:?}");
            covered += len;
            assert!(covered <= bytes, "{entry:?} in a message of {bytes}");
            // SAFETY: the entry lies in the bounce region (checked above), which is mapped for
            // good.
            let source = unsafe { std::slice::from_raw_parts(self.bounce.add(from), len) };
            gathered[to..covered].copy_from_slice(source);
        }
        assert_eq!(covered, bytes, "entries do not cover the message");
        gathered
    }
}
