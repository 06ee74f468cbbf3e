//! Backend for NIXL, as the NIXLs of this machine would find it.
//!
//! - `installed`: the NIXLs of this machine, and their folders of backends. `backend_file`: facts
//!   about a backend's file, which is not loaded. `symbol_versions`: versions that a library
//!   requires and defines; `libraries`: the libraries of this system. `check`: the findings.

mod backend_file;
mod check;
mod installed;
mod libraries;
mod symbol_versions;

pub(crate) use check::check;
