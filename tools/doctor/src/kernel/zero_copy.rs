#![allow(unsafe_code)]
//! Support of a NIC for io_uring's zero-copy receive into the memory of a process.
//!
//! A queue is asked for that no NIC has. A capable kernel looks at the NIC, its driver, and then at
//! the queue's number, so the answer says how far it came, and nothing is changed. (An answer that
//! fits none of these is an error here, as on kernel 6.15, which looks at the number first.)

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::questions::ZeroCopyAnswer;

/// `IORING_SETUP_CQE32`, `_SINGLE_ISSUER` and `_DEFER_TASKRUN`, which this kind of receive demands.
const SETUP: u32 = 1 << 11 | 1 << 12 | 1 << 13;
/// `IORING_REGISTER_ZCRX_IFQ`.
const REGISTER_QUEUE: libc::c_uint = 32;
/// No NIC has this many queues.
const NO_SUCH_QUEUE: u32 = i32::MAX as u32;
/// The kernel knows no interface of this number.
const NO_INTERFACE: u32 = 0;

/// `struct io_uring_params`: flags are its third word.
#[repr(C)]
struct Parameters([u32; 30]);

/// `struct io_uring_zcrx_area_reg`: where packets are to go.
#[repr(C)]
#[derive(Default)]
struct Area {
    address: u64,
    bytes: u64,
    token: u64,
    flags: u32,
    dma_buf: u32,
    reserved: [u64; 2],
}

/// `struct io_uring_region_desc`: the ring by which memory is given back, made by the kernel.
#[repr(C)]
#[derive(Default)]
struct Region {
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
struct Queue {
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

const _: () = assert!(size_of::<Parameters>() == 120);
const _: () = assert!(size_of::<Area>() == 48 && size_of::<Region>() == 64);
const _: () = assert!(size_of::<Queue>() == 96);

/// Whole pages, however large the system's are.
const PAGE_BYTES: usize = 65536;

#[repr(C, align(65536))]
struct Page([u8; PAGE_BYTES]);

pub(super) fn ask(ifindex: u32) -> io::Result<ZeroCopyAnswer> {
    let ring = match open_ring() {
        Ok(ring) => ring,
        Err(error) => return judge_ring(error),
    };
    // What the kernel says of no interface tells whether it knows the question at all.
    let nowhere = register(ring.as_raw_fd(), NO_INTERFACE);
    match nowhere.raw_os_error() {
        Some(libc::ENODEV) => judge_nic(register(ring.as_raw_fd(), ifindex)),
        _ => judge_kernel(nowhere),
    }
}

/// Judges the error of a setup that gave no ring.
fn judge_ring(error: io::Error) -> io::Result<ZeroCopyAnswer> {
    match error.raw_os_error() {
        // No io_uring at all, or one that is too old.
        Some(libc::ENOSYS | libc::EINVAL) => Ok(ZeroCopyAnswer::NotByKernel),
        Some(libc::EPERM | libc::EACCES) => Ok(ZeroCopyAnswer::Denied),
        _ => Err(error),
    }
}

/// What the kernel says of an interface that does not exist.
fn judge_kernel(error: io::Error) -> io::Result<ZeroCopyAnswer> {
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::EOPNOTSUPP) => Ok(ZeroCopyAnswer::NotByKernel),
        Some(libc::EPERM | libc::EACCES) => Ok(ZeroCopyAnswer::Denied),
        _ => Err(error),
    }
}

/// What the kernel says of a NIC.
fn judge_nic(error: io::Error) -> io::Result<ZeroCopyAnswer> {
    match error.raw_os_error() {
        Some(libc::ERANGE) => Ok(ZeroCopyAnswer::Supported),
        Some(libc::EOPNOTSUPP) => Ok(ZeroCopyAnswer::NotByDriver),
        _ => Err(error),
    }
}

fn open_ring() -> io::Result<OwnedFd> {
    let mut parameters = Parameters([0; 30]);
    parameters.0[2] = SETUP;
    // SAFETY: the kernel reads and writes 120 bytes at `parameters`, which is as long, and lives.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1_u32, &raw mut parameters) };
    let fd = RawFd::try_from(fd).ok().filter(|&fd| fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just given out this descriptor, and no other owner has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Asks for a queue that does not exist; returns why it is refused.
fn register(ring: RawFd, ifindex: u32) -> io::Error {
    let mut page = Box::new(Page([0; PAGE_BYTES]));
    let mut area = Area {
        address: page.0.as_mut_ptr().expose_provenance() as u64,
        bytes: PAGE_BYTES as u64,
        ..Area::default()
    };
    let mut region = Region { bytes: PAGE_BYTES as u64, ..Region::default() };
    let mut queue = Queue {
        ifindex,
        queue: NO_SUCH_QUEUE,
        ring_entries: 1,
        area: (&raw mut area).expose_provenance() as u64,
        region: (&raw mut region).expose_provenance() as u64,
        ..Queue::default()
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
        use ZeroCopyAnswer::{Denied, NotByDriver, NotByKernel, Supported};
        assert_eq!(judge_nic(os(libc::ERANGE)).unwrap(), Supported);
        assert_eq!(judge_nic(os(libc::EOPNOTSUPP)).unwrap(), NotByDriver);
        assert!(judge_nic(os(libc::EINVAL)).is_err(), "6.15 looks at the number first");
        for errno in [libc::EINVAL, libc::EOPNOTSUPP] {
            assert_eq!(judge_kernel(os(errno)).unwrap(), NotByKernel);
        }
        assert_eq!(judge_kernel(os(libc::EPERM)).unwrap(), Denied);
        assert!(judge_kernel(os(libc::ENOMEM)).is_err());
        assert_eq!(judge_ring(os(libc::ENOSYS)).unwrap(), NotByKernel);
        assert_eq!(judge_ring(os(libc::EPERM)).unwrap(), Denied);
        assert!(judge_ring(os(libc::EMFILE)).is_err());
    }

    #[test]
    fn the_running_kernel_answers() {
        // Interface 1 is lo, which has no driver that could.
        const LOOPBACK: u32 = 1;
        match ask(LOOPBACK) {
            Ok(answer) => assert_ne!(answer, ZeroCopyAnswer::Supported),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{error}"),
        }
    }
}
