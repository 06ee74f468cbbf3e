#![allow(unsafe_code)]
//! Registered memory of a Python object, and keys to memory of peers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tcpx_core::{
    Access, Device, Error, ExportOptions, MemoryAddress, MemoryId, RegistrationProblem,
    RemoteAccess, RemoteKey,
};

use crate::errors::{closed, read_only, to_python};
use crate::mark::Mark;
use crate::place::Place;
use crate::shared::Shared;
use crate::source::Source;

/// Registration of an object's bytes with a session. The object is kept until nothing of the
/// session or of a peer touches the bytes any more.
pub(crate) struct Registration {
    shared: Arc<Shared>,
    pub(crate) id: MemoryId,
    pub(crate) place: Place,
    is_over: AtomicBool,
    /// Taken out, and forgotten, when the session does not let go of the bytes.
    source: Option<Source>,
}

impl Registration {
    /// Registers the bytes of an object.
    ///
    /// # Errors
    /// Those of the session.
    pub(crate) fn new(py: Python<'_>, shared: &Arc<Shared>, source: Source) -> PyResult<Self> {
        let place = source.place;
        let access = if place.is_read_only { Access::ReadOnly } else { Access::ReadWrite };
        let address = MemoryAddress::from_device(place.address);
        let registered = py.detach(|| {
            // SAFETY: `source` keeps the bytes valid, and is dropped only after the session has
            // let go of them: see `Drop`. They are writable unless they say that they are not. As
            // for other users of the bytes, the package asks the same of programs.
            unsafe { shared.session.register_memory(address, place.bytes, place.device, access) }
        });
        let id = registered.map_err(|error| to_python(&error))?;
        let shared = Arc::clone(shared);
        Ok(Self { shared, id, place, is_over: AtomicBool::new(false), source: Some(source) })
    }

    /// Waits until nothing touches the bytes, and forgets the registration.
    fn end(&self) -> Result<(), Error> {
        if self.is_over.load(Ordering::Acquire) {
            return Ok(());
        }
        match self.shared.session.deregister_memory(self.id) {
            // Nothing of the session runs in a forked child.
            Ok(()) | Err(Error::UnknownRegistration { .. } | Error::Forked) => {}
            Err(_) if self.shared.is_settled() => {}
            Err(error) => return Err(error),
        }
        self.is_over.store(true, Ordering::Release);
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Threads of Python go on while the session lets go of the bytes.
        let ended = Python::try_attach(|py| py.detach(|| self.end().is_ok()));
        if ended != Some(true) {
            // Something may still use the bytes, or the interpreter has ended: they stay.
            std::mem::forget(self.source.take());
        }
    }
}

/// Registered memory, as the package's `Buffer` holds it.
#[pyclass(frozen, module = "tcpx._native")]
pub(crate) struct Memory {
    registration: Mutex<Option<Arc<Registration>>>,
    place: Place,
}

impl Memory {
    pub(crate) fn new(registration: Registration) -> Self {
        let place = registration.place;
        Self { registration: Mutex::new(Some(Arc::new(registration))), place }
    }

    /// Returns the registration, for an operation that uses it.
    ///
    /// # Errors
    /// `Closed` after [`close`](Self::close).
    pub(crate) fn registration(&self) -> PyResult<Arc<Registration>> {
        let held = self.registration.lock().unwrap_or_else(PoisonError::into_inner);
        held.clone().ok_or_else(closed)
    }
}

#[pymethods]
impl Memory {
    /// Number of bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.place.bytes
    }

    #[getter]
    fn readonly(&self) -> bool {
        self.place.is_read_only
    }

    /// "host", or "gpu0" and so on.
    #[getter]
    fn device(&self) -> String {
        self.place.device.to_string()
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.registration.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Raises `BadMemory` for memory that nothing can be received into.
    fn check_writable(&self) -> PyResult<()> {
        if self.place.is_read_only { Err(read_only()) } else { Ok(()) }
    }

    /// Raises `BadMemory` for memory that the session neither sends nor receives by tag.
    fn check_tagged(&self) -> PyResult<()> {
        let Device::Gpu(gpu) = self.place.device else { return Ok(()) };
        let registration = self.registration()?;
        if !registration.shared.session.options().all_devices {
            return Ok(());
        }
        let problem = RegistrationProblem::GpuByTag { gpu };
        Err(to_python(&Error::Registration { id: Some(registration.id), problem }))
    }

    /// Makes a mark in a stream of the memory's GPU. Returns None for memory of the host, and where
    /// nothing has to be waited for.
    fn mark(&self, py: Python<'_>, stream: Option<i64>) -> PyResult<Option<Mark>> {
        let Device::Gpu(ordinal) = self.place.device else { return Ok(None) };
        let registration = self.registration()?;
        py.detach(|| Mark::new(stream, || registration.shared.gpu(ordinal)))
    }

    /// Exports the memory, and returns the key as bytes.
    fn export(&self, can_read: bool, can_write: bool) -> PyResult<Vec<u8>> {
        let registration = self.registration()?;
        let access = match (can_read, can_write) {
            (true, true) => RemoteAccess::ReadWrite,
            (false, true) => RemoteAccess::Write,
            (_, false) => RemoteAccess::Read,
        };
        let options = ExportOptions::new(access);
        let key = registration.shared.session.export(registration.id, options);
        Ok(key.map_err(|error| to_python(&error))?.serialize().to_vec())
    }

    /// Takes the memory back from peers and from operations, and waits until nothing touches it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Ok(registration) = self.registration() else { return Ok(()) };
        py.detach(|| registration.end()).map_err(|error| to_python(&error))?;
        let held = self.registration.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop((registration, held));
        Ok(())
    }
}

/// Key to memory of a peer.
#[pyclass(frozen, module = "tcpx._native")]
pub(crate) struct Key(pub(crate) RemoteKey);

#[pymethods]
impl Key {
    /// Reads what `Memory.export` has returned.
    #[new]
    fn new(descriptor: &[u8]) -> PyResult<Self> {
        RemoteKey::deserialize(descriptor).map(Self).map_err(|error| to_python(&error.into()))
    }

    /// Number of bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.0.bytes()
    }

    /// "read", "write" or "read-write".
    #[getter]
    fn access(&self) -> &'static str {
        match self.0.access() {
            RemoteAccess::Read => "read",
            RemoteAccess::Write => "write",
            RemoteAccess::ReadWrite => "read-write",
        }
    }

    /// Bytes by which the session that exports it is known, whatever the device.
    #[getter]
    fn owner<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, owner_of(&self.0.session))
    }
}

/// Returns the part of a session's id that all its devices have in common.
pub(crate) fn owner_of(session: &[u8; 16]) -> &[u8] {
    &session[..14]
}
