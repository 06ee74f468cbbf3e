//! Session as memory and operations share it. They outlive the object that Python calls the
//! session.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use tcpx_core::Session;
use tcpx_cuda::{CudaError, CudaGpu};

use crate::errors::to_python;

/// Session, and whether it was closed.
pub(crate) struct Shared {
    pub(crate) session: Session,
    is_closed: AtomicBool,
    /// GPUs in whose streams the program has had marks made.
    gpus: Mutex<BTreeMap<u32, CudaGpu>>,
}

impl Shared {
    pub(crate) fn new(session: Session) -> Self {
        Self { session, is_closed: AtomicBool::new(false), gpus: Mutex::default() }
    }

    /// Returns a GPU, which is held for as long as the session.
    ///
    /// # Errors
    /// Those of [`CudaGpu::open`].
    pub(crate) fn gpu(&self, ordinal: u32) -> Result<CudaGpu, CudaError> {
        let mut gpus = self.gpus.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = gpus.get(&ordinal) {
            return Ok(gpu.clone());
        }
        let gpu = CudaGpu::open(ordinal)?;
        gpus.insert(ordinal, gpu.clone());
        Ok(gpu)
    }

    /// Closes the session, without the interpreter.
    ///
    /// # Errors
    /// Those of the session. It is closed all the same.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = py.detach(|| self.session.close());
        self.is_closed.store(true, Ordering::Release);
        closed.map_err(|error| to_python(&error))
    }

    /// Returns whether the session is over and touches no memory any more.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_closed.load(Ordering::Acquire) && self.session.is_settled()
    }
}
