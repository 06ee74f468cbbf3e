#![allow(unsafe_code)]
//! Ring of io_uring with a receive queue of a NIC. The ring belongs to the thread that makes it.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};

use super::layout::AREA_SHIFT;
use super::receive_end::ReceiveEnd;
use super::refill::Refill;
use super::registration::{Registered, register};
use crate::binding::take_free;
use crate::error::DevmemError;
use crate::host_memory::HostMemory;
use crate::nic::{Nic, NicFacts, choose_queues};

/// Entries that go to the kernel with one call. More entries take another call.
const SUBMISSIONS: u32 = 256;
/// Completions that find room. A receive whose completion finds no room is submitted again.
const COMPLETIONS: u32 = 4096;
/// Owner of a completion, as its user data. Receives have the numbers above.
const WAKE: u64 = 0;
const CANCEL: u64 = 1;
const FIRST_RECEIVE: u64 = 2;

type Ring = IoUring<squeue::Entry, cqueue::Entry32>;

/// Event of the ring.
#[derive(Debug)]
#[non_exhaustive]
pub enum RingEvent {
    /// `bytes` bytes of the stream of receive `id` lie at this offset of the area.
    Bytes {
        /// Number of the receive.
        id: u64,
        /// Offset of the bytes, which lie in the area.
        offset: u64,
        /// Number of bytes.
        bytes: u32,
    },
    /// Receive `id` is over. `left` bytes have not come.
    Over {
        /// Number of the receive.
        id: u64,
        /// Requested bytes that have not come.
        left: u64,
        /// Reason of the end.
        end: ReceiveEnd,
    },
    /// The descriptor of [`RingQueue::wake_by`] is readable.
    Woken,
}

/// Receive queue of a NIC whose packets go to host memory of this process, and the ring that
/// reports them. It belongs to the thread that has made it: the kernel refuses others.
pub struct RingQueue {
    ring: Ring,
    queue: u32,
    id: u32,
    refill: Arc<Refill>,
    area_bytes: u64,
    /// Bytes that are still to come, by receive.
    asked: HashMap<u64, u64>,
}

impl core::fmt::Debug for RingQueue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { queue, area_bytes, asked, .. } = self;
        write!(f, "RingQueue {{ queue: {queue}, area_bytes: {area_bytes}, asked: {asked:?} }}")
    }
}

