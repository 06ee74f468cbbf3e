//! Why an entry did not return success, reduced to the codes that a caller can tell apart.

use tcpx_sys::NcclResult;

/// Code that an entry returns. The function that finds the error decides the code and logs a WARN
/// line; its callers only pass the code up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The call was wrong, or the peer broke the protocol: `ncclInternalError` (3).
    Internal,
    /// The system or the connection failed: `ncclSystemError` (2).
    System,
    /// The CUDA driver refused, or the GPU failed: `ncclUnhandledCudaError` (1).
    Cuda,
}

impl From<Failure> for NcclResult {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Internal => Self::INTERNAL_ERROR,
            Failure::System => Self::SYSTEM_ERROR,
            Failure::Cuda => Self::UNHANDLED_CUDA_ERROR,
        }
    }
}
