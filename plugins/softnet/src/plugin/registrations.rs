//! Registrations by the ids that callers hold.

use std::ffi::c_void;
use std::sync::Arc;

use super::misuse::misuse;
use super::registry::{Id, IdKind, LookupError, Registry};
use crate::failure::Failure;
use crate::log;
use crate::memory::Registration;

static REGISTRATIONS: Registry<Arc<Registration>, 4096> = Registry::new();

/// Keeps a registration; its id is the caller's.
pub(super) fn insert(registration: Registration) -> Result<*mut c_void, Failure> {
    let id = REGISTRATIONS.insert(Arc::new(registration));
    id.map(|id| id.pointer(IdKind::Registration)).ok_or_else(|| {
        log::warn!("too many registrations");
        Failure::Internal
    })
}

/// Registrations outlive their comm, so the comm is not looked at.
pub(crate) fn deregister(mhandle: *mut c_void) -> Result<(), Failure> {
    if mhandle.is_null() {
        return Ok(());
    }
    let id = Id::from_pointer(mhandle, IdKind::Registration).ok_or(LookupError::Stale);
    // One count is the registry's own; any other is a request that still reads or writes the
    // memory.
    match id.and_then(|id| {
        REGISTRATIONS.remove_if(id, |registration| Arc::strong_count(registration) == 1)
    }) {
        Ok(_) => Ok(()),
        Err(LookupError::Busy) => {
            Err(misuse(format_args!("deregMr: requests in flight use the registration")))
        }
        Err(LookupError::Stale | LookupError::Broken) => {
            Err(misuse(format_args!("deregMr: not a registration, or not any more")))
        }
    }
}

/// The registration that a caller names.
pub(super) fn find(entry: &str, mhandle: *mut c_void) -> Result<Arc<Registration>, Failure> {
    let id = Id::from_pointer(mhandle, IdKind::Registration).ok_or(LookupError::Stale);
    id.and_then(|id| REGISTRATIONS.with(id, |registration| Arc::clone(registration))).map_err(
        |_| {
            if !mhandle.is_null() {
                return misuse(format_args!("{entry}: mhandle is deregistered or foreign"));
            }
            log::warn!("{entry}: mhandle is NULL");
            Failure::Internal
        },
    )
}
