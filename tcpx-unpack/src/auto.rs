#![allow(unsafe_code)]
//! Backend that `auto` opens on a GPU: the kernel, and a copy by the driver for a batch that is one
//! short piece from or to host memory.
//!
//! The copy engine has such a piece in place 3 µs sooner than a kernel, which is a tenth of half a
//! round trip of 4 KiB. The kernel is the better copier of all else: of many pieces, because each
//! copy costs the CPU 2 µs, of longer pieces, and of pieces in the GPU's own memory
//! (docs/benchmarks/2026-11-28-gpu-streams.md).

use std::collections::VecDeque;

use tcpx_cuda::{CudaGpu, is_host_memory};

use crate::bounce_memo::BounceMemo;
use crate::choice::Backend;
use crate::d2d::D2dUnpack;
use crate::error::UnpackError;
use crate::job::UnpackJob;
use crate::kernel::KernelUnpack;
use crate::staged::is_host;
use crate::ticket::Ticket;
use crate::unpack::Unpack;

/// Longest piece that the engine copies. With pieces of 512 KiB, messages of 4 and 16 MiB were
/// slower by a tenth.
const SHORT_BYTES: u64 = 64 << 10;
/// Submits under way for which there is room from the start.
const UNDER_WAY: usize = 1024;

/// Backend that chooses a copier for each batch.
pub(crate) struct AutoUnpack {
    gpu: CudaGpu,
    kernel: KernelUnpack,
    engine: D2dUnpack,
    /// Whether each bounce buffer is host memory.
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
        let Some(job) = short_piece(jobs) else { return Ok(Copier::Kernel) };
        let _entered = self.gpu.enter()?;
        let is_host =
            is_host(&mut self.hosts, &self.gpu, job.bounce)? || is_host_memory(&self.gpu, job.dst)?;
        Ok(if is_host { Copier::Engine } else { Copier::Kernel })
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

/// Returns the job of a batch that is one short piece.
fn short_piece<'a, 'b>(jobs: &'a [UnpackJob<'b>]) -> Option<&'a UnpackJob<'b>> {
    let [job] = jobs else { return None };
    let [piece] = job.descriptors else { return None };
    (u64::from(piece.len) <= SHORT_BYTES).then_some(job)
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
    fn one_short_piece_is_for_the_engine() {
        let piece = |len| UnpackDescriptor { src_off: 0, len, dst_off: 0 };
        let [short, long] = [[piece(SHORT_BYTES as u32)], [piece(SHORT_BYTES as u32 + 1)]];
        let two = [piece(1), piece(1)];
        let job = |descriptors| UnpackJob::new(descriptors);
        assert!(short_piece(&[job(&short)]).is_some());
        for jobs in [vec![], vec![job(&[])], vec![job(&long)], vec![job(&two)]] {
            assert!(short_piece(&jobs).is_none(), "{jobs:?}");
        }
        assert!(short_piece(&[job(&short), job(&short)]).is_none());
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
