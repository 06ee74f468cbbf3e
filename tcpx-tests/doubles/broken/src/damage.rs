#![allow(unsafe_code)]
//! Changes to what the software plugin published.

use std::ptr::with_exposed_provenance_mut;

use tcpx_sys::{LoadMeta, NetUnpackMeta, UNPACK_QUEUE_DEPTH, UnpackNetDeviceHandle};

use crate::ledger::{RecvComm, Request};
use crate::mode::{Mode, breaks};

/// The published memory of one receive comm.
struct Published {
    meta: *mut NetUnpackMeta,
    bounce: *mut u8,
    head: *mut u64,
}

impl Published {
    /// # Safety
    /// `comm` is open.
    unsafe fn of(comm: &RecvComm) -> Self {
        let device: *mut UnpackNetDeviceHandle = with_exposed_provenance_mut(comm.device);
        // SAFETY: the struct lives as long as its comm, which the caller says is open; the software
        // plugin keeps it in ordinary memory.
        unsafe {
            Self {
                meta: (&raw const (*device).meta).read_volatile(),
                bounce: (&raw const (*device).bounce_buf).read_volatile().cast(),
                head: &raw mut (*device).head,
            }
        }
    }

    /// Address of `cnt[slot]`.
    fn cnt(&self, slot: usize) -> *mut u64 {
        // SAFETY: `slot` is taken modulo the depth, so the place lies in the array.
        unsafe { (&raw mut (*self.meta).cnt).cast::<u64>().add(slot % UNPACK_QUEUE_DEPTH) }
    }

    /// Address of `mem[slot][0]`.
    fn row(&self, slot: usize) -> *mut LoadMeta {
        // SAFETY: as for `cnt`.
        unsafe {
            (&raw mut (*self.meta).mem)
                .cast::<[LoadMeta; 2048]>()
                .add(slot % UNPACK_QUEUE_DEPTH)
                .cast()
        }
    }
}

/// Does the damage that the mode has for a posted receive.
///
/// # Safety
/// `comm` is open.
pub(crate) unsafe fn on_posted(comm: &RecvComm, slot: usize) {
    if breaks(Mode::CntEarly) {
        // SAFETY: the caller's promise; the place is inside the queue.
        unsafe { Published::of(comm).cnt(slot).write_volatile(7) };
    }
}

/// Does the damage that the mode has for a finished receive.
///
/// # Safety
/// `comm` is open and `receive` is its oldest finished receive.
pub(crate) unsafe fn on_done(comm: &RecvComm, receive: &Request) {
    let Some(slot) = receive.slot else { return };
    // SAFETY: the caller's promise.
    let published = unsafe { Published::of(comm) };
    let (cnt, row) = (published.cnt(slot), published.row(slot));
    // SAFETY: places inside the queue of an open comm, or inside its bounce buffer where an entry
    // of a finished receive points; nothing else reads or writes them between done and consumed but
    // the caller of `test`, which is here. Behind a host buffer there may be anything: that is the
    // overrun, and the check that looks for it leaves room.
    unsafe {
        let count = cnt.read_volatile() as usize;
        if let Some(end) = receive.host_end {
            if breaks(Mode::HostCnt) {
                cnt.write_volatile(1);
            }
            if breaks(Mode::HostOverrun) {
                with_exposed_provenance_mut::<u8>(end).write_volatile(0);
            }
        } else if count == 0 && breaks(Mode::EmptyCnt) {
            cnt.write_volatile(1);
        }
        if breaks(Mode::Head) {
            published.head.write_volatile(slot as u64);
        }
        if count == 0 {
            return;
        }
        let first = row.read_volatile();
        match crate::mode::chosen() {
            Some(Mode::Cover) => cnt.write_volatile(count as u64 - 1),
            Some(Mode::Overlap) if count > 1 => {
                (&raw mut (*row.add(count - 1)).dst_off).write_volatile(first.dst_off)
            }
            Some(Mode::Outside) => (&raw mut (*row).src_off).write_volatile(0xffff_f000),
            Some(Mode::Content) => {
                let byte = published.bounce.add(first.src_off as usize);
                byte.write_volatile(!byte.read_volatile());
            }
            Some(Mode::PageCross) => (&raw mut (*row).src_off).write_volatile(first.src_off + 1),
            Some(Mode::SharedBounce) if slot > 0 => {
                let before = published.row(slot - 1).read_volatile();
                (&raw mut (*row).src_off).write_volatile(before.src_off);
            }
            Some(Mode::Slot) => {
                published.row(slot + 1).copy_from_nonoverlapping(row, count);
                published.cnt(slot + 1).write_volatile(count as u64);
                cnt.write_volatile(0);
            }
            _ => {}
        }
    }
}
