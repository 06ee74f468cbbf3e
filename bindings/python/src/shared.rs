//! Session as memory and operations share it. They outlive the object that Python calls the
//! session.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use tcpx_core::Session;

use crate::errors::to_python;

/// Session, and whether it was closed.
pub(crate) struct Shared {
    pub(crate) session: Session,
    is_closed: AtomicBool,
}

impl Shared {
    pub(crate) fn new(session: Session) -> Self {
        Self { session, is_closed: AtomicBool::new(false) }
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
