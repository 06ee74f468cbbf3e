#![allow(unsafe_code)]
//! What unpacks after a failure: nothing, and every call says why.

use tcpx_unpack::{Backend, Ticket, Unpack, UnpackError, UnpackJob};

pub(super) struct Stopped {
    pub(super) backend: Backend,
    pub(super) failure: UnpackError,
}

impl Unpack for Stopped {
    fn backend(&self) -> Backend {
        self.backend
    }

    unsafe fn submit(&mut self, _: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
        Err(self.failure.clone())
    }

    fn poll(&mut self) -> Result<Ticket, UnpackError> {
        Err(self.failure.clone())
    }

    fn shutdown(&mut self) -> bool {
        true
    }
}
