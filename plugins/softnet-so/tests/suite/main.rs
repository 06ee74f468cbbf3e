//! Tests of the shared library: what it shows to the dynamic linker, how it takes its settings, and
//! NCCL's way of using it.

mod environment;
mod nccl;
mod symbols;

use std::path::PathBuf;

/// The library that Cargo built next to this program.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("own path");
    let folder = test.parent().expect("the folder of test binaries");
    let file = "libnccl_net_tcpx_soft.so";
    let places = [folder.join(file), folder.with_file_name(file)];
    places.into_iter().find(|place| place.is_file()).expect("the library is built with its tests")
}
