#![allow(unsafe_code)]
//! Marks in streams of a program: what a GPU was given before has been done once the mark is
//! reached.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tcpx_core::{Error, MemoryUnavailable};
use tcpx_cuda::{CudaError, CudaGpu, Event};

use crate::errors::to_python;

/// Handle of the legacy default stream.
const LEGACY: i64 = 1;
/// The program has synchronised by itself.
const NO_SYNCHRONISATION: i64 = -1;
/// Time between two looks at a mark. What a GPU does takes about as long.
const LOOK_EVERY: Duration = Duration::from_micros(20);

/// Mark that was not reached when it was made.
#[pyclass(frozen, module = "tcpx._native")]
pub(crate) struct Mark {
    event: Mutex<Event>,
}

impl Mark {
    /// Makes a mark in a stream, which DLPack's numbers name. `gpu` opens the memory's GPU.
    /// Returns `None` where nothing has to be waited for.
    ///
    /// # Errors
    /// `ValueError` for a number that names no stream; the driver's error.
    pub(crate) fn new(
        stream: Option<i64>,
        gpu: impl FnOnce() -> Result<CudaGpu, CudaError>,
    ) -> PyResult<Option<Self>> {
        let handle = match stream.unwrap_or(LEGACY) {
            NO_SYNCHRONISATION => return Ok(None),
            handle @ 1.. => handle.unsigned_abs(),
            other => {
                return Err(PyValueError::new_err(format!(
                    "stream = {other} names no stream: pass its handle, 1 for the legacy default \
                     stream, 2 for the thread's default stream, or -1 for none"
                )));
            }
        };
        let gpu = match gpu() {
            // A GPU that is emulated has no streams.
            Err(CudaError::NoDriver | CudaError::NoSuchGpu { .. }) if stream.is_none() => {
                return Ok(None);
            }
            opened => opened.map_err(failed)?,
        };
        let event = Event::new(&gpu).map_err(failed)?;
        // SAFETY: default streams are always alive. For others the program vouches, as it does for
        // DLPack's.
        unsafe { event.record_on(handle) }.map_err(failed)?;
        match event.is_done().map_err(failed)? {
            true => Ok(None),
            false => Ok(Some(Self { event: Mutex::new(event) })),
        }
    }

    fn look(&self) -> Result<bool, CudaError> {
        self.event.lock().unwrap_or_else(PoisonError::into_inner).is_done()
    }
}

#[pymethods]
impl Mark {
    /// Returns whether everything before the mark has been done. Raises the GPU's error.
    fn is_reached(&self) -> PyResult<bool> {
        self.look().map_err(failed)
    }

    /// Waits for some microseconds. Returns whether the mark is reached. Raises the GPU's error.
    fn wait_briefly(&self, py: Python<'_>, microseconds: u64) -> PyResult<bool> {
        let started_at = Instant::now();
        let limit = Duration::from_micros(microseconds);
        let waited = py.detach(|| {
            while !self.look()? {
                if started_at.elapsed() >= limit {
                    return Ok(false);
                }
                std::thread::sleep(LOOK_EVERY);
            }
            Ok(true)
        });
        waited.map_err(failed)
    }
}

fn failed(error: CudaError) -> PyErr {
    to_python(&Error::MemoryUnavailable(MemoryUnavailable::Cuda(error)))
}
