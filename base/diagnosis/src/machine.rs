//! One machine, as the checks see it.
//!
//! - `tree`: its files, below a root directory that a test may choose.
//! - `facts`: what the checks must ask because no file contains it. `live`: this machine's answers.
//! - `host`: files, environment and facts together.
//! - `mount`: the file system of a path. `library_path`: the dynamic linker's search path.

pub(crate) mod facts;
pub(crate) mod host;
pub(crate) mod library_path;
pub(crate) mod live;
pub(crate) mod mount;
pub(crate) mod tree;
