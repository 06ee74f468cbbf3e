//! When it pays to copy scattered small messages together, so that they share a chunk. Pure.

use crate::plans::gathering::Gathering;
use crate::types::MemoryType;

/// Longest segment that the CPU copies: about there the copy costs what a request of its own does.
const CPU_SEGMENT_BYTES: u64 = 16 << 10;
/// Fewest segments that the CPU copies together.
const CPU_SEGMENTS: usize = 2;
/// Fewest segments that a GPU copies together: a launch takes as long as so many requests do
/// (measured; BENCHMARKS.md).
const GPU_SEGMENTS: usize = 12;

/// What copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copier {
    /// By the CPU.
    Cpu,
    /// A kernel that takes any number of pieces.
    Gpu,
}

impl Gathering {
    /// Segments are so short that those of a full chunk are always worth it: what is gathered never
    /// falls apart for want of room.
    fn by(copier: Copier, chunk_bytes: u32) -> Self {
        let (segments, longest) = match copier {
            Copier::Cpu => (CPU_SEGMENTS, CPU_SEGMENT_BYTES),
            Copier::Gpu => (GPU_SEGMENTS, u64::MAX),
        };
        let share = u64::from(chunk_bytes) / segments as u64;
        Self { segment_bytes: longest.min(share), segments }
    }
}

/// What may share a chunk.
#[derive(Clone, Copy, Debug)]
pub struct CoalescingLimits {
    /// Most bytes of a chunk.
    pub chunk_bytes: u32,
    host: Option<Gathering>,
    device: Option<Gathering>,
}

impl CoalescingLimits {
    /// Only neighbours share a chunk.
    pub fn in_place(chunk_bytes: u32) -> Self {
        Self { chunk_bytes, host: None, device: None }
    }

    /// Host memory is copied by the CPU; device memory by what is given, if that can do it quickly
    /// enough.
    pub fn gathering(chunk_bytes: u32, device: Option<Copier>) -> Self {
        let host = Some(Gathering::by(Copier::Cpu, chunk_bytes));
        Self { chunk_bytes, host, device: device.map(|copier| Gathering::by(copier, chunk_bytes)) }
    }

    /// What is gathered of this kind of memory, if anything.
    pub(super) fn of(&self, memory: MemoryType) -> Option<Gathering> {
        match memory {
            MemoryType::Host => self.host,
            MemoryType::Device => self.device,
        }
    }
}
