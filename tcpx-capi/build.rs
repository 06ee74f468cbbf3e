//! Gives the shared library its soname and keeps it from being linked or unloaded half-way.

#[path = "src/abi.rs"]
#[allow(unreachable_pub, reason = "public in the library")]
mod abi;

fn main() {
    println!("cargo:rerun-if-changed=src/abi.rs");
    let soname = format!("libtcpx_p2p.so.{}", abi::TCPX_ABI_VERSION);
    for argument in [
        format!("-Wl,-soname,{soname}"),
        // Whatever the library needs is named at link time: nothing of CUDA, nothing forgotten.
        "-Wl,-z,defs".to_owned(),
        "-Wl,-z,text".to_owned(),
        "-Wl,-z,relro,-z,now".to_owned(),
        // Threads of the library outlive a dlclose: unloading their code would end the program.
        "-Wl,-z,nodelete".to_owned(),
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
