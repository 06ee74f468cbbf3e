#![allow(unsafe_code)]
//! The data path does not allocate once it has warmed up. Allocations of the whole program are
//! counted, and looked at where the test is alone.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use tcpx_softnet::Helpers;
use tcpx_testkit::in_own_process;

use crate::support::{self, KINDS, Memory};

struct CountingAllocator;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn a_warm_comm_does_not_allocate() {
    in_own_process!();
    let net = support::net(|settings| {
        settings.helpers = Helpers::Off;
        settings.sockets = 2;
        settings.chunk_bytes = 64 << 10;
    });
    let (sender, mut receiver) = net.pair();
    let bytes = 300_000;
    let mut memory = Memory::patterned(bytes, 0);
    for kind in KINDS {
        let (_, mhandle) = net.register(sender.comm, memory.data(), bytes, kind);
        let mut stream = |rounds: usize| {
            for round in 0..rounds {
                let bytes = [4096, bytes, 0, 20_000][round % 4];
                let (rc, send) = net.isend(sender.comm, memory.data(), bytes as i32, mhandle);
                assert_eq!(rc, 0);
                let (_, recv) = receiver.post(memory.data(), bytes, mhandle);
                net.finish_both(send, recv);
                assert_eq!(net.consumed(receiver.comm, recv), 0);
            }
        };
        stream(200);
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        stream(1000);
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        assert_eq!(allocations, 0, "memory type {kind}");
        assert_eq!(net.deregister(ptr::null_mut(), mhandle), 0);
    }
    assert_eq!((net.close(sender.comm), net.close(receiver.comm)), (0, 0));
}
