#![allow(unsafe_code)]
//! Queue of launches in flight: places of their tiles, their streams, and their ends.
//!
//! Launches are numbered from 1; the number is the ticket. A stream's launches run in order, and
//! the streams run side by side. A ticket is therefore finished when its launch and all earlier
//! launches have reported.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::thread;
use std::time::{Duration, Instant};

use tcpx_cuda::{CudaError, CudaGpu, DeviceBuffer, Doubt, Module, PinnedBuffer, Stream};

use super::image::{BY_VALUE, FROM_MEMORY, IMAGES};
use super::launch::{
    Kernels, LaunchSize, Parameters, Reports, STREAMS, TILES_BY_VALUE, launch_by_value,
    launch_from_memory,
};
use super::reach::Reach;
use super::regular;
use super::ring::{Reservation, Ring};
use super::staging::{Plan, plan};
use super::tile::{self, Tile, Tiles};
use crate::error::UnpackError;
use crate::extent::extents;
use crate::job::{FragmentStats, UnpackJob};
use crate::ticket::Ticket;

/// Tiles in pinned memory that launches in flight can have: 1 MiB of tiles, 256 MiB of pages.
pub(super) const RING_TILES: usize = 1 << 16;
/// Tiles of one launch. Longer submits take several launches.
const TILES_PER_LAUNCH: usize = RING_TILES / 2;
/// Longest wait for the GPU in the middle of a submit that takes several launches.
const STALL_LIMIT: Duration = Duration::from_secs(10);
/// Device memory for bounce buffers that the kernel cannot read, allocated for the first such
/// buffer.
const STAGING_BYTES: u64 = 16 << 20;

/// Resources of launches in flight. They are leaked, not freed, when the launches don't end.
struct LaunchResources {
    reports: Reports,
    ring: PinnedBuffer,
    staging: Option<DeviceBuffer>,
    _module: Module,
}

struct InFlight {
    number: u64,
    stream: usize,
    ring_taken: usize,
}

/// Launches of the kernel on several streams, to be used while its GPU is entered.
pub(super) struct LaunchQueue {
    gpu: CudaGpu,
    kernels: Kernels,
    streams: [Stream; STREAMS],
    held: ManuallyDrop<LaunchResources>,
    parameters: Parameters,
    ring: Ring,
    in_flight: VecDeque<InFlight>,
    submitted: u64,
    finished: u64,
    doubt: Doubt,
    failure: Option<UnpackError>,
}

impl LaunchQueue {
    pub(super) fn new(gpu: &CudaGpu) -> Result<Self, CudaError> {
        // SAFETY: the images are this crate's kernel, compiled from kernels/unpack.cu.
        let module = unsafe { Module::load(gpu, &IMAGES) }?;
        let kernels = Kernels {
            by_value: module.function(BY_VALUE)?,
            from_memory: module.function(FROM_MEMORY)?,
        };
        let stream = || Stream::new(gpu);
        Ok(Self {
            gpu: gpu.clone(),
            kernels,
            streams: [stream()?, stream()?, stream()?, stream()?],
            held: ManuallyDrop::new(LaunchResources {
                reports: Reports::new(gpu)?,
                ring: PinnedBuffer::new(gpu, (RING_TILES * size_of::<Tile>()) as u64)?,
                staging: None,
                _module: module,
            }),
            parameters: Parameters::new(),
            ring: Ring::new(RING_TILES),
            in_flight: VecDeque::with_capacity(1024),
            submitted: 0,
            finished: 0,
            doubt: Doubt::default(),
            failure: None,
        })
    }

