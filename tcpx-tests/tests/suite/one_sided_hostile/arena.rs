#![allow(unsafe_code)]
//! Partly exported memory between canaries, which lie between inaccessible pages. A read or write
//! past the canaries ends the process.

use std::ptr::NonNull;

use tcpx_core::{Access, MemoryAddress, MemoryId, MemoryType, Session};

/// What may be exported.
pub(crate) const BYTES: u64 = 1 << 18;
/// It lies this far inside of its registration.
pub(crate) const MARGIN: u64 = PAGE as u64;
const PAGE: usize = 4096;
const CANARY: u8 = 0xc5;
const REGISTERED: usize = BYTES as usize + 2 * PAGE;

/// Mapped for as long as the process lives, for a session that a test gives up may still use it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arena {
    /// The first canary.
    address: NonNull<u8>,
}

impl Arena {
    pub(crate) fn new() -> Self {
        let (mapped, length) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, REGISTERED + 2 * PAGE);
        // SAFETY: a new mapping, where the system likes.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_NONE, mapped, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "there is room for it");
        let inner = start.wrapping_byte_add(PAGE);
        // SAFETY: the pages in the middle of the mapping, which no other code knows.
        let opened =
            unsafe { libc::mprotect(inner, REGISTERED, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(opened, 0, "they are ours");
        let address = NonNull::new(inner.cast()).expect("a mapping is not at 0");
        // SAFETY: the same pages, writable by now.
        unsafe { address.write_bytes(CANARY, REGISTERED) };
        Self { address }
    }

    pub(crate) fn register(self, session: &Session) -> MemoryId {
        let address = MemoryAddress::from_ptr(self.address.as_ptr());
        let (bytes, access) = (REGISTERED as u64, Access::ReadWrite);
        // SAFETY: it stays mapped, and only peers write it.
        unsafe { session.register_memory(address, bytes, MemoryType::Host, access) }
            .expect("it is memory")
    }

    /// Whether the canaries are as they were.
    pub(crate) fn is_whole(self) -> bool {
        let canary = |offset: usize| {
            // SAFETY: in the mapping. No thread writes it, or the test is about to fail.
            (offset..offset + PAGE)
                .all(|at| unsafe { self.address.add(at).read_volatile() } == CANARY)
        };
        canary(0) && canary(REGISTERED - PAGE)
    }
}
