//! Programs that fork. Not under the sanitizers: those have threads and locks of their own, which a
//! child lacks and finds held.

use crate::toolchain::{GCC, GXX, Linkage, pass};

fn children_are_refused(linkage: Linkage) {
    // What the threads share are C11 atomics.
    pass(GCC, linkage, "c/fork.c", &["-std=c11"], &[]);
}

fn destructors_do_nothing_in_a_child(linkage: Linkage) {
    pass(GXX, linkage, "cpp/fork.cpp", &[], &[]);
}

#[test]
fn children_are_refused_after_the_first_session_and_harm_no_parent() {
    children_are_refused(Linkage::Shared);
}

#[test]
fn destructors_in_a_child_leave_the_parents_objects_alone() {
    destructors_do_nothing_in_a_child(Linkage::Shared);
}

#[test]
#[ignore = "deep: both forms of the library"]
fn children_of_programs_with_the_static_library_are_refused_too() {
    children_are_refused(Linkage::Static);
    destructors_do_nothing_in_a_child(Linkage::Static);
}

/// The program above proves nothing for a function that it does not call.
#[test]
fn every_function_is_called_in_a_child() {
    let program = include_str!("c/fork.c");
    for name in include_str!("../../exports.txt").lines() {
        assert!(program.contains(&format!("{name}(")), "{name} is not called");
    }
}
