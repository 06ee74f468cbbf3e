#![allow(unsafe_code)]
//! Program that has loaded the plugin: NCCL, or one that drives the v7 table by itself.
//!
//! Both find the same symbol, `ncclNetPlugin_v7`, and want different things of it. The logger that
//! `init` gets tells them apart: NCCL's lies in a library that says NCCL's version.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use tcpx_sys::Logger;

/// The table whose `init` was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    V7,
    V8,
    V9,
    V10,
}

impl Table {
    /// The first release of NCCL that takes this table; none of v7, which others take as well.
    fn since(self) -> Option<u32> {
        match self {
            Self::V7 => None,
            Self::V8 => Some(22_003),
            Self::V9 => Some(22_403),
            Self::V10 => Some(22_602),
        }
    }
}

/// Caller of `init`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// NCCL, of this version at least: 10000 × major + 100 × minor + patch.
    Nccl { version: u32 },
    /// A program that knows what the original asks of its callers: a session of tcpx, for one.
    Program,
}

impl Caller {
    /// Only NCCL has a use for the tables after v7. One that is part of a program and shows none of
    /// its functions is as old as its table allows.
    pub(super) fn of(logger: Logger, table: Table) -> Self {
        match nccl_version(logger).or(table.since()) {
            Some(version) => Self::Nccl { version },
            None => Self::Program,
        }
    }
}

/// Returns the version of NCCL that the library of this logger states, if it is NCCL.
fn nccl_version(logger: Logger) -> Option<u32> {
    let library = library_of(logger as *const c_void)?;
    // SAFETY: the path is NUL-terminated; with this flag nothing is loaded, and no constructor
    // runs. What is found is loaded already.
    let handle = unsafe { libc::dlopen(library.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: the handle is open, and the name NUL-terminated.
    let symbol = unsafe { libc::dlsym(handle, c"ncclGetVersion".as_ptr()) };
    let own = library_of(symbol).is_some_and(|found| found.dli_fbase == library.dli_fbase);
    let version = (own && !symbol.is_null()).then(|| {
        let mut version = 0;
        // SAFETY: the symbol is NCCL's function of this name, which has this type in all its
        // releases. The library that the symbol lies in called `init` with a logger of its own.
        let asked = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(symbol)
        };
        // SAFETY: as above; the output is a live variable.
        if unsafe { asked(&raw mut version) } == 0 { version } else { 0 }
    });
    // SAFETY: opened above; the program that loaded the library keeps it.
    unsafe { libc::dlclose(handle) };
    u32::try_from(version?).ok()
}

/// The library, or the program, that an address lies in.
fn library_of(address: *const c_void) -> Option<libc::Dl_info> {
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: any address may be asked about; the output is large enough.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    if found == 0 {
        return None;
    }
    // SAFETY: an answer other than 0 says that it was filled in.
    let info = unsafe { info.assume_init() };
    (!info.dli_fname.is_null()).then_some(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logger_of_this_program_is_not_nccls() {
        let logger = tcpx_sys::log_callback();
        assert!(library_of(logger as *const c_void).is_some());
        assert_eq!(nccl_version(logger), None);
        assert_eq!(Caller::of(logger, Table::V7), Caller::Program);
        assert_eq!(Caller::of(logger, Table::V9), Caller::Nccl { version: 22_403 });
    }
}
