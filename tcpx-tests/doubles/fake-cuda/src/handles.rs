//! Handles: numbers that stand for objects of the driver. None is used twice.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::CUresult;

use crate::status::Result;

/// Handles up to this one are the default streams, which programs name by number.
pub(crate) const DEFAULT_STREAMS: usize = 2;

/// Objects of one type, by handle. A handle is never NULL and never an address.
#[derive(Debug)]
pub(crate) struct Handles<T>(Mutex<(usize, BTreeMap<usize, Arc<T>>)>);

impl<T> Handles<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new((DEFAULT_STREAMS, BTreeMap::new())))
    }

    fn lock(&self) -> MutexGuard<'_, (usize, BTreeMap<usize, Arc<T>>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert<H>(&self, object: Arc<T>) -> *mut H {
        let mut known = self.lock();
        known.0 += 1;
        let handle = known.0;
        known.1.insert(handle, object);
        ptr::without_provenance_mut(handle)
    }

    pub(crate) fn get<H>(&self, handle: *mut H) -> Result<Arc<T>> {
        let found = self.lock().1.get(&handle.addr()).cloned();
        found.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    pub(crate) fn remove<H>(&self, handle: *mut H) -> Result<Arc<T>> {
        self.lock().1.remove(&handle.addr()).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    /// Drops what is not to be kept.
    pub(crate) fn retain(&self, keep: impl Fn(&T) -> bool) {
        self.lock().1.retain(|_, object| keep(object));
    }
}
