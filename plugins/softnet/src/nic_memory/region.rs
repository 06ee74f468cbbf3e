//! Region that a NIC receives into, with a queue of the NIC, made by the first comm that listens
//! there.
//!
//! The NIC decides where bytes go, so pages are not handed out, but counted. Half of the region is
//! for bytes in sockets: each socket gets a share as its receive buffer. Three eighths are for
//! messages, which reserve what they may take before they are received. The rest is for the NIC's
//! rings. So bytes that wait in one connection never keep the last byte from another.

mod page_budget;
mod parts;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tcpx_cuda::CudaGpu;
use tcpx_devmem::{DevmemError, HostBuffer, Nic, Receiver, delete_stale_rules};
use tcpx_sys::UNPACK_PAGE_BYTES;

use self::page_budget::PageBudget;
pub(crate) use self::page_budget::Reserved;
use self::parts::{bind_devmem, start_ring};
use super::arrival_stats::ArrivalStats;
use super::receive_path::{Binding, ReceivePath};
use super::ring_thread::RingThread;
use crate::log;
use crate::memory::{BounceBuffer, DiscardOutcome};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, OnceLock};
use crate::transport::Transport;

const PAGE: u64 = UNPACK_PAGE_BYTES as u64;
/// Fewest pages that are of use: some packets of 64 KiB, and as many in sockets.
const LEAST_PAGES: u64 = 64;
/// Most bytes of pages for bytes that come in host memory.
const MOST_SPARE: u64 = 16 << 20;

/// Returns the sizes of a region of `pool_bytes` in host memory: bytes that the NIC hands out, and
/// bytes of pages behind them. The first are at most what the system makes one dma-buf of, where
/// the region is a dma-buf.
pub(crate) fn region_bytes(transport: Transport, pool_bytes: u64) -> (u64, u64) {
    let most = match transport {
        Transport::Devmem => HostBuffer::largest(),
        Transport::IoUring | Transport::Tcp | Transport::Auto => None,
    };
    split(pool_bytes, most.unwrap_or(u64::MAX))
}

fn split(pool_bytes: u64, most: u64) -> (u64, u64) {
    // Entries reach 4 GiB.
    let all = pool_bytes.min(1 << 32);
    let spare = (all / 4).min(MOST_SPARE) / PAGE * PAGE;
    let of_nic = (all - spare).min(most) / PAGE * PAGE;
    (of_nic, spare)
}

/// Region, its queue, and the reservations of its users.
#[derive(Debug)]
pub(crate) struct NicRegion {
    nic: Nic,
    /// GPU that the memory belongs to; `None`: memory that stands in for a GPU's, or host memory.
    gpu: Option<u32>,
    receive_path: ReceivePath,
    queue: u32,
    bounce: BounceBuffer,
    pages: PageBudget,
    /// Number of fragments that are not given back.
    held: AtomicU64,
    /// Number of bytes that have come.
    arrived: AtomicU64,
    /// Number of those bytes that were copied here.
    copied: AtomicU64,
    is_down: AtomicBool,
    lost: OnceLock<Arc<DevmemError>>,
    /// Number of listen and receive comms that use the region, and the thread that has the binding.
    /// Once it is 0, it stays 0.
    users: AtomicU32,
}

