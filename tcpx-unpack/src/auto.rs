#![allow(unsafe_code)]
//! Backend that `auto` opens on a GPU: the kernel, and copies by the driver for a batch of a few
//! short pieces from or to host memory.
//!
//! The copy engine has such a piece in place 3 µs sooner than a kernel, which is a tenth of half a
//! round trip of 4 KiB, and waits for no kernels of others: those of two processes that use a GPU
//! take turns (docs/benchmarks/2026-11-29-gpu-shared.md). The kernel is the better copier of all
//! else: of many pieces, because each copy costs the CPU 2 µs, of longer pieces, and of pieces in
//! the GPU's own memory (docs/benchmarks/2026-11-28-gpu-streams.md).

use std::collections::VecDeque;

use tcpx_cuda::{CudaError, CudaGpu};

use crate::bounce_memo::BounceMemo;
use crate::choice::Backend;
use crate::d2d::D2dUnpack;
use crate::error::UnpackError;
use crate::job::UnpackJob;
use crate::kernel::KernelUnpack;
use crate::staged::is_host;
use crate::ticket::Ticket;
use crate::unpack::Unpack;

/// Longest piece that the engine copies. With pieces of 256 KiB, messages of 1 and 4 MiB were
/// slower by a tenth, in a process that has the GPU to itself.
const SHORT_BYTES: u64 = 128 << 10;
/// Largest number of pieces that the engine copies.
const FEW_PIECES: usize = 16;
/// Submits under way for which there is room from the start.
const UNDER_WAY: usize = 1024;

/// Backend that chooses a copier for each batch.
pub(crate) struct AutoUnpack {
    gpu: CudaGpu,
    kernel: KernelUnpack,
    engine: D2dUnpack,
    /// Whether each buffer is host memory, from or to which something was copied.
    hosts: BounceMemo<bool>,
    order: SubmitOrder,
}

impl AutoUnpack {
    /// Loads the kernel and checks that it works. The error is a reason for people to read.
    pub(crate) fn new(gpu: &CudaGpu) -> Result<Self, String> {
        Ok(Self {
            gpu: gpu.clone(),
            kernel: KernelUnpack::new(gpu)?,
            engine: D2dUnpack::new(gpu).map_err(|error| error.to_string())?,
            hosts: BounceMemo::new(),
            order: SubmitOrder::new(),
        })
    }

    fn choose(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Copier, UnpackError> {
        if !are_few_and_short(jobs) {
            return Ok(Copier::Kernel);
        }
        for job in jobs {
            if !self.uses_host(job)? {
                return Ok(Copier::Kernel);
            }
        }
        Ok(Copier::Engine)
    }

    /// Returns whether a job copies from or to host memory. The driver, which may wait for another
    /// thread of the program, is asked at the first sight of a bounce buffer.
    fn uses_host(&mut self, job: &UnpackJob<'_>) -> Result<bool, CudaError> {
        let [bounce, dst] = [job.bounce, job.dst].map(|end| self.hosts.get(end));
        if let Some(known) = known_use(bounce, dst) {
            return Ok(known);
        }
        Ok(is_host(&mut self.hosts, &self.gpu, job.bounce)?
            || is_host(&mut self.hosts, &self.gpu, job.dst)?)
    }
}

impl Unpack for AutoUnpack {
    fn backend(&self) -> Backend {
        Backend::Kernel
    }

    unsafe fn submit(&mut self, jobs: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
        let copier = self.choose(jobs)?;
        // SAFETY: passed on from the caller: `poll` reaches the ticket that this returns once the
        // copier has reached its own, and `shutdown` asks both copiers.
        let ticket = unsafe {
            match copier {
                Copier::Kernel => self.kernel.submit(jobs),
                Copier::Engine => self.engine.submit(jobs),
            }
        }?;
        Ok(self.order.submitted(copier, ticket))
    }

    fn poll(&mut self) -> Result<Ticket, UnpackError> {
        let (kernel, engine) = (self.kernel.poll()?, self.engine.poll()?);
        Ok(self.order.finished(|copier| match copier {
            Copier::Kernel => kernel,
            Copier::Engine => engine,
        }))
    }

