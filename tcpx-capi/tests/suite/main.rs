//! C and C++ programs against the header and the library: they compile, run, and survive being
//! wrong.

mod as_the_original;
mod docs;
mod fork;
mod header;
mod misuse;
mod plugin_api;
mod program;
mod programs;
mod readme;
mod symbols;
mod toolchain;
