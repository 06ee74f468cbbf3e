//! The classes `TcpxSession`, `TcpxTransfer` and `TcpxMemoryDescriptor`: the programs of the plugin
//! API's design run as they stand there.

use crate::program::Program;
use crate::toolchain::{GXX, Linkage, SANITIZERS, Workshop, source};

/// The programs ask for GPU 0. Where there is one, malloc's memory would not be its own: so no
/// driver shows one, be it real or tcpx-tests/doubles/fake-cuda.
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

fn classes_are_the_same(forms: &[Linkage], flags: &[&str]) {
    let workshop = Workshop::new();
    let other = source("cpp/plugin_api/without_exceptions.cpp");
    let object = workshop.object(GXX, &other, &[&["-fno-exceptions"], flags].concat());
    // An object file, as it is not of the source's language.
    let object = format!("-Wl,{}", object.display());
    let flags = [flags, &[&object]].concat();
    for linkage in forms {
        let main = source("cpp/plugin_api/with_exceptions.cpp");
        let program = workshop.build(GXX, *linkage, &main, &flags);
        Program::start_with(&program, &[] as &[&str], &WITHOUT_GPU).pass();
    }
}

#[test]
fn the_classes_are_the_same_with_and_without_exceptions() {
    if GXX.is_here() {
        classes_are_the_same(&[Linkage::Shared], &[]);
    }
}

#[test]
#[ignore = "deep: sanitizers in all forms, and both forms of the library"]
fn sanitizers_find_nothing_in_the_classes() {
    if GXX.has_sanitizers() {
        classes_are_the_same(&[Linkage::Shared, Linkage::Static], &SANITIZERS);
    }
}
