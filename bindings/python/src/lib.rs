//! Native module of the Python package `tcpx`, over `tcpx-core`.
//!
//! The classes here have no policy: asyncio, peers by address and the objects that programs see are
//! in the package's Python files. What is here keeps memory valid, and lets other threads of Python
//! run while one waits.
//!
//! - `session`: the session, its peers, notifications and events
//! - `operation`: reads, writes, sends and receives under way
//! - `memory`: registered memory, and remote keys
//! - `mark`: what a GPU still has to do before memory is moved
//! - `source`: where the bytes of a Python object lie. `buffer`: objects with the buffer protocol.
//!   `dlpack`: tensors. `place`: contiguous bytes
//! - `shared`: the session as memory and operations share it
//! - `address`: a session's name and connection info, as bytes
//! - `options`: settings of a session
//! - `waiting`: waits with a deadline, which signals end
//! - `errors`: errors as exceptions of the package

mod address;
mod buffer;
mod dlpack;
mod errors;
mod mark;
mod memory;
mod operation;
mod options;
mod place;
mod session;
mod shared;
mod source;
mod waiting;

use pyo3::prelude::*;

/// The module `tcpx._native`.
#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use crate::mark::Mark;
    #[pymodule_export]
    use crate::memory::{Key, Memory};
    #[pymodule_export]
    use crate::operation::Operation;
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::waiting::await_waiters;
}
