//! Region that a NIC receives into, with a queue of the NIC, made by the first comm that listens
//! there.
//!
//! The NIC decides where bytes go, so pages are not handed out, but counted. Half of the region is
//! for bytes in sockets: each socket gets a share as its receive buffer. Three eighths are for
//! messages, which reserve what they may take before they are received. The rest is for the NIC's
//! rings. So bytes that wait in one connection never keep the last byte from another.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tcpx_cuda::CudaGpu;
use tcpx_devmem::{
    DevmemError, HostBuffer, HostMemory, Nic, Receiver, RingBinding, RxBinding, delete_stale_rules,
};
use tcpx_sys::UNPACK_PAGE_BYTES;

use super::arrival_stats::ArrivalStats;
use super::gpu_refusal::gpu_refusal;
use super::kernel_deadline::KERNEL_DEADLINE;
use super::receive_path::{Binding, ReceivePath};
use super::ring_thread::RingThread;
use crate::log;
use crate::memory::{BounceBuffer, DiscardOutcome, NicGpuMemory};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, OnceLock};
use crate::transport::Transport;

const PAGE: u64 = UNPACK_PAGE_BYTES as u64;
/// Fewest pages that are of use: some packets of 64 KiB, and as many in sockets.
const LEAST_PAGES: u64 = 64;
/// Most bytes of pages for bytes that come in host memory.
const MOST_SPARE: u64 = 16 << 20;
/// Pages of the largest packet that a socket takes beyond its receive buffer.
const PACKET_PAGES: u32 = 17;
/// Number of data sockets that a region has room for, unless their shares would be too small.
const SOCKETS: u32 = 64;
/// Smallest share: a packet, and room for another that comes meanwhile.
const LEAST_SHARE: u32 = 24;
/// Largest share, of 2 MiB.
const MOST_SHARE: u32 = 512;

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
    pages: u32,
    /// Number of pages that sockets may hold.
    of_sockets: AtomicU32,
    /// Number of pages that messages may hold.
    of_messages: AtomicU32,
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
            pages,
            of_sockets: AtomicU32::new(0),
            of_messages: AtomicU32::new(0),
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
        let (held, pages) = (self.held.load(Ordering::Relaxed), u64::from(self.pages));
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

    /// Returns the most pages that messages may hold.
    fn most_of_messages(&self) -> u32 {
        self.pages / 8 * 3
    }

    /// Reserves pages for a message; returns `None` if that is not possible now.
    ///
    /// # Errors
    /// There will never be this many pages.
    pub(crate) fn reserve(&'static self, pages: u64) -> Result<Option<Reserved>, DevmemError> {
        let most = self.most_of_messages();
        let Some(wanted) = u32::try_from(pages).ok().filter(|&wanted| wanted <= most) else {
            return Err(DevmemError::PoolTooSmall {
                nic: self.nic.name().to_owned(),
                what: "a message",
                pages,
                free: u64::from(most),
            });
        };
        Ok(Reserved::take(&self.of_messages, wanted, most))
    }

    /// Reserves what `sockets` data sockets may hold. Also returns the receive buffer to give to
    /// each.
    ///
    /// # Errors
    /// Others have too much of the region.
    pub(super) fn share(&'static self, sockets: u16) -> Result<(Reserved, usize), DevmemError> {
        let most = self.pages / 2;
        let each = (most / SOCKETS).clamp(LEAST_SHARE, MOST_SHARE);
        let wanted = each * u32::from(sockets);
        let Some(share) = Reserved::take(&self.of_sockets, wanted, most) else {
            return Err(DevmemError::PoolTooSmall {
                nic: self.nic.name().to_owned(),
                what: "another comm",
                pages: u64::from(wanted),
                free: u64::from(most.saturating_sub(self.of_sockets.load(Ordering::Relaxed))),
            });
        };
        // The system doubles the value that it gets.
        let bytes = (each - PACKET_PAGES) as usize * UNPACK_PAGE_BYTES / 2;
        Ok((share, bytes))
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

/// Receive path, binding, queue and memory of a new region.
type RegionParts = (ReceivePath, Binding, u32, BounceBuffer);

/// Makes a dma-buf of a GPU's memory, or of host memory that stands in for it, and binds it to a
/// queue. `bytes`: of the dma-buf, and behind it.
fn bind_devmem(
    nic: &Nic,
    gpu: Option<&CudaGpu>,
    bytes: (u64, u64),
    poison: bool,
) -> Result<RegionParts, DevmemError> {
    let (of_nic, spare) = bytes;
    let bind = |dma_buf| RxBinding::on_free_queues(nic, 1, dma_buf, KERNEL_DEADLINE);
    let (bounce, binding) = match gpu {
        None => {
            let buffer = HostBuffer::with_spare(of_nic as usize, spare as usize)?;
            let binding = bind(buffer.as_fd())?;
            (BounceBuffer::of_nic(buffer, poison), binding)
        }
        Some(gpu) => {
            let (memory, binding) = match NicGpuMemory::left(gpu, of_nic, spare) {
                Some(memory) => {
                    let binding = bind(memory.as_fd()).inspect_err(|_| memory.leave())?;
                    log::info!("{}: its memory is that of a region that was lost", nic.name());
                    (memory, binding)
                }
                None => {
                    let memory = NicGpuMemory::new(gpu, of_nic, spare);
                    let memory = memory.map_err(|error| gpu_refusal(gpu.ordinal(), &error))?;
                    let binding = bind(memory.as_fd())?;
                    (Arc::new(memory), binding)
                }
            };
            (BounceBuffer::of_nic_on_gpu(memory, poison), binding)
        }
    };
    let queue = binding.queues().first().copied().unwrap_or_default();
    let receive_path = ReceivePath::Devmem { binding: binding.id(), bytes: of_nic };
    Ok((receive_path, Binding::Devmem(binding), queue, bounce))
}

/// Makes host memory, and a ring with a queue.
fn start_ring(
    nic: &Nic,
    of_nic: u64,
    spare: u64,
    poison: bool,
) -> Result<RegionParts, DevmemError> {
    let failed = |source| DevmemError::System { what: "a region cannot be made", source };
    let memory = HostMemory::new((of_nic + spare) as usize).map_err(failed)?;
    let (thread, memory) = RingThread::start(nic, memory, of_nic as usize)?;
    let queue = thread.queue();
    let binding = RingBinding::new(nic, queue, KERNEL_DEADLINE)?;
    let bounce = BounceBuffer::of_ring(memory, of_nic as usize, poison);
    Ok((ReceivePath::Ring(thread), Binding::Ring(binding), queue, bounce))
}
/// Reserved pages, until this is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    of: &'static AtomicU32,
    pages: u32,
}

impl Reserved {
    /// Adds to `of` if the sum stays within `most`; otherwise returns `None` and adds nothing.
    fn take(of: &'static AtomicU32, pages: u32, most: u32) -> Option<Self> {
        let grown = |now: u32| now.checked_add(pages).filter(|&sum| sum <= most);
        #[allow(deprecated, reason = "its later name, try_update, is not in the oldest Rust")]
        let added = of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        // The drop takes off only what was added.
        added.ok().map(|_| Self { of, pages })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.of.fetch_sub(self.pages, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
