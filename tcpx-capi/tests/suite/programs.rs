//! Two processes and more, with every byte looked at: the examples, and a program of raw pointers.

use std::path::Path;

use crate::program::Program;
use crate::toolchain::{CLANG, CLANGXX, Compiler, GCC, GXX, Linkage, Workshop, pass, root, source};

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
    example(GCC, Linkage::Shared, "c/kv_pull.c");
}

#[test]
fn c_against_the_static_library() {
    example(GCC, Linkage::Static, "c/kv_blocks.c");
}

#[test]
fn cpp_against_the_shared_library() {
    example(GXX, Linkage::Shared, "cpp/hello.cpp");
    example(GXX, Linkage::Shared, "cpp/kv_pull.cpp");
}

#[test]
fn cpp_against_the_static_library() {
    example(GXX, Linkage::Static, "cpp/kv_blocks.cpp");
}

#[test]
#[ignore = "deep: all compilers"]
fn clang_against_both_libraries() {
    example(CLANG, Linkage::Shared, "c/kv_blocks.c");
    example(CLANG, Linkage::Static, "c/hello.c");
    example(CLANG, Linkage::Static, "c/kv_pull.c");
    example(CLANGXX, Linkage::Shared, "cpp/kv_blocks.cpp");
    example(CLANGXX, Linkage::Static, "cpp/hello.cpp");
    example(CLANGXX, Linkage::Static, "cpp/kv_pull.cpp");
}

/// One server, and three clients of these names.
fn several_peers(compiler: Compiler, linkage: Linkage, name: &str) {
    let names: [&[&str]; 3] = [&["red"], &["green"], &["blue"]];
    run(compiler, linkage, &root().join("examples").join(name), &["3"], &names);
}

#[test]
fn one_loop_serves_several_peers() {
    several_peers(GCC, Linkage::Shared, "c/poll_peers.c");
    several_peers(GXX, Linkage::Shared, "cpp/poll_peers.cpp");
}

#[test]
fn a_thread_that_sleeps_in_epoll_serves_several_peers() {
    several_peers(GXX, Linkage::Shared, "cpp/epoll_peers.cpp");
}

#[test]
#[ignore = "deep: both forms of the library"]
fn one_loop_serves_several_peers_with_the_static_library() {
    several_peers(GXX, Linkage::Static, "cpp/poll_peers.cpp");
}

#[test]
fn objects_that_are_ended_by_hand_serve_a_transfer() {
    run(GXX, Linkage::Shared, &source("cpp/raw_pointers.cpp"), &[], &[&[]]);
}

#[test]
fn transfers_answer_as_the_table_says() {
    pass(GCC, Linkage::Shared, "c/answers.c", &[], &[]);
}

#[test]
#[ignore = "deep: all compilers"]
fn transfers_answer_clangs_programs_as_the_table_says() {
    pass(CLANG, Linkage::Static, "c/answers.c", &[], &[]);
}

#[test]
fn a_plugin_host_may_open_and_close_the_library() {
    let flags = ["-Wl,--as-needed", "-Wno-strict-aliasing"];
    pass(GCC, Linkage::Shared, "c/dlopen.c", &flags, &[]);
}
