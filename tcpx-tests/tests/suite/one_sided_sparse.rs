#![allow(unsafe_code)]
//! Reads and writes at offsets that 32 bits do not hold.

use tcpx_core::{Access, MemoryAddress, MemoryRange, MemoryType, OperationKind, RemoteRange};
use tcpx_testkit::PATIENCE;
use tcpx_tests::sessions::{contents, export, lively, memory, pair};

const GIB: u64 = 1 << 30;
/// Addresses alone, until they are written.
const BYTES: u64 = 6 * GIB;
const HERE: usize = 200_000;

/// Which numbers lie where.
fn byte_at(offset: u64) -> u8 {
    (offset % 251) as u8 + 1
}

#[test]
fn offsets_of_several_gigabytes() {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, where the system likes.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), BYTES as usize, access, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED, "addresses are free");
    let start = start.cast::<u8>();
    let [left, right] = pair(lively());
    let expected: Vec<u8> = (0..HERE as u64).map(byte_at).collect();
    let here = memory(&left, MemoryType::Host, &expected);
    let address = MemoryAddress::from_ptr(start);
    // SAFETY: it stays mapped until the process ends, and only peers write it.
    let there =
        unsafe { right.register_memory(address, BYTES, MemoryType::Host, Access::ReadWrite) };
    let key = export(&right, there.expect("it is memory"));
    let parts = [(0, 5 * GIB + 7, 99_999), (100_000, BYTES - 50_000, 50_000), (160_000, 3, 9)];
    let local = parts.map(|(offset, _, bytes)| MemoryRange { memory: here, offset, bytes });
    let remote = parts.map(|(_, offset, bytes)| RemoteRange { key: &key, offset, bytes });
    for kind in [OperationKind::Write, OperationKind::Read] {
        let operation = left.prepare("right", kind, &local, &remote).expect("it fits");
        operation.post(None).expect("it is not under way");
        operation.wait(Some(PATIENCE)).expect("it succeeds");
        if kind == OperationKind::Write {
            left.write_memory(here, 0, &[0; HERE]).expect("nothing uses it");
        }
    }
    let back = contents(&left, here, HERE);
    for (offset, far, bytes) in parts {
        let part = offset as usize..(offset + bytes) as usize;
        assert!(back[part.clone()] == expected[part.clone()], "{bytes} bytes came back");
        // SAFETY: in the mapping, and no thread writes it any more.
        let written =
            unsafe { std::slice::from_raw_parts(start.add(far as usize), bytes as usize) };
        assert!(*written == expected[part], "{bytes} bytes at {far}");
    }
}
