#![allow(unsafe_code)]
//! Support of a NIC for io_uring's zero-copy receive into the memory of a process.
//!
//! The query registers a queue that no NIC has. A capable kernel checks the NIC, its driver, and
//! then the queue's number: its error says which check failed, and nothing is changed. Any other
//! error is returned, as on kernel 6.15, which checks the number first.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::queries::ZeroCopySupport;

/// `IORING_SETUP_CQE32`, `_SINGLE_ISSUER` and `_DEFER_TASKRUN`, which zero-copy receive requires.
const SETUP: u32 = 1 << 11 | 1 << 12 | 1 << 13;
/// `IORING_REGISTER_ZCRX_IFQ`.
const REGISTER_QUEUE: libc::c_uint = 32;
/// Number of a queue that no NIC has.
const NO_SUCH_QUEUE: u32 = i32::MAX as u32;
/// Number that no interface has.
const NO_INTERFACE: u32 = 0;

/// `struct io_uring_params`: flags are its third word.
#[repr(C)]
struct RingParameters([u32; 30]);

/// `struct io_uring_zcrx_area_reg`: the destination of packets.
#[repr(C)]
#[derive(Default)]
struct ZcrxArea {
    address: u64,
    bytes: u64,
    token: u64,
    flags: u32,
    dma_buf: u32,
    reserved: [u64; 2],
}

/// `struct io_uring_region_desc`: the ring by which memory is given back, which the kernel creates.
#[repr(C)]
#[derive(Default)]
struct RingRegion {
    address: u64,
    bytes: u64,
    flags: u32,
    id: u32,
    offset: u64,
    reserved: [u64; 4],
}

/// `struct io_uring_zcrx_ifq_reg`.
#[repr(C)]
#[derive(Default)]
struct ZcrxQueue {
    ifindex: u32,
    queue: u32,
    ring_entries: u32,
    flags: u32,
    area: u64,
    region: u64,
    offsets: [u64; 4],
    id: u32,
    reserved: u32,
    more_reserved: [u64; 3],
}

const _: () = assert!(size_of::<RingParameters>() == 120);
const _: () = assert!(size_of::<ZcrxArea>() == 48 && size_of::<RingRegion>() == 64);
const _: () = assert!(size_of::<ZcrxQueue>() == 96);

/// A multiple of the page size of every system.
const PAGE_BYTES: usize = 65536;

#[repr(C, align(65536))]
struct AlignedPage([u8; PAGE_BYTES]);

/// Returns the support of the NIC with this index.
pub(super) fn query(ifindex: u32) -> io::Result<ZeroCopySupport> {
    let ring = match open_ring() {
        Ok(ring) => ring,
        Err(error) => return classify_setup_error(error),
    };
    // The error for an absent interface says whether the kernel supports the call at all.
    let nowhere = register(ring.as_raw_fd(), NO_INTERFACE);
    match nowhere.raw_os_error() {
        Some(libc::ENODEV) => classify_nic(register(ring.as_raw_fd(), ifindex)),
        _ => classify_kernel(nowhere),
    }
}

/// Returns the support by the error of a setup without a ring.
fn classify_setup_error(error: io::Error) -> io::Result<ZeroCopySupport> {
    match error.raw_os_error() {
        // No io_uring at all, or one that is too old.
        Some(libc::ENOSYS | libc::EINVAL) => Ok(ZeroCopySupport::NoKernelSupport),
        Some(libc::EPERM | libc::EACCES) => Ok(ZeroCopySupport::Denied),
        _ => Err(error),
    }
}

/// Returns the support by the error for an interface that does not exist.
fn classify_kernel(error: io::Error) -> io::Result<ZeroCopySupport> {
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::EOPNOTSUPP) => Ok(ZeroCopySupport::NoKernelSupport),
        Some(libc::EPERM | libc::EACCES) => Ok(ZeroCopySupport::Denied),
        _ => Err(error),
    }
}

/// Returns the support by the error for a NIC.
fn classify_nic(error: io::Error) -> io::Result<ZeroCopySupport> {
    match error.raw_os_error() {
        Some(libc::ERANGE) => Ok(ZeroCopySupport::Supported),
        Some(libc::EOPNOTSUPP) => Ok(ZeroCopySupport::NoDriverSupport),
        _ => Err(error),
    }
}

/// Opens a ring with the flags that zero-copy receive requires.
fn open_ring() -> io::Result<OwnedFd> {
    let mut parameters = RingParameters([0; 30]);
    parameters.0[2] = SETUP;
    // SAFETY: the kernel reads and writes 120 bytes at `parameters`, which is as long, and lives.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1_u32, &raw mut parameters) };
    let fd = RawFd::try_from(fd).ok().filter(|&fd| fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just given out this descriptor, and no other owner has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Registers a queue that does not exist, and returns the error.
fn register(ring: RawFd, ifindex: u32) -> io::Error {
    let mut page = Box::new(AlignedPage([0; PAGE_BYTES]));
    let mut area = ZcrxArea {
        address: page.0.as_mut_ptr().expose_provenance() as u64,
        bytes: PAGE_BYTES as u64,
        ..ZcrxArea::default()
    };
    let mut region = RingRegion { bytes: PAGE_BYTES as u64, ..RingRegion::default() };
    let mut queue = ZcrxQueue {
        ifindex,
        queue: NO_SUCH_QUEUE,
        ring_entries: 1,
        area: (&raw mut area).expose_provenance() as u64,
        region: (&raw mut region).expose_provenance() as u64,
        ..ZcrxQueue::default()
    };
    // SAFETY: `queue`, `area`, `region` and `page` have the kernel's layouts and the lengths that
    // they say, and live until after the call. It fails, since there is no such queue, and keeps
    // none of them then; if it did not, closing the ring, which its owner does, would end it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            ring,
            REGISTER_QUEUE,
            &raw mut queue,
            1 as libc::c_uint,
        )
    };
    let error = io::Error::last_os_error();
    if result >= 0 { io::Error::other("a queue that does not exist was registered") } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(errno: i32) -> io::Error {
        io::Error::from_raw_os_error(errno)
    }

    #[test]
    fn each_refusal_has_its_error() {
        use ZeroCopySupport::{Denied, NoDriverSupport, NoKernelSupport, Supported};
        assert_eq!(classify_nic(os(libc::ERANGE)).unwrap(), Supported);
        assert_eq!(classify_nic(os(libc::EOPNOTSUPP)).unwrap(), NoDriverSupport);
        assert!(classify_nic(os(libc::EINVAL)).is_err(), "6.15 checks the number first");
        for errno in [libc::EINVAL, libc::EOPNOTSUPP] {
            assert_eq!(classify_kernel(os(errno)).unwrap(), NoKernelSupport);
        }
        assert_eq!(classify_kernel(os(libc::EPERM)).unwrap(), Denied);
        assert!(classify_kernel(os(libc::ENOMEM)).is_err());
        assert_eq!(classify_setup_error(os(libc::ENOSYS)).unwrap(), NoKernelSupport);
        assert_eq!(classify_setup_error(os(libc::EPERM)).unwrap(), Denied);
        assert!(classify_setup_error(os(libc::EMFILE)).is_err());
    }

    #[test]
    fn the_running_kernel_answers() {
        // Interface 1 is lo, which has no driver that could.
        const LOOPBACK: u32 = 1;
        match query(LOOPBACK) {
            Ok(answer) => assert_ne!(answer, ZeroCopySupport::Supported),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{error}"),
        }
    }
}