impl NicRegion {
    /// Takes memory, and a free queue of the NIC, until the binding ends. The region itself is
    /// never freed, only its memory, so that nothing dangles. It begins with one user, which stays
    /// until the binding ends.
    ///
    /// # Errors
    /// Each with its diagnosis.
    pub(super) fn make(
        interface: &str,
        transport: Transport,
        gpu: Option<&CudaGpu>,
        pool_bytes: u64,
        poison: bool,
    ) -> Result<(Binding, RegionUser), DevmemError> {
        let nic = Nic::named(interface)?;
        let (of_nic, spare) = match gpu {
            None => region_bytes(transport, pool_bytes),
            Some(_) => split(pool_bytes, u64::MAX),
        };
        if of_nic / PAGE < LEAST_PAGES {
            let (pages, free) = (LEAST_PAGES, of_nic / PAGE);
            let what = "a region";
            return Err(DevmemError::PoolTooSmall { nic: interface.to_owned(), what, pages, free });
        }
        let start = Instant::now();
        let (receive_path, binding, queue, bounce) = match transport {
            Transport::IoUring => start_ring(&nic, of_nic, spare, poison)?,
            Transport::Devmem | Transport::Tcp | Transport::Auto => {
                bind_devmem(&nic, gpu, (of_nic, spare), poison)?
            }
        };
        // Rules of a process that was killed. They take room of our rules, and mislead other
        // packets.
        match delete_stale_rules(&nic, queue) {
            Ok(0) => {}
            Ok(rules) => log::info!("{interface}: deleted {rules} flow rules of a killed process"),
            Err(error) => log::info!("{interface}: its flow rules cannot be read: {error}"),
        }
        log::info!(
            "{interface}: receive queue {queue} has {} MiB of {}, and {} MiB lie behind them; \
             allocated and bound in {:.1} ms",
            of_nic >> 20,
            gpu.map_or("memory".to_owned(), |gpu| format!("memory of GPU {}", gpu.ordinal())),
            spare >> 20,
            start.elapsed().as_secs_f64() * 1e3
        );
        let gpu = gpu.map(CudaGpu::ordinal);
        let pages = (of_nic / PAGE) as u32;
        Ok((binding, Self::with_user(nic, gpu, receive_path, queue, bounce, pages)))
    }

    fn with_user(
        nic: Nic,
        gpu: Option<u32>,
        receive_path: ReceivePath,
        queue: u32,
        bounce: BounceBuffer,
        pages: u32,
    ) -> RegionUser {
        let region = Box::leak(Box::new(Self {
            nic,
            gpu,
            receive_path,
            queue,
            bounce,
            pages: PageBudget::new(pages),
            held: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
            copied: AtomicU64::new(0),
            is_down: AtomicBool::new(false),
            lost: OnceLock::new(),
            users: AtomicU32::new(1),
        }));
        RegionUser { region }
    }

    pub(crate) fn nic(&self) -> &Nic {
        &self.nic
    }

    /// Returns the GPU that the memory belongs to; `None`: memory that stands in for a GPU's, or
    /// host memory.
    pub(crate) fn gpu(&self) -> Option<u32> {
        self.gpu
    }

    pub(super) fn receive_path(&self) -> &ReceivePath {
        &self.receive_path
    }

    pub(super) fn queue(&self) -> u32 {
        self.queue
    }

    /// Returns the memory, with the pages for bytes that come in host memory.
    pub(crate) fn bounce(&self) -> &BounceBuffer {
        &self.bounce
    }

    /// Lets this GPU, and all others, read what comes, where it comes to host memory.
    ///
    /// # Errors
    /// [`DevmemError::NotPinned`].
    pub(crate) fn register(&self, gpu: &CudaGpu) -> Result<(), DevmemError> {
        let start = Instant::now();
        let (nic, gpu_number) = (self.nic.name(), gpu.ordinal());
        let is_new = self.bounce.region().register(gpu).map_err(|error| {
            let (nic, words) = (nic.to_owned(), error.to_string());
            DevmemError::NotPinned { nic, gpu: gpu_number, words }
        })?;
        if is_new {
            let took_ms = start.elapsed().as_secs_f64() * 1e3;
            log::info!("{nic}: its memory is registered for GPU {gpu_number}, in {took_ms:.1} ms");
        }
        Ok(())
    }

    pub(super) fn receiver(&self) -> Option<Receiver> {
        self.receive_path.receiver()
    }

    pub(super) fn ring(&self) -> Option<&RingThread> {
        self.receive_path.ring()
    }

    /// Returns whether a ring reports what comes, and no socket shows it.
    pub(crate) fn has_ring(&self) -> bool {
        self.ring().is_some()
    }

    /// Counts `bytes` bytes that have come, of them `copied` that were copied.
    pub(super) fn count(&self, bytes: usize, copied: usize) {
        self.arrived.fetch_add(bytes as u64, Ordering::Relaxed);
        self.copied.fetch_add(copied as u64, Ordering::Relaxed);
    }