    /// Launches the kernel over jobs that may not be checked, on the next stream. All of their
    /// fragments, `count` of them, must be right, be one tile each, and fit one launch; otherwise
    /// nothing is launched and the result is `None`. Returns an error for lack of room before it
    /// checks the fragments.
    ///
    /// # Safety
    /// The kernel can read the jobs' bounce buffers and write their destinations. Nothing else
    /// changes the former or uses the latter until the ticket is finished.
    pub(super) unsafe fn submit_regular(
        &mut self,
        jobs: &[UnpackJob<'_>],
        count: usize,
    ) -> Result<Option<Ticket>, UnpackError> {
        self.health()?;
        if count == 0 || count > TILES_PER_LAUNCH {
            return Ok(None);
        }
        self.check_room(count)?;
        let stream = self.submitted as usize % STREAMS;
        // SAFETY: the tiles are those of the jobs, which are right where the launch goes ahead.
        let launched = unsafe {
            self.launch(stream, (count, Reach::ONE), |places| regular::fill(jobs, places))
        }?;
        Ok(launched.then(|| Ticket::new(self.submitted)))
    }

    /// Launches the kernel over all jobs, on the next stream.
    ///
    /// # Safety
    /// `jobs` passed the check with the result `checked`. The kernel can read their bounce buffers
    /// and write their destinations. Nothing else changes the former or uses the latter until the
    /// ticket is finished.
    pub(super) unsafe fn submit(
        &mut self,
        jobs: &[UnpackJob<'_>],
        checked: FragmentStats,
    ) -> Result<Ticket, UnpackError> {
        self.health()?;
        let reach = Reach::of(checked);
        let mut left = tile::count(jobs, checked);
        self.check_room(left)?;
        let mut tiles = Tiles::new(jobs, reach);
        while left > 0 {
            let stream = self.submitted as usize % STREAMS;
            let piece = left.min(TILES_PER_LAUNCH);
            // SAFETY: the tiles are those of the jobs, for which the caller vouches.
            unsafe { self.launch(stream, (piece, reach), |places| tiles.fill(places) == piece) }?;
            left -= piece;
        }
        Ok(Ticket::new(self.submitted))
    }

    /// Launches as [`submit`](Self::submit) does. `readable` gives for each job whether the kernel
    /// can read its bounce buffer. All work goes on the first stream, whose order protects the
    /// staging buffer.
    ///
    /// # Safety
    /// As for [`submit`](Self::submit), except that the kernel need not read the bounce buffers.
    pub(super) unsafe fn submit_staged(
        &mut self,
        jobs: &[UnpackJob<'_>],
        checked: FragmentStats,
        readable: impl Fn(&UnpackJob<'_>) -> Result<bool, CudaError>,
    ) -> Result<Ticket, UnpackError> {
        self.health()?;
        let reach = Reach::of(checked);
        self.check_room(tile::count_each(jobs, reach))?;
        // SAFETY: passed on from the caller.
        let moved = match unsafe { self.stage(jobs, readable) } {
            Ok(moved) => moved,
            Err(error) => return Err(self.fail(error.into())),
        };
        let mut left = tile::count_each(&moved, reach);
        let mut tiles = Tiles::new(&moved, reach);
        loop {
            // Launches even without an entry, for the report behind the copies.
            let piece = left.min(TILES_PER_LAUNCH);
            // SAFETY: the tiles are those of the jobs, for which the caller vouches, reading from
            // the staging buffer where the kernel cannot read the bounce buffer.
            unsafe { self.launch(0, (piece, reach), |places| tiles.fill(places) == piece) }?;
            left -= piece;
            if left == 0 {
                return Ok(Ticket::new(self.submitted));
            }
        }
    }

    /// Queues the copies to the staging buffer and returns the jobs that are left for the kernel.
    ///
    /// # Safety
    /// As for [`submit_staged`](Self::submit_staged).
    unsafe fn stage<'jobs>(
        &mut self,
        jobs: &[UnpackJob<'jobs>],
        readable: impl Fn(&UnpackJob<'_>) -> Result<bool, CudaError>,
    ) -> Result<Vec<UnpackJob<'jobs>>, CudaError> {
        if self.held.staging.is_none() {
            self.held.staging = Some(DeviceBuffer::new(&self.gpu, STAGING_BYTES)?);
        }
        let staging = self.held.staging.as_ref().map_or(0, DeviceBuffer::address);
        let stream = &self.streams[0];
        let mut used = 0;
        let mut moved = Vec::with_capacity(jobs.len());
        for job in jobs.iter().filter(|job| !job.descriptors.is_empty()) {
            if readable(job)? {
                moved.push(*job);
                continue;
            }
            match plan(job, STAGING_BYTES - used) {
                Plan::Hull { start, bytes } => {
                    // SAFETY: the hull lies between fragments of the job, inside its bounce buffer.
                    // This part of the staging buffer is free in the order of the stream.
                    unsafe { stream.copy(staging + used, job.bounce + start, bytes) }?;
                    // Start of the bounce buffer as if all of it had been copied.
                    let bounce = (staging + used).wrapping_sub(start);
                    moved.push(UnpackJob { bounce, ..*job });
                    used = (used + bytes).next_multiple_of(16).min(STAGING_BYTES);
                }
                Plan::Direct => {
                    for extent in extents(job.bounce, job.dst, job.descriptors) {
                        // SAFETY: the extent lies inside the job's memories, for which the caller
                        // vouches.
                        unsafe { stream.copy(extent.dst, extent.src, extent.bytes) }?;
                    }
                }
            }
        }
        Ok(moved)
    }

    /// Launches the kernel over `count` entries, which `fill` puts into their places. Launches
    /// nothing when `fill` returns false. Returns whether it launched.
    ///
    /// # Safety
    /// `count` is at most [`TILES_PER_LAUNCH`], and the entries are valid, with this reach, until
    /// the launch has reported.
    unsafe fn launch(
        &mut self,
        stream: usize,
        (count, reach): (usize, Reach),
        fill: impl FnOnce(&mut [Tile]) -> bool,
    ) -> Result<bool, UnpackError> {
        let number = self.submitted + 1;
        let at = (stream, number);
        let work = LaunchSize { entries: count as u32, reach };
        let ring_taken;
        // A launch by value starts 0.4 µs sooner, which counts while the GPU is idle. It costs the
        // CPU 0.3 µs more, which counts while the GPU is busy. Small launches with spans always go
        // by value: many warps read each entry, and read parameters fastest.
        let is_idle = self.in_flight.is_empty();
        let launched = if count <= TILES_BY_VALUE && (is_idle || reach != Reach::ONE) {
            ring_taken = 0;
            if !fill(&mut self.parameters.tiles()[..count]) {
                return Ok(false);
            }
            let (kernels, on) = (self.kernels, &self.streams[stream]);
            let (reports, parameters) = (&self.held.reports, &mut self.parameters);
            // SAFETY: the caller vouches for the tiles; module and reports are held.
            unsafe { launch_by_value(kernels, on, reports, at, parameters, work) }
        } else {
            let reserved = self.find_room(count)?;
            ring_taken = reserved.taken;
            // SAFETY: the places lie inside the ring, and no launch in flight uses them, so their
            // bytes can be written. Start and size keep the alignment of the page.
            let room = unsafe {
                let first = self.held.ring.as_ptr().cast::<Tile>().add(reserved.start);
                std::slice::from_raw_parts_mut(first, count)
            };
            if !fill(room) {
                return Ok(false);
            }
            self.ring.take(count);
            let address = self.held.ring.address() + (reserved.start * size_of::<Tile>()) as u64;
            let (kernels, reports) = (self.kernels, &self.held.reports);
            let on = &self.streams[stream];
            // SAFETY: as above; the places are given back only after the launch has reported.
            unsafe { launch_from_memory(kernels, on, reports, at, address, work) }
        };
        launched.map_err(|error| self.fail(error.into()))?;
        self.submitted = number;
        self.in_flight.push_back(InFlight { number, stream, ring_taken });
        Ok(true)
    }

    /// Refuses a submit whose first launch has no room before older launches end.
    fn check_room(&mut self, tiles: usize) -> Result<(), UnpackError> {
        let first = tiles.min(TILES_PER_LAUNCH);
        if !self.ring.has_room(first) {
            self.poll()?;
        }
        if self.ring.has_room(first) { Ok(()) } else { Err(UnpackError::Busy) }
    }

    /// Finds room in the ring. A submit of several launches may have to wait for it.
    fn find_room(&mut self, tiles: usize) -> Result<Reservation, UnpackError> {
        let start = Instant::now();
        loop {
            if let Some(reserved) = self.ring.find(tiles) {
                return Ok(reserved);
            }
            self.poll()?;
            let waited = start.elapsed();
            if waited > STALL_LIMIT {
                let waited_ms = waited.as_millis() as u64;
                return Err(self.fail(CudaError::Stalled { waited_ms }.into()));
            }
            thread::yield_now();
        }
    }

    /// Returns the newest ticket that has reported together with all earlier tickets.
    pub(super) fn poll(&mut self) -> Result<Ticket, UnpackError> {
        self.health()?;
        let before = self.finished;
        while let Some(oldest) = self.in_flight.front()
            && self.held.reports.finished(oldest.stream) >= oldest.number
        {
            self.retire_oldest();
        }
        if self.doubt.is_due(self.finished == before && !self.in_flight.is_empty()) {
            self.ask_driver()?;
        }
        Ok(Ticket::new(self.finished))
    }

    /// Asks whether the oldest launch's stream still works. A failure shows here and nowhere else.
    /// A stream that is idle has ended all its launches, whether or not the host saw the report.
    fn ask_driver(&mut self) -> Result<(), UnpackError> {
        let Some(stream) = self.in_flight.front().map(|oldest| oldest.stream) else {
            return Ok(());
        };
        let idle = self.gpu.enter().and_then(|_entered| self.streams[stream].is_idle());
        match idle {
            Ok(false) => {}
            Ok(true) => {
                while self.in_flight.front().is_some_and(|oldest| oldest.stream == stream) {
                    self.retire_oldest();
                }
            }
            Err(error) => return Err(self.fail(error.into())),
        }
        Ok(())
    }

    fn retire_oldest(&mut self) {
        if let Some(oldest) = self.in_flight.pop_front() {
            self.finished = oldest.number;
            self.ring.release(oldest.ring_taken);
        }
    }

    fn health(&self) -> Result<(), UnpackError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: UnpackError) -> UnpackError {
        tracing::error!(%error, "unpacking stopped");
        self.failure = Some(error.clone());
        error
    }

    /// Refuses all later launches. Returns true when nothing is in flight.
    pub(super) fn shutdown(&mut self) -> bool {
        self.failure.get_or_insert(UnpackError::ShutDown);
        self.streams.iter().all(Stream::is_over)
    }
}

impl Drop for LaunchQueue {
    fn drop(&mut self) {
        if self.shutdown() {
            // SAFETY: no launch uses it any more, and it is dropped only here.
            unsafe { ManuallyDrop::drop(&mut self.held) };
        } else {
            tracing::error!("launches are still running: what they use is leaked");
        }
    }
}
