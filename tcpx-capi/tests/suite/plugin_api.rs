//! The classes `TcpxSession`, `TcpxTransfer` and `TcpxMemoryDescriptor`: the programs of the plugin
//! API's design run as they stand there.

use std::process::Command;

use tempfile::TempDir;

use crate::toolchain::{GXX, Linkage, Program, SANITIZERS, Workshop, root, source};

/// The programs ask for GPU 0. Where there is one, malloc's memory would not be its own: so no
/// driver shows one, be it real or testing/fake-cuda.
const WITHOUT_GPU: [(&str, &str); 3] =
    [("CUDA_VISIBLE_DEVICES", ""), ("TCPX_FAKE_CUDA_GPUS", "0"), ("TCPX_PLUGIN", "soft")];

fn runs_as_written(name: &str) {
    if !GXX.is_here() {
        return;
    }
    let workshop = Workshop::new();
    let path = source("cpp/plugin_api").join(name);
    let program = workshop.build(GXX, Linkage::Shared, &path, &[]);
    let (server, port) = Program::serve_with(&program, &["server"], &WITHOUT_GPU);
    Program::start_with(&program, &["client", "127.0.0.1", &port], &WITHOUT_GPU).pass();
    server.pass();
}

#[test]
fn the_programs_of_the_design_run_as_written() {
    runs_as_written("test_tcpx_api.cpp");
    runs_as_written("test_tcpx_perf_multi.cpp");
}

#[test]
fn the_classes_are_the_same_with_and_without_exceptions() {
    if !GXX.has_sanitizers(&SANITIZERS) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let object = folder.path().join("without_exceptions.o");
    let mut compile = Command::new(GXX.command);
    compile.args([GXX.standard, "-fno-exceptions", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    compile.args(SANITIZERS).arg("-c").arg("-I").arg(root().join("include"));
    compile.arg(source("cpp/plugin_api/without_exceptions.cpp")).arg("-o").arg(&object);
    let output = compile.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let workshop = Workshop::new();
    let main = source("cpp/plugin_api/with_exceptions.cpp");
    // An object file, as it is not of the source's language.
    let object = format!("-Wl,{}", object.display());
    let flags = [&SANITIZERS[..], &[&object]].concat();
    for linkage in [Linkage::Shared, Linkage::Static] {
        let program = workshop.build(GXX, linkage, &main, &flags);
        Program::start_with(&program, &[] as &[&str], &WITHOUT_GPU).pass();
    }
}
