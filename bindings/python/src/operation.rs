//! Reads, writes, sends and receives under way.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use tcpx_core::{Error, OperationStatus, Result, Transfer};

use crate::errors::to_python;
use crate::memory::Registration;
use crate::waiting;

/// What the session carries out.
pub(crate) enum Work {
    /// Read or write of a peer's memory.
    OneSided(tcpx_core::Operation),
    /// Send or receive by tag.
    Tagged(Transfer),
}

impl Work {
    /// Returns whether it has ended without error.
    fn has_ended(&self) -> Result<bool> {
        match self {
            Self::OneSided(operation) => match operation.status() {
                OperationStatus::Failed(error) => Err(error),
                status => Ok(matches!(status, OperationStatus::Done)),
            },
            Self::Tagged(transfer) => transfer.is_complete(),
        }
    }

    fn wait(&self, time: Duration) -> Result<()> {
        match self {
            Self::OneSided(operation) => operation.wait(Some(time)),
            Self::Tagged(transfer) => transfer.wait(Some(time)),
        }
    }
}

/// Operation that was posted. It keeps the memory that it uses.
#[pyclass(frozen, module = "tcpx._native")]
pub(crate) struct Operation {
    // First: what is given up no longer uses the memory when this is taken back.
    work: Work,
    memory: Mutex<Vec<Arc<Registration>>>,
}

impl Operation {
    pub(crate) fn new(work: Work, memory: Vec<Arc<Registration>>) -> Self {
        Self { work, memory: Mutex::new(memory) }
    }
}

#[pymethods]
impl Operation {
    /// Returns whether the operation has ended; raises the error with which it has.
    fn has_ended(&self) -> PyResult<bool> {
        self.work.has_ended().map_err(|error| to_python(&error))
    }

    /// Waits until the operation has ended, for at most `timeout` seconds or without limit.
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        waiting::wait(py, timeout, |time| self.work.wait(time))
    }

    /// Waits for some microseconds. Returns whether the operation has ended, in whatever way.
    fn wait_briefly(&self, py: Python<'_>, microseconds: u64) -> bool {
        let time = Duration::from_micros(microseconds);
        let waited = py.detach(|| self.work.wait(time));
        !matches!(waited, Err(Error::Deadline { .. }))
    }

    /// Gives the operation up. It ends some time later.
    fn cancel(&self) -> PyResult<()> {
        match &self.work {
            Work::OneSided(operation) => operation.cancel().map_err(|error| to_python(&error)),
            Work::Tagged(transfer) => {
                transfer.cancel();
                Ok(())
            }
        }
    }

    /// Lets go of the memory of an operation that has ended.
    fn release(&self) {
        let memory =
            std::mem::take(&mut *self.memory.lock().unwrap_or_else(PoisonError::into_inner));
        drop(memory);
    }
}
