//! The process-wide state that `init` makes, and what can be asked of it.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tcpx_cuda::{CudaGpu, check_exports};
use tcpx_devmem::DevmemError;
use tcpx_sys::{ForkGuard, NetProperties};

use super::mode::Mode;
use super::nic::Nic;
use super::reach_cache::ReachCache;
use super::settings::Settings;
use crate::comm::CommOptions;
use crate::failure::Failure;
use crate::hooks::hooks;
use crate::log;
use crate::memory::{BounceBuffer, BounceMemory, PoolStats, cuda_failure, gpu_of_thread};
use crate::nic_memory::{
    ArrivalStats, NicRegion, SendMemory, gpu_refusal, region_bytes, watched_region,
};
use crate::sync::{AtomicU64, Mutex, OnceLock};
use crate::transport::{GpuReach, Transport};
use tcpx_sys::CpuSet;

/// What `init` made.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) settings: Settings,
    pub(crate) mode: Mode,
    /// Why NCCL gets no connection.
    refusal: Option<String>,
    nics: Vec<Nic>,
    /// Helper threads per comm; 0 when the caller of `test` moves the payload.
    threads: usize,
    /// Where they run, by NIC.
    cpus: Vec<Option<CpuSet>>,
    /// Mapped by the first receive comm.
    bounce: OnceLock<BounceBuffer>,
    /// Pinned by the first receive comm for a GPU.
    pinned_bounce: OnceLock<BounceBuffer>,
    /// By GPU: memory of its own, made by the first receive comm for it. Empty unless the settings
    /// ask for it.
    gpu_bounces: OnceLock<Box<[OnceLock<BounceBuffer>]>>,
    /// By NIC, and GPU that the memory belongs to: the region that a NIC receives into, where it
    /// does. The first listen makes it. A lost region is followed by another. Host memory is one
    /// region for all.
    regions: Mutex<BTreeMap<(usize, Option<u32>), &'static NicRegion>>,
    reached: ReachCache,
    /// Send and receive comms so far.
    comms: AtomicU64,
}

impl Runtime {
    pub(super) fn new(settings: Settings, mode: Mode, nics: Vec<Nic>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads =
            if settings.uses_helpers(processors) { usize::from(settings.threads) } else { 0 };
        let cpus =
            nics.iter().map(|nic| settings.cpus.of(Path::new("/"), &nic.interface.name)).collect();
        Self {
            settings,
            mode,
            refusal: None,
            nics,
            threads,
            cpus,
            bounce: OnceLock::new(),
            pinned_bounce: OnceLock::new(),
            gpu_bounces: OnceLock::new(),
            regions: Mutex::default(),
            reached: ReachCache::default(),
            comms: AtomicU64::new(0),
        }
    }

    /// With devices on which nothing can be connected.
    pub(super) fn refusing(why: String, settings: Settings, nics: Vec<Nic>) -> Self {
        Self { refusal: Some(why), ..Self::new(settings, Mode::NcclHost, nics) }
    }

