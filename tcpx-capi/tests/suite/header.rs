//! The headers compile everywhere they promise to, with every warning an error.

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

#[test]
fn the_c_header_is_c99_and_later() {
    for compiler in [GCC, CLANG] {
        for standard in ["-std=c99", "-std=c11", "-std=c17"] {
            compile(compiler, standard, "tcpx_p2p.h", &["-Wstrict-prototypes"]);
        }
    }
}

#[test]
fn the_c_header_is_cpp_too() {
    for compiler in [GXX, CLANGXX] {
        compile(compiler, "-std=c++17", "tcpx_p2p.h", &[]);
    }
}

#[test]
fn the_headers_of_the_plugin_api_stand_alone() {
    for compiler in [GXX, CLANGXX] {
        for name in ["types", "logging", "session", "transfer", "memory_desc"] {
            for flags in [&[][..], &["-fno-exceptions"]] {
                compile(compiler, "-std=c++17", &format!("tcpx_{name}.h"), flags);
            }
        }
    }
    for name in ["types", "logging"] {
        compile(GCC, "-std=c99", &format!("tcpx_{name}.h"), &["-Wstrict-prototypes"]);
    }
}

#[test]
fn the_cpp_header_is_cpp17_and_later_with_and_without_exceptions() {
    for compiler in [GXX, CLANGXX] {
        for standard in ["-std=c++17", "-std=c++20"] {
            for flags in [&[][..], &["-fno-exceptions"], &["-DTCPX_P2P_NO_EXCEPTIONS"]] {
                compile(compiler, standard, "tcpx_p2p.hpp", flags);
            }
        }
    }
}
