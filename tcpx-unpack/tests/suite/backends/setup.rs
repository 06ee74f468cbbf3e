#![expect(clippy::print_stderr, reason = "a test that skips says why")]
//! A backend, and the memories it is tried on.

use std::fmt;

use tcpx_cuda::test_gpu;
use tcpx_unpack::cuda::CudaGpu;
use tcpx_unpack::{Backend, Choice, MemoryKind, Unpack, open_with_threads};

use super::any_memory::Memory;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BounceKind {
    Device,
    Pinned,
    /// Host memory that the driver does not know: its copies read it, the kernel cannot.
    Ordinary,
}

pub(crate) struct Setup {
    choice: Choice,
    bounce: BounceKind,
    /// GPU of the unpacker and the destination.
    gpu: Option<CudaGpu>,
    /// GPU of a bounce buffer of device memory.
    bounce_gpu: Option<CudaGpu>,
    copy_threads: usize,
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.gpu.is_some() { "GPU" } else { "host" };
        write!(f, "{} backend from {:?} memory to {place} memory", self.choice, self.bounce)?;
        write!(f, ", {} threads", self.copy_threads)
    }
}

impl Setup {
    /// The kernel of `gpu`, from device memory of `bounce_gpu`.
    pub(crate) fn kernel(bounce_gpu: &CudaGpu, gpu: &CudaGpu) -> Self {
        Self {
            choice: Choice::Kernel,
            bounce: BounceKind::Device,
            gpu: Some(gpu.clone()),
            bounce_gpu: Some(bounce_gpu.clone()),
            copy_threads: 0,
        }
    }

    pub(crate) fn open(&self) -> Box<dyn Unpack> {
        let memory = match &self.gpu {
            Some(gpu) => MemoryKind::Cuda { gpu: gpu.ordinal() },
            None => MemoryKind::Host,
        };
        let opened = open_with_threads(self.choice, memory, self.copy_threads).unwrap();
        let expected = self.choice.backend().unwrap_or(Backend::Kernel);
        assert_eq!(opened.unpack.backend(), expected);
        opened.unpack
    }

    pub(crate) fn bounce(&self, content: &[u8]) -> Memory {
        match (&self.bounce_gpu, self.bounce) {
            (Some(gpu), BounceKind::Device) => Memory::device(gpu, content),
            (Some(gpu), BounceKind::Pinned) => Memory::pinned(gpu, content),
            _ => Memory::ordinary(content),
        }
    }

    pub(crate) fn destination(&self, bytes: u64, poison: u8) -> Memory {
        let content = vec![poison; bytes as usize];
        match &self.gpu {
            Some(gpu) => Memory::device(gpu, &content),
            None => Memory::ordinary(&content),
        }
    }
}

/// The caller copies, one thread, or several.
pub(crate) fn ordinary_setups() -> [Setup; 3] {
    [0, 1, 3].map(|copy_threads| Setup {
        choice: Choice::Host,
        bounce: BounceKind::Ordinary,
        gpu: None,
        bounce_gpu: None,
        copy_threads,
    })
}

/// Every choice on every kind of bounce buffer, or nothing where there is no GPU.
pub(crate) fn gpu_setups() -> Vec<Setup> {
    let Some(gpu) = test_gpu() else { return Vec::new() };
    let mut setups = Vec::new();
    for choice in [Choice::Host, Choice::D2d, Choice::Kernel, Choice::Auto] {
        for bounce in [BounceKind::Device, BounceKind::Pinned, BounceKind::Ordinary] {
            setups.push(Setup { choice, bounce, ..Setup::kernel(&gpu, &gpu) });
        }
    }
    setups
}

/// The first two GPUs. A test that needs two skips on one: no lane promises more.
pub(crate) fn two_gpus() -> Option<[CudaGpu; 2]> {
    let first = test_gpu()?;
    match CudaGpu::open(1) {
        Ok(second) => Some([first, second]),
        Err(error) => {
            eprintln!("the test with two GPUs is skipped: {error}");
            None
        }
    }
}