    fn shutdown(&mut self) -> bool {
        let [kernel, engine] = [self.kernel.shutdown(), self.engine.shutdown()];
        kernel && engine
    }
}

/// Returns whether a job uses host memory, by what is known of its ends. `None`: nothing is known
/// of its bounce buffer. Of a place in memory of the program nothing may be known, and each may be
/// another one: so that alone is no reason to ask.
fn known_use(bounce: Option<bool>, dst: Option<bool>) -> Option<bool> {
    if dst == Some(true) { dst } else { bounce }
}

/// Returns whether a batch is a few short pieces.
fn are_few_and_short(jobs: &[UnpackJob<'_>]) -> bool {
    let mut pieces = jobs.iter().flat_map(|job| job.descriptors);
    let are_short =
        pieces.by_ref().take(FEW_PIECES).all(|piece| u64::from(piece.len) <= SHORT_BYTES);
    are_short && pieces.next().is_none()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copier {
    Kernel,
    Engine,
}

/// Submits to two copiers that each finish theirs in order, as one order of tickets. Pure.
#[derive(Debug)]
struct SubmitOrder {
    /// Those that are not finished, each with its copier's ticket.
    under_way: VecDeque<(Copier, Ticket)>,
    finished: Ticket,
}

impl SubmitOrder {
    fn new() -> Self {
        Self { under_way: VecDeque::with_capacity(UNDER_WAY), finished: Ticket::NONE }
    }

    /// Adds a submit, and returns its ticket.
    fn submitted(&mut self, copier: Copier, ticket: Ticket) -> Ticket {
        self.under_way.push_back((copier, ticket));
        Ticket::new(self.finished.number() + self.under_way.len() as u64)
    }

    /// Returns the newest ticket that is finished together with all before it. `reached`: how far
    /// each copier is.
    fn finished(&mut self, reached: impl Fn(Copier) -> Ticket) -> Ticket {
        while let Some(&(copier, ticket)) = self.under_way.front()
            && reached(copier) >= ticket
        {
            self.under_way.pop_front();
            self.finished = self.finished.next();
        }
        self.finished
    }
}

#[cfg(test)]
mod tests {
    use tcpx_rx::UnpackDescriptor;

    use super::*;

    #[test]
    fn a_few_short_pieces_are_for_the_engine() {
        let piece = |len| UnpackDescriptor { src_off: 0, len, dst_off: 0 };
        let [short, long] = [[piece(SHORT_BYTES as u32)], [piece(SHORT_BYTES as u32 + 1)]];
        let (half, more) = ([short[0]; FEW_PIECES / 2], [short[0]; FEW_PIECES / 2 + 1]);
        let job = |descriptors| UnpackJob::new(descriptors);
        for jobs in [vec![job(&short)], vec![job(&half), job(&half)]] {
            assert!(are_few_and_short(&jobs), "{jobs:?}");
        }
        for jobs in [vec![job(&long)], vec![job(&short), job(&long)], vec![job(&half), job(&more)]]
        {
            assert!(!are_few_and_short(&jobs), "{jobs:?}");
        }
    }

    #[test]
    fn the_driver_is_asked_about_new_bounce_buffers_alone() {
        for (bounce, dst, known) in [
            (None, None, None),
            (None, Some(false), None),
            (None, Some(true), Some(true)),
            (Some(true), None, Some(true)),
            (Some(false), None, Some(false)),
            (Some(false), Some(false), Some(false)),
            (Some(false), Some(true), Some(true)),
        ] {
            assert_eq!(known_use(bounce, dst), known, "{bounce:?}, {dst:?}");
        }
    }

    #[test]
    fn submits_finish_in_their_order_whichever_copier_is_first() {
        use Copier::{Engine, Kernel};
        let mut order = SubmitOrder::new();
        let made = [(Kernel, 1), (Engine, 1), (Engine, 2), (Kernel, 2), (Kernel, 2)];
        for (index, (copier, own)) in made.into_iter().enumerate() {
            let ticket = order.submitted(copier, Ticket::new(own));
            assert_eq!(ticket, Ticket::new(index as u64 + 1));
        }
        for (kernel, engine, expected) in
            [(0, 0, 0), (0, 2, 0), (1, 0, 1), (1, 1, 2), (1, 2, 3), (1, 2, 3), (2, 2, 5)]
        {
            let reached = |copier| Ticket::new(if copier == Kernel { kernel } else { engine });
            assert_eq!(order.finished(reached), Ticket::new(expected), "{kernel}, {engine}");
        }
        assert_eq!(order.submitted(Engine, Ticket::new(3)), Ticket::new(6));
    }
}
