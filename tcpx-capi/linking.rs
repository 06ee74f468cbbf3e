//! Linker arguments of the shared library, for cargo, whose build script reads this file, and for
//! `cargo xtask install`, which reads it too.

use crate::abi::TCPX_ABI_VERSION;

/// The name by which programs ask for the library.
pub(crate) fn soname() -> String {
    format!("libtcpx_p2p.so.{TCPX_ABI_VERSION}")
}

/// Arguments to the compiler that links, besides the soname.
pub(crate) const ARGUMENTS: [&str; 4] = [
    // Everything that the library needs is named at link time: nothing of CUDA, nothing forgotten.
    "-Wl,-z,defs",
    "-Wl,-z,text",
    "-Wl,-z,relro,-z,now",
    // Threads of the library outlive a dlclose: unloading their code would end the program.
    "-Wl,-z,nodelete",
];
