//! Reason why a NIC gets no memory of a GPU.

use tcpx_cuda::CudaError;
use tcpx_devmem::DevmemError;

/// Returns the error for what the driver has said about memory of this GPU.
pub(crate) fn gpu_refusal(gpu: u32, error: &CudaError) -> DevmemError {
    let why = match error {
        CudaError::NoExport { why, .. } => (*why).to_owned(),
        other => other.to_string(),
    };
    DevmemError::GpuMemory { gpu, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gpu_is_named_once() {
        let said = gpu_refusal(1, &CudaError::NoExport { gpu: 1, why: "it is old" });
        assert_eq!(said.to_string(), "memory of GPU 1 cannot be handed to a NIC: it is old");
        assert_eq!(said.diagnosis().map(|it| it.code.number()), Some(433));
        let said = gpu_refusal(0, &CudaError::NoDriver).to_string();
        assert!(said.ends_with("libcuda.so.1 cannot be loaded"), "{said}");
    }
}
