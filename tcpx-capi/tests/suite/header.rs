//! Test that the headers compile everywhere they promise to, with every warning an error.

use std::process::Command;

use crate::toolchain::{CLANG, CLANGXX, Compiler, GCC, GXX, root};

fn compile(compiler: Compiler, standard: &str, header: &str, flags: &[&str]) {
    if !compiler.is_here() {
        return;
    }
    let output = Command::new(compiler.command)
        .args([standard, "-x", compiler.language, "-fsyntax-only"])
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"])
        .args(flags)
        .arg("-include")
        .arg(root().join("include").join(header))
        .arg("/dev/null")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{} {standard} {header} {flags:?}\n{errors}",
        compiler.command
    );
}

fn c_header(compilers: &[Compiler], standards: &[&str]) {
    for compiler in compilers {
        for standard in standards {
            compile(*compiler, standard, "tcpx_p2p.h", &["-Wstrict-prototypes"]);
        }
    }
}

fn c_header_in_cpp(compiler: Compiler) {
    compile(compiler, "-std=c++17", "tcpx_p2p.h", &[]);
}

fn headers_of_the_plugin_api(compiler: Compiler, flags: &[&str]) {
    for name in ["types", "logging", "session", "transfer", "memory_desc"] {
        compile(compiler, "-std=c++17", &format!("tcpx_{name}.h"), flags);
    }
}

fn cpp_header(compiler: Compiler, standards: &[&str], forms: &[&[&str]]) {
    for standard in standards {
        for flags in forms {
            compile(compiler, standard, "tcpx_p2p.hpp", flags);
            compile(compiler, standard, "tcpx_fwd.hpp", flags);
        }
    }
}

#[test]
fn the_c_header_is_c99_and_later() {
    c_header(&[GCC], &["-std=c99", "-std=c17"]);
}

#[test]
fn the_c_header_is_cpp_too() {
    c_header_in_cpp(GXX);
}

#[test]
fn the_headers_of_the_plugin_api_stand_alone() {
    headers_of_the_plugin_api(GXX, &[]);
    for name in ["types", "logging"] {
        compile(GCC, "-std=c99", &format!("tcpx_{name}.h"), &["-Wstrict-prototypes"]);
    }
}

#[test]
fn the_cpp_header_is_cpp17_and_later_with_and_without_exceptions() {
    cpp_header(GXX, &["-std=c++17"], &[&["-DTCPX_P2P_NO_EXCEPTIONS"]]);
    cpp_header(GXX, &["-std=c++20"], &[&[]]);
}

#[test]
#[ignore = "deep: all compilers and standards"]
fn the_headers_are_those_of_every_compiler() {
    c_header(&[GCC, CLANG], &["-std=c99", "-std=c11", "-std=c17"]);
    c_header_in_cpp(CLANGXX);
    headers_of_the_plugin_api(CLANGXX, &[]);
    for compiler in [GXX, CLANGXX] {
        headers_of_the_plugin_api(compiler, &["-fno-exceptions"]);
    }
}

#[test]
#[ignore = "deep: all compilers and standards"]
fn the_cpp_header_is_that_of_every_compiler() {
    let forms: [&[&str]; 3] = [&[], &["-fno-exceptions"], &["-DTCPX_P2P_NO_EXCEPTIONS"]];
    for compiler in [GXX, CLANGXX] {
        cpp_header(compiler, &["-std=c++17", "-std=c++20"], &forms);
    }
}
