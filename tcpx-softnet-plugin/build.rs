//! Names the library as plugins are named: Cargo has no hyphens in library names, the loader's
//! `soname` does.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnccl-net-tcpx-soft.so");
}
