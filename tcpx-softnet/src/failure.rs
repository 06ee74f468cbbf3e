//! Why an entry did not return success, reduced to the codes that a caller can tell apart.

use tcpx_sys::NcclResult;

/// Decided, and logged as WARN, where the error was found; passed up from there.
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

/// From which request on a comm has failed. Requests are served in order, so one that fails takes all later ones with it;
/// earlier ones still complete.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FirstFailure(Option<(u64, Failure)>);

impl FirstFailure {
    /// Request `from` cannot complete.
    pub(crate) fn note(&mut self, from: u64, failure: Failure) {
        if self.0.is_none_or(|(known, _)| from < known) {
            self.0 = Some((from, failure));
        }
    }

    /// Why request `number` cannot complete, if it cannot.
    pub(crate) fn of(self, number: u64) -> Option<Failure> {
        self.0.filter(|&(from, _)| from <= number).map(|(_, failure)| failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_failure_counts_from_its_request_on() {
        let mut broken = FirstFailure::default();
        assert_eq!(broken.of(u64::MAX), None);
        broken.note(7, Failure::System);
        broken.note(9, Failure::Internal);
        assert_eq!(
            (broken.of(6), broken.of(7), broken.of(9)),
            (None, Some(Failure::System), Some(Failure::System))
        );
        broken.note(3, Failure::Internal);
        assert_eq!((broken.of(2), broken.of(7)), (None, Some(Failure::Internal)));
    }
}