    /// Returns what has come so far.
    pub(crate) fn stats(&self) -> ArrivalStats {
        let by_kernel = self.ring().and_then(|thread| thread.refill().copied_bytes());
        ArrivalStats {
            bytes: self.arrived.load(Ordering::Relaxed),
            copied: self.copied.load(Ordering::Relaxed),
            copied_by_kernel: by_kernel.unwrap_or_default(),
        }
    }

    /// Returns why nothing comes any more, once that is so.
    pub(crate) fn lost(&self) -> Option<&Arc<DevmemError>> {
        self.lost.get()
    }

    pub(super) fn lose(&self, error: DevmemError) {
        // The first reason counts.
        let _ = self.lost.set(Arc::new(error));
        self.receive_path.end();
    }

    /// Adds a comm to the users.
    ///
    /// # Errors
    /// The region is lost.
    pub(super) fn enter(&'static self) -> Result<RegionUser, DevmemError> {
        let one_more = |users: u32| (users > 0).then(|| users + 1);
        #[allow(deprecated, reason = "its later name, try_update, is not in the oldest Rust")]
        let added = self.users.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        let user = added.ok().map(|_| RegionUser { region: self });
        user.filter(|_| self.lost().is_none()).ok_or_else(|| {
            let nic = self.nic.name().to_owned();
            DevmemError::BindingLost { nic, queue: self.queue }
        })
    }

    /// Keeps the memory: one of the users never ends.
    pub(crate) fn leak(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives the memory back. Consumers read what lies in it only while their comm is open.
    fn discard(&self) {
        let name = self.nic.name();
        match self.bounce.region().discard() {
            Ok(DiscardOutcome::Freed) => {
                log::info!("{name}: its lost memory is freed");
            }
            Ok(DiscardOutcome::Reusable) => {
                log::info!("{name}: the next region uses its lost memory");
            }
            Ok(DiscardOutcome::Retained) => {}
            Err(error) => log::warn!("{name}: its memory cannot be given back: {error}"),
        }
    }

    pub(super) fn set_down(&self, is_down: bool) -> bool {
        self.is_down.swap(is_down, Ordering::Relaxed) != is_down
    }

    /// Returns a possible reason why a connection stands still: the NIC's end, the NIC itself, or a
    /// program that holds what has come.
    pub(crate) fn trouble(&self) -> Option<Arc<DevmemError>> {
        if let Some(error) = self.lost() {
            return Some(Arc::clone(error));
        }
        if self.is_down.load(Ordering::Relaxed) {
            return Some(Arc::new(DevmemError::NicDown { nic: self.nic.name().to_owned() }));
        }
        let (held, pages) = (self.held.load(Ordering::Relaxed), u64::from(self.pages.count()));
        tcpx_devmem::stall_reason(held, pages).map(Arc::new)
    }

    /// Counts `fragments` fragments that were received.
    pub(super) fn hold_fragments(&self, fragments: u64) {
        self.held.fetch_add(fragments, Ordering::Relaxed);
    }

    /// Counts `fragments` fragments that were given back, or will be with their socket.
    pub(super) fn release_fragments(&self, fragments: u64) {
        self.held.fetch_sub(fragments, Ordering::Relaxed);
    }

    /// Reserves pages for a message; returns `None` if that is not possible now.
    ///
    /// # Errors
    /// There will never be this many pages.
    pub(crate) fn reserve(&'static self, pages: u64) -> Result<Option<Reserved>, DevmemError> {
        self.pages.reserve(pages, self.nic.name())
    }

    /// Reserves what `sockets` data sockets may hold. Also returns the receive buffer to give to
    /// each.
    ///
    /// # Errors
    /// Others have too much of the region.
    pub(super) fn share(&'static self, sockets: u16) -> Result<(Reserved, usize), DevmemError> {
        self.pages.share(sockets, self.nic.name())
    }
}

/// User of a region, until this is dropped: a comm, or the thread that has the binding.
#[derive(Debug)]
pub(super) struct RegionUser {
    region: &'static NicRegion,
}

impl RegionUser {
    pub(super) fn region(&self) -> &'static NicRegion {
        self.region
    }
}

impl Drop for RegionUser {
    fn drop(&mut self) {
        // All that other users have done with the memory is over before the last one gives it back.
        if self.region.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.region.discard();
        }
    }
}

#[cfg(test)]
mod tests;
