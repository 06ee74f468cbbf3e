//! Stream of copies by the driver whose submits are tickets.

use tcpx_cuda::{CudaError, CudaGpu, MarkedStream};

use crate::error::UnpackError;
use crate::ticket::Ticket;

/// Largest number of submits in flight: 16 channels of 16 requests, each a submit of its own.
const MOST_UNDER_WAY: u64 = 256;

/// Stream of copies, with a mark behind each submit. The number of the mark is the ticket.
pub(crate) struct CopyStream {
    gpu: CudaGpu,
    stream: MarkedStream,
    failure: Option<UnpackError>,
}

impl CopyStream {
    pub(crate) fn new(gpu: &CudaGpu) -> Result<Self, CudaError> {
        Ok(Self { gpu: gpu.clone(), stream: MarkedStream::new(gpu)?, failure: None })
    }

    /// Runs `queue`, which puts one submit's copies on the stream, and marks its end.
    ///
    /// A failure is permanent, because part of the submit may be in flight without a mark behind
    /// it.
    pub(crate) fn submit(
        &mut self,
        queue: impl FnOnce(&mut MarkedStream) -> Result<(), UnpackError>,
    ) -> Result<Ticket, UnpackError> {
        self.health()?;
        if self.is_full() {
            self.poll()?;
            if self.is_full() {
                return Err(UnpackError::Busy);
            }
        }
        let queued = {
            let _entered = self.gpu.enter()?;
            queue(&mut self.stream).and_then(|()| Ok(self.stream.mark()?))
        };
        queued.map(Ticket::new).map_err(|error| self.fail(error))
    }

    /// Returns the newest finished ticket.
    pub(crate) fn poll(&mut self) -> Result<Ticket, UnpackError> {
        self.health()?;
        self.stream.reached().map(Ticket::new).map_err(|error| self.fail(error.into()))
    }

    fn is_full(&self) -> bool {
        self.stream.under_way() >= MOST_UNDER_WAY
    }

    fn health(&self) -> Result<(), UnpackError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: UnpackError) -> UnpackError {
        tracing::error!(%error, "unpacking stopped");
        self.failure = Some(error.clone().without_job());
        error
    }

    /// Refuses all later submits. Returns whether no copy uses memory any more. Never blocks.
    pub(crate) fn shutdown(&mut self) -> bool {
        self.failure.get_or_insert(UnpackError::ShutDown);
        self.stream.is_over()
    }
}
