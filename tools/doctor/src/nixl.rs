//! The backend for NIXL, as a NIXL of this machine would find it.
//!
//! - `installed`: which NIXL there is, and where each looks for backends. `backend_file`: what a
//!   file says of itself, without being loaded. `symbol_versions`: what a library needs and has;
//!   `libraries`: those of this system. `check`: what is wrong.

mod backend_file;
mod check;
mod installed;
mod libraries;
mod symbol_versions;

pub(crate) use check::check;
