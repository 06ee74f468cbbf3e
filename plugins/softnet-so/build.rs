//! Names the library in its `soname` as plugins are named, with hyphens. Cargo's name for it cannot
//! have any. And marks it as one that is never unloaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnccl-net-tcpx-soft.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
