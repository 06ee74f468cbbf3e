//! Why an entry did not return success, reduced to the codes that a caller can tell apart.

use tcpx_sys::NcclResult;

/// The code that an entry returns. Whoever finds the error decides it and logs a WARN line; the
/// callers only pass it up.
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
