//! Gives the shared library its soname and keeps it from being linked or unloaded half-way.

#[path = "src/abi.rs"]
#[allow(unreachable_pub, reason = "public in the library")]
mod abi;
mod linking;

fn main() {
    println!("cargo:rerun-if-changed=src/abi.rs");
    println!("cargo:rerun-if-changed=linking.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{}", linking::soname());
    for argument in linking::ARGUMENTS {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
