//! Two processes and more, with every byte looked at: the examples, and a program of raw pointers.

use std::path::Path;

use crate::toolchain::{
    CLANG, CLANGXX, Compiler, GCC, GXX, Linkage, Program, Workshop, root, source,
};

/// Builds a program and runs it as one server and one client for each list of arguments.
fn run(compiler: Compiler, linkage: Linkage, source: &Path, server: &[&str], clients: &[&[&str]]) {
    if !compiler.is_here() {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.build(compiler, linkage, source, &[]);
    let server = [&["server"], server].concat();
    let (server, port) = Program::serve(&program, &server);
    let clients: Vec<Program> = clients
        .iter()
        .map(|arguments| {
            let arguments = [&["client", "127.0.0.1", &port][..], arguments].concat();
            Program::start(&program, &arguments)
        })
        .collect();
    for client in clients {
        client.pass();
    }
    server.pass();
}

fn example(compiler: Compiler, linkage: Linkage, name: &str) {
    let source = root().join("examples").join(name);
    run(compiler, linkage, &source, &[], &[&[]]);
}

#[test]
fn c_against_the_shared_library() {
    example(GCC, Linkage::Shared, "c/hello.c");
    example(CLANG, Linkage::Shared, "c/kv_blocks.c");
    example(GCC, Linkage::Shared, "c/kv_pull.c");
}

#[test]
fn c_against_the_static_library() {
    example(CLANG, Linkage::Static, "c/hello.c");
    example(GCC, Linkage::Static, "c/kv_blocks.c");
    example(CLANG, Linkage::Static, "c/kv_pull.c");
}

#[test]
fn cpp_against_the_shared_library() {
    example(GXX, Linkage::Shared, "cpp/hello.cpp");
    example(CLANGXX, Linkage::Shared, "cpp/kv_blocks.cpp");
    example(GXX, Linkage::Shared, "cpp/kv_pull.cpp");
}

#[test]
fn cpp_against_the_static_library() {
    example(CLANGXX, Linkage::Static, "cpp/hello.cpp");
    example(GXX, Linkage::Static, "cpp/kv_blocks.cpp");
    example(CLANGXX, Linkage::Static, "cpp/kv_pull.cpp");
}

#[test]
fn one_loop_serves_several_peers() {
    let names: [&[&str]; 3] = [&["red"], &["green"], &["blue"]];
    let examples = root().join("examples");
    run(GCC, Linkage::Shared, &examples.join("c/poll_peers.c"), &["3"], &names);
    run(GXX, Linkage::Static, &examples.join("cpp/poll_peers.cpp"), &["3"], &names);
}

#[test]
fn objects_that_are_ended_by_hand_serve_a_transfer() {
    run(GXX, Linkage::Shared, &source("cpp/raw_pointers.cpp"), &[], &[&[]]);
}

#[test]
fn transfers_answer_as_the_table_says() {
    for (compiler, linkage) in [(GCC, Linkage::Shared), (CLANG, Linkage::Static)] {
        if !compiler.is_here() {
            continue;
        }
        let workshop = Workshop::new();
        let program = workshop.build(compiler, linkage, &source("c/answers.c"), &[]);
        Program::start(&program, &[] as &[&str]).pass();
    }
}

#[test]
fn a_plugin_host_may_open_and_close_the_library() {
    let workshop = Workshop::new();
    let program = workshop.build(
        GCC,
        Linkage::Shared,
        &source("c/dlopen.c"),
        &["-Wl,--as-needed", "-Wno-strict-aliasing"],
    );
    Program::start(&program, &[] as &[&str]).pass();
}