    /// Returns the options of a new send or receive comm over this NIC.
    pub(crate) fn next_comm(&self, nic: usize) -> CommOptions<'_> {
        CommOptions {
            number: self.comms.fetch_add(1, Ordering::Relaxed),
            threads: self.threads,
            cpus: self.cpus.get(nic).and_then(Option::as_ref),
            recv_sync: self.settings.recv_sync,
            inline_bytes: self.settings.inline_bytes,
            peer_timeout: self.settings.peer_timeout,
            zerocopy: self.settings.zerocopy,
            clears_counts: self.mode == Mode::NcclUnpack,
            hooks: hooks(),
        }
    }

    /// Whether connections may be made at all.
    ///
    /// # Errors
    /// NCCL was refused.
    pub(crate) fn check_refusal(&self, entry: &str) -> Result<(), Failure> {
        let Some(refusal) = &self.refusal else { return Ok(()) };
        log::warn!("{entry}: {refusal}");
        Err(Failure::Internal)
    }

    /// NIC `dev` and its index.
    pub(crate) fn nic(&self, dev: c_int) -> Result<(usize, &Nic), Failure> {
        let index = usize::try_from(dev).ok();
        index.and_then(|index| Some((index, self.nics.get(index)?))).ok_or_else(|| {
            log::warn!("device {dev} of {}", self.nics.len());
            Failure::Internal
        })
    }

    /// Returns the bounce region for emulated memory, or for that of a GPU. The first call makes
    /// it.
    pub(crate) fn bounce(&self, gpu: Option<&CudaGpu>) -> Result<&BounceBuffer, Failure> {
        let bytes = self.settings.pool_bytes;
        let poison = self.settings.poison;
        match (gpu, self.settings.bounce) {
            (None, _) => made(&self.bounce, || BounceBuffer::new(bytes, poison)),
            (Some(gpu), BounceMemory::Host) => {
                made(&self.pinned_bounce, || BounceBuffer::pinned(gpu, bytes, poison))
            }
            (Some(gpu), BounceMemory::Device) => {
                made(self.region_of(gpu)?, || BounceBuffer::on_gpu(gpu, bytes, poison))
            }
        }
        .map_err(|error| {
            log::warn!("cannot make {bytes} bytes for the bounce region: {error}");
            if gpu.is_some() { Failure::Cuda } else { Failure::System }
        })
    }

    /// Returns the region that this NIC receives into for this GPU, or for memory that stands in
    /// for a GPU's, where payload comes there. The first call makes it. Host memory is read by all
    /// GPUs.
    pub(crate) fn region(
        &self,
        nic: usize,
        gpu: Option<&CudaGpu>,
    ) -> Result<Option<&'static NicRegion>, DevmemError> {
        let Some(Nic { interface, .. }) = self.nics.get(nic) else { return Ok(None) };
        let is_by_ring = self.settings.transport == Transport::IoUring;
        if !is_by_ring && !self.uses_device_memory(nic, gpu) {
            return Ok(None);
        }
        let owner = gpu.filter(|_| !is_by_ring);
        let key = (nic, owner.map(CudaGpu::ordinal));
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(region) = regions.get(&key).filter(|region| region.lost().is_none()) {
            return Ok(Some(region));
        }
        let Settings { transport, pool_bytes, poison, .. } = self.settings;
        let region = watched_region(&interface.name, transport, owner, pool_bytes, poison)?;
        regions.insert(key, region);
        Ok(Some(region))
    }

    /// How a send comm over this NIC reaches it, where the NIC is to read what is sent. A comm of a
    /// GPU copies nothing, unless host memory is sent.
    pub(crate) fn send_memory(
        &self,
        nic: usize,
        gpu: Option<&CudaGpu>,
        chunk_bytes: u32,
    ) -> Result<Option<SendMemory>, DevmemError> {
        let Some(Nic { interface, .. }) = self.nics.get(nic) else { return Ok(None) };
        if !self.uses_device_memory(nic, gpu) {
            return Ok(None);
        }
        let memory = SendMemory::new(&interface.name, chunk_bytes);
        match gpu {
            None => memory.check()?,
            Some(gpu) => {
                check_exports(gpu).map_err(|error| gpu_refusal(gpu.ordinal(), &error))?;
            }
        }
        Ok(Some(memory))
    }

    /// The GPU of the calling thread, where it and a NIC are to reach the same memory.
    pub(crate) fn gpu_for_nic(&self, entry: &str) -> Result<Option<CudaGpu>, Failure> {
        match self.settings.transport {
            Transport::Tcp => Ok(None),
            Transport::Devmem | Transport::Auto | Transport::IoUring => {
                gpu_of_thread(entry, self.settings.memory)
            }
        }
    }

    /// Returns whether the comms of this GPU, or of none, move payload by device memory over this
    /// NIC.
    fn uses_device_memory(&self, nic: usize, gpu: Option<&CudaGpu>) -> bool {
        match (self.settings.transport, gpu) {
            (Transport::Tcp | Transport::IoUring, _) | (Transport::Auto, None) => false,
            (Transport::Devmem, _) => true,
            (Transport::Auto, Some(gpu)) => {
                let reach = self.nics.get(nic).map(|found| self.reached.of_nic(nic, found, gpu));
                reach.is_some_and(|reach| reach.refusal.is_none())
            }
        }
    }

    /// Where the bounce region in a GPU's own memory is kept.
    fn region_of(&self, gpu: &CudaGpu) -> Result<&OnceLock<BounceBuffer>, Failure> {
        let regions = match self.gpu_bounces.get() {
            Some(regions) => regions,
            None => {
                let gpus = CudaGpu::count().map_err(|error| cuda_failure("accept", &error))?;
                let regions = (0..gpus).map(|_| OnceLock::new()).collect();
                self.gpu_bounces.get_or_init(|| regions)
            }
        };
        regions.get(gpu.ordinal() as usize).ok_or(Failure::Internal)
    }

    fn arrivals(&self) -> ArrivalStats {
        let regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = regions.values().map(|region| region.stats());
        stats.fold(ArrivalStats::default(), ArrivalStats::plus)
    }

    fn bounces(&self) -> impl Iterator<Item = &BounceBuffer> {
        let on_gpus = self.gpu_bounces.get().into_iter().flatten();
        let all = [&self.bounce, &self.pinned_bounce].into_iter().chain(on_gpus);
        let of_nics = self.regions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.filter_map(OnceLock::get).chain(of_nics.into_values().map(NicRegion::bounce))
    }
}

