//! Programs that fork. Not under the sanitizers: those have threads and locks of their own, which a
//! child lacks and finds held.

use crate::toolchain::{Compiler, GCC, GXX, Linkage, Program, Workshop, source};

fn run(compiler: Compiler, linkage: Linkage, name: &str, flags: &[&str]) {
    if compiler.is_here() {
        let program = Workshop::new();
        let path = program.build(compiler, linkage, &source(name), flags);
        Program::start(&path, &[] as &[&str]).pass();
    }
}

#[test]
fn children_are_refused_after_the_first_session_and_harm_nobody() {
    // What the threads share are C11 atomics.
    run(GCC, Linkage::Shared, "c/fork.c", &["-std=c11"]);
    run(GCC, Linkage::Static, "c/fork.c", &["-std=c11"]);
}

#[test]
fn destructors_in_a_child_leave_the_parents_objects_alone() {
    run(GXX, Linkage::Shared, "cpp/fork.cpp", &[]);
    run(GXX, Linkage::Static, "cpp/fork.cpp", &[]);
}

/// The program above proves nothing for a function that it does not call.
#[test]
fn every_function_is_called_in_a_child() {
    let program = include_str!("c/fork.c");
    for name in include_str!("../../exports.txt").lines() {
        assert!(program.contains(&format!("{name}(")), "{name} is not called");
    }
}
