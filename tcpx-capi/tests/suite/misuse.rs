//! Programs that do everything wrong, watched by the sanitizers: statuses come out, nothing else.

use crate::toolchain::{CLANG, Compiler, GCC, GXX, Linkage, Program, SANITIZERS, Workshop, source};

fn survive(compiler: Compiler, linkage: Linkage, name: &str, flags: &[&str]) {
    if !compiler.has_sanitizers(&SANITIZERS) {
        return;
    }
    let workshop = Workshop::new();
    let program =
        workshop.build(compiler, linkage, &source(name), &[&SANITIZERS[..], flags].concat());
    Program::start(&program, &[] as &[&str]).pass();
}

#[test]
fn wrong_arguments_end_in_statuses() {
    survive(GCC, Linkage::Shared, "c/arguments.c", &[]);
    survive(CLANG, Linkage::Static, "c/arguments.c", &[]);
}

#[test]
fn wrong_handles_end_in_statuses() {
    survive(GCC, Linkage::Static, "c/handles.c", &[]);
}

/// They do nothing wrong; but the sanitizers see who looks at what after it is gone.
#[test]
fn one_thread_drives_two_sessions_without_a_call_that_waits() {
    survive(GCC, Linkage::Shared, "c/event_loop.c", &[]);
    survive(CLANG, Linkage::Static, "c/event_loop.c", &[]);
    survive(GXX, Linkage::Shared, "cpp/one_thread.cpp", &[]);
}

#[test]
fn deregistered_memory_is_touched_by_nothing() {
    survive(GCC, Linkage::Shared, "c/deregistration.c", &[]);
}

#[test]
fn one_sided_operations_end_in_place_or_in_statuses() {
    survive(GCC, Linkage::Shared, "c/one_sided.c", &[]);
    survive(CLANG, Linkage::Static, "c/one_sided.c", &[]);
    survive(GXX, Linkage::Shared, "cpp/one_sided.cpp", &[]);
    survive(GXX, Linkage::Static, "cpp/one_sided_codes.cpp", &["-fno-exceptions"]);
}

#[test]
fn whoever_comes_is_accepted_and_served() {
    survive(GCC, Linkage::Shared, "c/accept_all.c", &[]);
}

#[test]
fn lists_of_memory_are_registered_whole_or_not_at_all() {
    survive(GCC, Linkage::Shared, "c/memory_list.c", &[]);
}

#[test]
fn groups_move_bytes_between_devices_and_refuse_the_rest() {
    survive(GCC, Linkage::Shared, "c/group.c", &[]);
    survive(CLANG, Linkage::Static, "c/group.c", &[]);
    survive(GXX, Linkage::Shared, "cpp/group.cpp", &[]);
}

#[test]
fn any_thread_may_call_anything() {
    // The handles that the threads share are C11 atomics.
    survive(GCC, Linkage::Shared, "c/threads.c", &["-std=c11"]);
}

/// Without the sanitizers, which take more address space than there is.
#[test]
fn a_batch_for_which_there_is_no_memory_ends_in_a_status() {
    if !GCC.is_here() {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.build(GCC, Linkage::Shared, &source("c/no_memory.c"), &[]);
    Program::start(&program, &[] as &[&str]).pass();
}

#[test]
fn log_callbacks_are_called_and_not_reentered() {
    survive(GCC, Linkage::Shared, "c/log.c", &[]);
}

#[test]
fn the_plugin_is_silenced_by_itself() {
    if !GCC.has_sanitizers(&SANITIZERS) {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.build(GCC, Linkage::Shared, &source("c/plugin_log.c"), &SANITIZERS);
    for how in ["silent", "loud"] {
        Program::start(&program, &[how]).pass();
    }
}

#[test]
fn a_session_is_not_destroyed_while_its_memory_may_be_used() {
    if !GCC.has_sanitizers(&SANITIZERS) {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.build(GCC, Linkage::Shared, &source("c/parked.c"), &SANITIZERS);
    // Longer than a destroy waits.
    let slow = ("TCPX_SOFT_FAULTS", "delay:closeSend/closeRecv@1=15000");
    Program::start_with(&program, &[] as &[&str], &[slow]).pass();
}

#[test]
fn cpp_errors_are_exceptions_or_codes() {
    survive(GXX, Linkage::Shared, "cpp/exceptions.cpp", &[]);
    survive(GXX, Linkage::Static, "cpp/codes.cpp", &["-fno-exceptions"]);
}

/// The programs above prove nothing if the sanitizers do not watch the library's memory.
#[test]
fn a_write_past_a_buffer_would_be_seen() {
    if !GCC.has_sanitizers(&SANITIZERS) {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.build(GCC, Linkage::Shared, &source("c/overflow.c"), &SANITIZERS);
    let failed = std::panic::catch_unwind(|| {
        Program::start(&program, &[] as &[&str]).pass();
    });
    let text = failed.unwrap_err();
    let text = text.downcast_ref::<String>().unwrap();
    assert!(text.contains("AddressSanitizer"), "{text}");
}
