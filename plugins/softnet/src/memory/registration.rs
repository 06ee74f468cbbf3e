//! Registered memory: a range and its kind. Sends and host receives hold on to it while they move
//! bytes.

use std::ffi::c_int;
use std::os::fd::AsFd;
use std::time::Duration;

use tcpx_cuda::{CudaError, CudaGpu, DmaBuf, is_device_range};
use tcpx_devmem::{DevmemError, Nic, TxBinding};
use tcpx_sys::{PTR_CUDA, PTR_HOST, UNPACK_PAGE_BYTES};

use super::nic_source::NicSource;
use super::piece::Piece;
use crate::failure::Failure;
use crate::log;

/// Kind of memory of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// Ordinary memory: receives go where they were posted.
    Host,
    /// Device memory, of a GPU or emulated by ordinary memory: receives go to the bounce region.
    Device,
}

/// Reason why a NIC cannot send memory of a GPU where it is.
#[derive(Debug)]
pub(crate) enum BindError {
    /// The driver does not export it.
    Gpu(CudaError),
    /// The NIC does not take it.
    Nic(DevmemError),
}

/// Registered range of memory, and its kind.
#[derive(Debug)]
pub(crate) struct Registration {
    address: usize,
    bytes: usize,
    kind: MemoryKind,
    /// GPU that was current when CUDA memory was registered.
    gpu: Option<CudaGpu>,
    /// Whether the driver of this GPU must copy what the host reads.
    is_on_gpu: bool,
    /// Present when a NIC sends the memory where it is.
    binding: Option<TxBinding>,
}

impl Registration {
    /// Checks the arguments of `regMr`.
    pub(crate) fn new(address: usize, bytes: i64, ptr_type: c_int) -> Result<Self, Failure> {
        let kind = match ptr_type {
            PTR_HOST => MemoryKind::Host,
            PTR_CUDA => MemoryKind::Device,
            other => {
                log::warn!("unknown mem type {other}");
                return Err(Failure::Internal);
            }
        };
        if kind == MemoryKind::Device && !address.is_multiple_of(UNPACK_PAGE_BYTES) {
            log::warn!("data not aligned: {address:#x}");
            return Err(Failure::Internal);
        }
        let Some(bytes) =
            usize::try_from(bytes).ok().filter(|bytes| address.checked_add(*bytes).is_some())
        else {
            log::warn!("cannot register {bytes} bytes at {address:#x}");
            return Err(Failure::Internal);
        };
        Ok(Self { address, bytes, kind, gpu: None, is_on_gpu: false, binding: None })
    }

    /// Sets the GPU of device memory; `None` for emulated memory. The driver is asked here for the
    /// kind of memory, and not again when the memory is sent.
    pub(crate) fn on_gpu(self, gpu: Option<CudaGpu>) -> Result<Self, CudaError> {
        let (address, bytes) = (self.address as u64, self.bytes as u64);
        let is_on_gpu =
            gpu.as_ref().map_or(Ok(false), |gpu| is_device_range(gpu, address, bytes))?;
        Ok(Self { gpu, is_on_gpu, ..self })
    }

    /// Makes memory of a GPU a dma-buf from which this NIC sends, until the memory is deregistered.
    /// Other memory stays as it is.
    pub(crate) fn bound_to(self, nic: &Nic, deadline: Duration) -> Result<Self, BindError> {
        let Some(gpu) = self.gpu() else { return Ok(self) };
        // The rest of the last page belongs to the range.
        let bytes = self.bytes.next_multiple_of(UNPACK_PAGE_BYTES) as u64;
        let dma_buf = DmaBuf::export(gpu, self.address as u64, bytes).map_err(BindError::Gpu)?;
        // The binding holds the dma-buf from here on.
        let binding = TxBinding::new(nic, dma_buf.as_fd(), deadline).map_err(BindError::Nic)?;
        Ok(Self { binding: Some(binding), ..self })
    }

    /// Returns the place where a NIC finds the memory, if a NIC sends it where it is.
    pub(crate) fn nic_source(&self) -> Option<NicSource> {
        let binding = self.binding.as_ref()?.id();
        Some(NicSource { binding, base: self.address })
    }

    /// Returns the GPU through which the memory must be read; `None` when the host can read it, as
    /// it can pinned memory.
    pub(crate) fn gpu(&self) -> Option<&CudaGpu> {
        self.gpu.as_ref().filter(|_| self.is_on_gpu)
    }

    pub(crate) fn kind(&self) -> MemoryKind {
        self.kind
    }

    /// Returns whether the range lies inside. An empty range lies anywhere.
    pub(crate) fn contains(&self, range: Piece) -> bool {
        let start = range.address().checked_sub(self.address);
        range.len() == 0
            || start.is_some_and(|start| start <= self.bytes && range.len() <= self.bytes - start)
    }
}

#[cfg(test)]
mod tests {
    use tcpx_cuda::{DeviceBuffer, PinnedBuffer};

    use super::*;

    fn piece(address: usize, len: usize) -> Piece {
        Piece::for_tests(address, len)
    }

    #[test]
    fn arguments_are_checked() {
        assert!(Registration::new(4096, 10, PTR_CUDA).is_ok());
        assert!(Registration::new(4097, 10, PTR_CUDA).is_err());
        assert!(Registration::new(4097, 10, PTR_HOST).is_ok());
        assert!(Registration::new(4096, -1, PTR_HOST).is_err());
        assert!(Registration::new(usize::MAX, 2, PTR_HOST).is_err());
        assert!(Registration::new(4096, 10, tcpx_sys::PTR_DMABUF).is_err());
    }

    #[test]
    fn memory_of_a_gpu_is_offered_to_the_nic_and_other_memory_is_not() {
        let Some(gpu) = tcpx_cuda::test_gpu() else { return };
        let nic = Nic::named("lo").expect("every namespace has one");
        let device = DeviceBuffer::new(&gpu, 8192).expect("there is room");
        let pinned = PinnedBuffer::new(&gpu, 8192).expect("there is room");
        let bound = |address: u64, bytes| {
            let registration = Registration::new(address as usize, bytes, PTR_CUDA);
            let registration = registration.expect("good arguments").on_gpu(Some(gpu.clone()));
            registration.expect("it is known").bound_to(&nic, Duration::from_secs(2))
        };
        // The driver exports it, and the loopback sends from no dma-buf.
        let refused = bound(device.address(), 5000).expect_err("no NIC");
        assert!(matches!(refused, BindError::Nic(_)), "{refused:?}");
        let copied = bound(pinned.address(), 5000).expect("it is copied");
        assert_eq!((copied.nic_source(), copied.gpu().is_some()), (None, false));
    }

    #[test]
    fn ranges_must_lie_inside() {
        let registration = Registration::new(1000, 100, PTR_HOST).expect("good arguments");
        for (address, len, inside) in [
            (1000, 100, true),
            (1099, 1, true),
            (1100, 0, true),
            (0, 0, true),
            (999, 1, false),
            (1099, 2, false),
            (1100, 1, false),
            (usize::MAX, 1, false),
        ] {
            assert_eq!(registration.contains(piece(address, len)), inside, "{address}+{len}");
        }
    }
}