/// Returns the region that is kept in `place`, and makes it if there is none. Its memory is taken
/// and zeroed at once where a GPU has to reach it, which takes time that a log line shows.
fn made(
    place: &OnceLock<BounceBuffer>,
    make: impl FnOnce() -> std::io::Result<BounceBuffer>,
) -> std::io::Result<&BounceBuffer> {
    if let Some(bounce) = place.get() {
        return Ok(bounce);
    }
    let start = Instant::now();
    let bounce = make()?;
    log::info!(
        "bounce region: {} MiB of {} made in {:.1} ms",
        bounce.stats().bytes >> 20,
        bounce.region().kind(),
        start.elapsed().as_secs_f64() * 1e3
    );
    // If another thread was faster, its region is the one, and ours goes untouched.
    Ok(place.get_or_init(|| bounce))
}

/// Set by `init`, for good.
pub(super) static RUNTIME: OnceLock<Runtime> = OnceLock::new();
/// Returns the fill level of the bounce regions of this process, all of them together. All values
/// are zero before the first receive comm, and in a forked child.
#[must_use]
pub fn pool_stats() -> PoolStats {
    let Ok(_guard) = ForkGuard::begin() else { return PoolStats::default() };
    let regions = RUNTIME.get().into_iter().flat_map(Runtime::bounces);
    regions.map(BounceBuffer::stats).fold(PoolStats::default(), PoolStats::plus)
}

/// Returns whether sessions of this GPU move payload by device memory over any NIC; false before
/// `init`, and when there is no such GPU.
#[must_use]
pub fn uses_device_memory(gpu: u32) -> bool {
    let (Ok(_guard), Some(runtime)) = (ForkGuard::begin(), RUNTIME.get()) else { return false };
    match runtime.settings.transport {
        Transport::Tcp | Transport::IoUring => false,
        Transport::Devmem => true,
        Transport::Auto => {
            runtime.reached.of_nics(&runtime.nics, gpu).iter().any(|reach| reach.refusal.is_none())
        }
    }
}

/// What came of looking for device memory for this GPU, NIC by NIC; nothing where the settings
/// leave nothing open, before `init`, and when there is no such GPU.
#[must_use]
pub fn gpu_reach(gpu: u32) -> Vec<GpuReach> {
    let (Ok(_guard), Some(runtime)) = (ForkGuard::begin(), RUNTIME.get()) else {
        return Vec::new();
    };
    match runtime.settings.transport {
        Transport::Tcp | Transport::Devmem | Transport::IoUring => Vec::new(),
        Transport::Auto => runtime.reached.of_nics(&runtime.nics, gpu),
    }
}

/// What has come to the memory that NICs of this process receive into. All zero without such a NIC,
/// and in a forked child.
#[must_use]
pub fn arrival_stats() -> ArrivalStats {
    let Ok(_guard) = ForkGuard::begin() else { return ArrivalStats::default() };
    RUNTIME.get().map(Runtime::arrivals).unwrap_or_default()
}

/// Bytes of a bounce region, or 0 before `init`. Every unpack entry lies within them.
#[must_use]
pub fn bounce_bytes() -> u64 {
    RUNTIME.get().map_or(0, |runtime| match runtime.settings {
        Settings { transport: Transport::Tcp | Transport::Auto, pool_bytes, .. } => pool_bytes,
        Settings { transport, pool_bytes, .. } => {
            let (of_nic, spare) = region_bytes(transport, pool_bytes);
            of_nic + spare
        }
    })
}

/// Returns what `init` made, or an error before it.
pub(crate) fn runtime() -> Result<&'static Runtime, Failure> {
    // A line here would be lost: the logger comes with `init`.
    RUNTIME.get().ok_or(Failure::Internal)
}

/// What the plugin is to its caller; before `init`, what the original is.
pub(crate) fn mode() -> Mode {
    RUNTIME.get().map_or(Mode::Program, |runtime| runtime.mode)
}

/// Number of NICs, or −1 before `init`.
pub(crate) fn devices() -> c_int {
    RUNTIME.get().map_or(-1, |runtime| c_int::try_from(runtime.nics.len()).unwrap_or(c_int::MAX))
}

/// Returns the properties of NIC `dev`, as `getProperties` reports them.
pub(crate) fn properties(dev: c_int) -> Result<NetProperties, Failure> {
    let runtime = runtime()?;
    let (index, nic) = runtime.nic(dev)?;
    Ok(nic.properties(index, runtime.mode))
}
