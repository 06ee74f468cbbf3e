//! A piece of memory of any kind.

use tcpx_unpack::cuda::{CudaGpu, DeviceBuffer, PinnedBuffer};

pub(crate) enum Memory {
    Ordinary(Box<[u8]>),
    Pinned(PinnedBuffer),
    Device(DeviceBuffer),
}

impl Memory {
    pub(crate) fn ordinary(content: &[u8]) -> Self {
        let mut memory: Box<[u8]> = content.into();
        memory.as_mut_ptr().expose_provenance();
        Self::Ordinary(memory)
    }

    pub(crate) fn pinned(gpu: &CudaGpu, content: &[u8]) -> Self {
        let mut memory = PinnedBuffer::new(gpu, content.len() as u64).unwrap();
        memory.write(0, content).unwrap();
        Self::Pinned(memory)
    }

    pub(crate) fn device(gpu: &CudaGpu, content: &[u8]) -> Self {
        let memory = DeviceBuffer::new(gpu, content.len() as u64).unwrap();
        memory.copy_from_host(0, content).unwrap();
        Self::Device(memory)
    }

    pub(crate) fn address(&self) -> u64 {
        match self {
            Self::Ordinary(memory) => memory.as_ptr().addr() as u64,
            Self::Pinned(memory) => memory.address(),
            Self::Device(memory) => memory.address(),
        }
    }

    /// The first `bytes` bytes.
    pub(crate) fn content(&self, bytes: u64) -> Vec<u8> {
        let mut content = vec![0; bytes as usize];
        match self {
            Self::Ordinary(memory) => content.copy_from_slice(&memory[..bytes as usize]),
            Self::Pinned(memory) => memory.read(0, &mut content).unwrap(),
            Self::Device(memory) => memory.copy_to_host(0, &mut content).unwrap(),
        }
        content
    }
}
