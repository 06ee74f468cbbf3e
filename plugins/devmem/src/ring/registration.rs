#![allow(unsafe_code)]
//! Registration of a NIC's receive queue with a ring, and the meaning of a refusal.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::layout::{Area, COUNT, Events, OWN_MEMORY, REGISTER_QUEUE, Registration, RingRegion};
use super::refill::{Refill, RefillMemory};
use crate::error::DevmemError;
use crate::host_memory::HostMemory;
use crate::nic::{HeaderSplit, Nic, NicFacts};

/// Result of a registration.
#[derive(Debug)]
pub(super) struct Registered {
    /// Number by which receives name the queue.
    pub(super) id: u32,
    pub(super) refill: Refill,
}

/// Gives the queue the first `bytes` of `memory`, whole pages.
pub(super) fn register(
    ring: BorrowedFd<'_>,
    nic: &Nic,
    queue: u32,
    memory: &HostMemory,
    bytes: usize,
    deadline: Duration,
) -> Result<Registered, DevmemError> {
    let made = |source| DevmemError::System { what: "a refill ring cannot be made", source };
    if bytes > memory.len() {
        return Err(made(io::ErrorKind::InvalidInput.into()));
    }
    let refill = RefillMemory::new(bytes as u64 / 4096).map_err(made)?;
    let ask = |counts| call(ring, nic, queue, memory, bytes, &refill, counts);
    // A kernel without counters refuses a registration that requests them.
    let (registration, counts) = match ask(true) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => (ask(false), false),
        answer => (answer, true),
    };
    let registration = registration.map_err(|error| {
        let error = refused(nic, queue, bytes as u64, lock_limit(), error);
        explain(error, nic, deadline)
    })?;
    let refill = refill.laid_out(registration.offsets, counts).map_err(made)?;
    Ok(Registered { id: registration.id, refill })
}

fn call(
    ring: BorrowedFd<'_>,
    nic: &Nic,
    queue: u32,
    memory: &HostMemory,
    bytes: usize,
    refill: &RefillMemory,
    counts: bool,
) -> io::Result<Registration> {
    let mut area = Area {
        address: memory.as_mut_ptr().expose_provenance() as u64,
        bytes: bytes as u64,
        ..Area::default()
    };
    let mut region = RingRegion {
        address: refill.address(),
        bytes: refill.bytes(),
        flags: OWN_MEMORY,
        ..RingRegion::default()
    };
    let mut events = Events { flags: COUNT, counters: refill.counters_at(), ..Events::default() };
    let mut registration = Registration {
        ifindex: nic.ifindex(),
        queue,
        entries: refill.entries(),
        area: (&raw mut area).expose_provenance() as u64,
        region: (&raw mut region).expose_provenance() as u64,
        events: if counts { (&raw mut events).expose_provenance() as u64 } else { 0 },
        ..Registration::default()
    };
    // SAFETY:
    // - `registration` and what it points to have the kernel's layouts and live until after the
    //   call; the kernel keeps none of those pointers;
    // - the area is the first `bytes ≤ memory.len()` bytes of a mapping, and the refill ring's
    //   memory is another. The kernel pins the pages of both, so they stay even if the mappings go.
    let result = unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            ring.as_raw_fd(),
            REGISTER_QUEUE,
            &raw mut registration,
            1 as libc::c_uint,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(registration) }
}

/// Returns the bytes that may be locked, or `None` for no limit.
fn lock_limit() -> Option<u64> {
    let may_lock =
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    if may_lock { None } else { getrlimit(Resource::Memlock).current }
}

/// Returns the meaning of a refusal.
fn refused(
    nic: &Nic,
    queue: u32,
    bytes: u64,
    lock_limit: Option<u64>,
    source: io::Error,
) -> DevmemError {
    let (nic, queues, words) = (nic.name().to_owned(), vec![queue], source.to_string());
    match (source.raw_os_error(), lock_limit) {
        (Some(libc::EPERM | libc::EACCES), _) => {
            DevmemError::NotPermitted { nic, what: "to take a receive queue for io_uring" }
        }
        (Some(libc::EOPNOTSUPP), _) => DevmemError::RingUnsupported { nic, words },
        (Some(libc::ENODEV), _) => DevmemError::NoNic { nic },
        (Some(libc::ERANGE | libc::EEXIST | libc::EBUSY), _) => {
            DevmemError::QueueTaken { nic, queues, words }
        }
        (Some(libc::ENOMEM), Some(limit)) => DevmemError::MemoryNotLocked { nic, bytes, limit },
        (Some(libc::EINVAL | libc::EFAULT), _) => {
            DevmemError::System { what: "io_uring refuses a receive queue", source }
        }
        _ => DevmemError::ResetFailed { nic, queues, words },
    }
}

/// Replaces an error by a more specific one. The kernel gives the same error for header split as
/// for any other wrong setting.
fn explain(error: DevmemError, nic: &Nic, deadline: Duration) -> DevmemError {
    let DevmemError::System { .. } = error else { return error };
    let rings = NicFacts::ask(nic, deadline).ok().and_then(|facts| facts.rings);
    let name = || nic.name().to_owned();
    match rings {
        Some(rings) if rings.header_split == HeaderSplit::Off => {
            DevmemError::HeaderSplitOff { nic: name() }
        }
        Some(rings) if rings.header_split_threshold_bytes.is_some_and(|bytes| bytes > 0) => {
            DevmemError::HeaderSplitThreshold { nic: name() }
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_mean_something() {
        let nic = Nic::named("lo").expect("every namespace has one");
        let id = |errno, limit| {
            let error = refused(&nic, 3, 4096, limit, io::Error::from_raw_os_error(errno));
            error.diagnosis().map(|diagnosis| diagnosis.code.number())
        };
        for (errno, limit, expected) in [
            (libc::EPERM, None, Some(421)),
            (libc::EOPNOTSUPP, None, Some(441)),
            (libc::ENODEV, None, Some(428)),
            (libc::ERANGE, None, Some(412)),
            (libc::EEXIST, None, Some(412)),
            (libc::ENOMEM, Some(8 << 20), Some(445)),
            (libc::ENOMEM, None, Some(423)),
            (libc::EIO, Some(8 << 20), Some(423)),
            (libc::EINVAL, None, None),
        ] {
            assert_eq!(id(errno, limit), expected, "{errno}");
        }
    }
}
