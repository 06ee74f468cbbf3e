#![allow(unsafe_code)]
//! Reads and writes at offsets that 32 bits do not hold.

use std::time::Duration;

use tcpx_core::{
    Access, ExportOptions, MemoryAddress, MemoryRange, MemoryType, OperationKind, PluginChoice,
    RemoteAccess, RemoteRange, Session, SessionOptions,
};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(120));
const GIB: u64 = 1 << 30;
/// Addresses alone, until they are written.
const BYTES: u64 = 6 * GIB;
const HERE: usize = 200_000;

fn session() -> Session {
    let options = SessionOptions::default().plugin(PluginChoice::Soft).progress_thread(true);
    Session::new(options).expect("the software plugin is always there")
}

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
    let [left, right] = [session(), session()];
    left.load_remote_conn_info("right", &right.listen().expect("listen")).expect("it loads");
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| right.accept("left"));
        left.connect("right").expect("they connect");
        accepted.join().expect("no panic").expect("they connect");
    });
    let here = left.allocate(HERE as u64, MemoryType::Host).expect("memory");
    let expected: Vec<u8> = (0..HERE as u64).map(byte_at).collect();
    left.write_memory(here, 0, &expected).expect("it is ours");
    let address = MemoryAddress::from_ptr(start);
    // SAFETY: it stays mapped until the process ends, and only peers write it.
    let there =
        unsafe { right.register_memory(address, BYTES, MemoryType::Host, Access::ReadWrite) };
    let options = ExportOptions::new(RemoteAccess::ReadWrite);
    let key = right.export(there.expect("it is memory"), options).expect("it is registered");
    let parts = [(0, 5 * GIB + 7, 99_999), (100_000, BYTES - 50_000, 50_000), (160_000, 3, 9)];
    let local = parts.map(|(offset, _, bytes)| MemoryRange { memory: here, offset, bytes });
    let remote = parts.map(|(_, offset, bytes)| RemoteRange { key: &key, offset, bytes });
    for kind in [OperationKind::Write, OperationKind::Read] {
        let operation = left.prepare("right", kind, &local, &remote).expect("it fits");
        operation.post(None).expect("it is not under way");
        operation.wait(PATIENCE).expect("it goes well");
        if kind == OperationKind::Write {
            left.write_memory(here, 0, &[0; HERE]).expect("nothing uses it");
        }
    }
    let mut back = vec![0; HERE];
    left.read_memory(here, 0, &mut back).expect("nothing uses it");
    for (offset, far, bytes) in parts {
        let part = offset as usize..(offset + bytes) as usize;
        assert!(back[part.clone()] == expected[part.clone()], "{bytes} bytes came back");
        // SAFETY: in the mapping, and nobody writes it any more.
        let written =
            unsafe { std::slice::from_raw_parts(start.add(far as usize), bytes as usize) };
        assert!(*written == expected[part], "{bytes} bytes at {far}");
    }
}