impl RingQueue {
    /// Gives `queue` the first `bytes` of `memory`, whole pages, which resets the queue. Requires
    /// CAP_NET_ADMIN. The kernel keeps the memory until the ring is closed, on drop.
    ///
    /// # Errors
    /// Returns each refusal of the kernel as the error that it means.
    pub fn new(
        nic: &Nic,
        queue: u32,
        memory: &HostMemory,
        bytes: usize,
        deadline: Duration,
    ) -> Result<Self, DevmemError> {
        let ring = open()?;
        // SAFETY: the ring is open for as long as it is borrowed here.
        let fd = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) };
        let Registered { id, refill } = register(fd, nic, queue, memory, bytes, deadline)?;
        let (refill, area_bytes) = (Arc::new(refill), bytes as u64);
        Ok(Self { ring, queue, id, refill, area_bytes, asked: HashMap::new() })
    }

    /// Does the same with a free queue. Chooses another queue where another process takes one
    /// first.
    ///
    /// # Errors
    /// Returns the errors of [`choose_queues`] and [`new`](Self::new).
    pub fn on_free_queue(
        nic: &Nic,
        memory: &HostMemory,
        bytes: usize,
        deadline: Duration,
    ) -> Result<Self, DevmemError> {
        // No setting of the NIC helps a kernel without support.
        drop(open()?);
        let choose = || choose_queues(&NicFacts::ask(nic, deadline)?, 1);
        take_free(choose, |queues| {
            // One queue was requested.
            let queue = queues.first().copied().unwrap_or_default();
            Self::new(nic, queue, memory, bytes, deadline)
        })
    }

    /// Checks that this kernel supports the ring, and that this process may use io_uring. Requires
    /// no privilege.
    ///
    /// # Errors
    /// Returns [`DevmemError::NoRingReceive`] and [`DevmemError::RingDenied`].
    pub fn check_kernel() -> Result<(), DevmemError> {
        open().map(drop)
    }

    /// Returns the number of the queue.
    #[must_use]
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Returns the ring by which any thread gives pages back.
    #[must_use]
    pub fn refill(&self) -> Arc<Refill> {
        Arc::clone(&self.refill)
    }

    /// Requests the next `bytes` bytes of a connection. The connection must have no other receive,
    /// and must stay open until this receive is over. `id` is a number that no other receive has.
    ///
    /// # Errors
    /// Returns the system's error. Nothing was submitted then.
    pub fn receive(&mut self, id: u64, socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
        // The kernel takes zero bytes for no limit.
        if bytes == 0 || self.asked.contains_key(&id) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let entry = opcode::RecvZc::new(Fd(socket.as_raw_fd()), bytes).ifq(self.id).build();
        self.push(&entry.user_data(id + FIRST_RECEIVE))?;
        self.asked.insert(id, u64::from(bytes));
        self.enter(0, None)
    }

    /// Cancels a receive. The ring reports the bytes that have come, and then the end of the
    /// receive.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn cancel(&mut self, id: u64) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(id + FIRST_RECEIVE).build();
        self.push(&entry.user_data(CANCEL))?;
        self.enter(0, None)
    }

    /// Makes a wait end when this descriptor is readable, from now on. The caller clears the
    /// descriptor, and keeps it open as long as the ring is open.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn wake_by(&mut self, descriptor: impl AsFd) -> io::Result<()> {
        let fd = Fd(descriptor.as_fd().as_raw_fd());
        let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).build();
        self.push(&entry.user_data(WAKE))?;
        self.enter(0, None)
    }

    /// Waits for an event, at most for `timeout`. Calls `on_event` with each available event, in
    /// the order of each stream. [`RingEvent::Woken`] comes once for each
    /// [`wake_by`](Self::wake_by).
    ///
    /// # Errors
    /// Returns the system's error. The ring cannot be used any more then.
    pub fn wait(
        &mut self,
        timeout: Duration,
        mut on_event: impl FnMut(RingEvent),
    ) -> io::Result<()> {
        self.refill.flush();
        self.enter(1, Some(timeout))?;
        // Completions that arrive during this loop are for the next call.
        let here = self.ring.completion().len();
        for _ in 0..here {
            let Some(entry) = self.ring.completion().next() else { break };
            let (result, is_last) = (entry.result(), !cqueue::more(entry.flags()));
            match entry.user_data() {
                WAKE => on_event(RingEvent::Woken),
                CANCEL => {}
                number => {
                    let id = number - FIRST_RECEIVE;
                    if let Some(event) = self.completed(id, result, is_last, entry.big_cqe()[0]) {
                        on_event(event);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the event that a completion of a receive means.
    fn completed(&mut self, id: u64, result: i32, is_last: bool, at: u64) -> Option<RingEvent> {
        let left = self.asked.get_mut(&id)?;
        if is_last {
            let left = self.asked.remove(&id)?;
            return Some(RingEvent::Over { id, left, end: ReceiveEnd::of(result, left) });
        }
        let bytes = u32::try_from(result).ok().filter(|&bytes| bytes > 0)?;
        let end = at.checked_add(u64::from(bytes));
        // Area 0 is ours, and its offsets are below the bits of the area's number.
        let is_ours = at >> AREA_SHIFT == 0 && end.is_some_and(|end| end <= self.area_bytes);
        match left.checked_sub(u64::from(bytes)).filter(|_| is_ours) {
            Some(rest) => {
                *left = rest;
                Some(RingEvent::Bytes { id, offset: at, bytes })
            }
            // The place in the stream is lost. Further bytes of the stream have no use.
            None => {
                let left = self.asked.remove(&id)?;
                let what = format!("io_uring reports {bytes} bytes at {at}, of {left}");
                let end = ReceiveEnd::Failed(io::Error::new(io::ErrorKind::InvalidData, what));
                // If the cancellation cannot be submitted, the receive ends with its socket.
                let _ = self.cancel(id);
                Some(RingEvent::Over { id, left, end })
            }
        }
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        for _ in 0..2 {
            // SAFETY: no entry of ours has a pointer. A descriptor that is closed too early makes
            // the kernel receive from another file of this process, or from none.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.enter(0, None)?;
        }
        Err(io::Error::other("the ring takes no entry"))
    }

    /// Submits all entries, and waits for `count` completions.
    fn enter(&self, count: usize, timeout: Option<Duration>) -> io::Result<()> {
        let submitter = self.ring.submitter();
        let result = match timeout {
            None => submitter.submit(),
            Some(time) => {
                let time = Timespec::from(time);
                submitter.submit_with_args(count, &SubmitArgs::new().timespec(&time))
            }
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // The timeout is over, a signal has come, or completions must be read first.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }
}

/// Opens a ring that supports zero-copy receives.
fn open() -> Result<Ring, DevmemError> {
    let ring = IoUring::<squeue::Entry, cqueue::Entry32>::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(COMPLETIONS)
        .dontfork()
        .build(SUBMISSIONS)
        .map_err(ring_error)?;
    let mut probe = Probe::new();
    let asked = ring.submitter().register_probe(&mut probe);
    if asked.is_err() || !probe.is_supported(opcode::RecvZc::CODE) {
        let what = "it is older than 6.15, or built without IO_URING_ZCRX";
        return Err(DevmemError::NoRingReceive { what });
    }
    Ok(ring)
}

/// Returns the reason why there is no ring.
fn ring_error(source: io::Error) -> DevmemError {
    match source.raw_os_error() {
        Some(libc::ENOSYS) => DevmemError::NoRingReceive { what: "it has no io_uring" },
        Some(libc::EINVAL) => DevmemError::NoRingReceive { what: "it knows no rings of this kind" },
        Some(libc::EPERM | libc::EACCES) => DevmemError::RingDenied { source },
        _ => DevmemError::System { what: "a ring of io_uring cannot be made", source },
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn each_reason_for_a_missing_ring_is_reported() {
        let id = |errno| {
            let error = ring_error(io::Error::from_raw_os_error(errno));
            error.diagnosis().map(|diagnosis| diagnosis.code.number())
        };
        assert_eq!(id(libc::ENOSYS), Some(442));
        assert_eq!(id(libc::EINVAL), Some(442));
        assert_eq!(id(libc::EPERM), Some(444));
        assert_eq!(id(libc::EMFILE), None);
    }

    #[test]
    fn the_loopback_cannot_be_taken() {
        let nic = Nic::named("lo").expect("every namespace has one");
        let memory = HostMemory::new(1 << 20).expect("memory");
        let deadline = Duration::from_secs(2);
        let error = RingQueue::new(&nic, 0, &memory, 1 << 20, deadline).expect_err("no queues");
        let id = error.diagnosis().map(|diagnosis| diagnosis.code.number());
        if matches!(id, Some(442 | 444)) {
            let _ = writeln!(io::stderr(), "skipped: {error}");
        }
        assert!(matches!(id, Some(421 | 441 | 442 | 444 | 445)), "{error}");
        let error = RingQueue::on_free_queue(&nic, &memory, 1 << 20, deadline).expect_err("none");
        let id = error.diagnosis().map(|diagnosis| diagnosis.code.number());
        assert!(matches!(id, Some(407 | 420 | 442 | 444)), "{error}");
    }
}
