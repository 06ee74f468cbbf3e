//! Programs that do everything wrong, watched by the sanitizers: statuses come out, nothing else.

use crate::program::Program;
use crate::toolchain::{
    CLANG, Compiler, GCC, GXX, Linkage, SANITIZERS, Workshop, built, pass, source,
};

fn survive(compiler: Compiler, linkage: Linkage, name: &str, flags: &[&str]) {
    if compiler.has_sanitizers() {
        pass(compiler, linkage, name, &[&SANITIZERS[..], flags].concat(), &[]);
    }
}

#[test]
fn wrong_arguments_end_in_statuses() {
    survive(GCC, Linkage::Shared, "c/arguments.c", &[]);
}

#[test]
fn wrong_handles_end_in_statuses() {
    survive(GCC, Linkage::Static, "c/handles.c", &[]);
}

/// These programs do nothing wrong, but the sanitizers notice uses of freed memory.
#[test]
fn one_thread_drives_two_sessions_without_a_call_that_waits() {
    survive(GCC, Linkage::Shared, "c/event_loop.c", &[]);
    pass(GXX, Linkage::Shared, "cpp/one_thread.cpp", &[], &[]);
}

/// Traffic goes on for some milliseconds, so that it would touch memory that must be left alone.
fn leaves_deregistered_memory_alone(traffic: &[&str]) {
    if GCC.has_sanitizers() {
        pass(GCC, Linkage::Shared, "c/deregistration.c", &SANITIZERS, traffic);
    }
}

#[test]
fn deregistered_memory_is_touched_by_nothing() {
    leaves_deregistered_memory_alone(&["300"]);
}

#[test]
#[ignore = "deep: seconds of traffic"]
fn deregistered_memory_is_touched_by_nothing_for_long() {
    leaves_deregistered_memory_alone(&[]);
}

#[test]
fn one_sided_operations_end_in_place_or_in_statuses() {
    survive(GCC, Linkage::Shared, "c/one_sided.c", &[]);
    pass(GXX, Linkage::Shared, "cpp/one_sided.cpp", &[], &[]);
    pass(GXX, Linkage::Shared, "cpp/one_sided_codes.cpp", &["-fno-exceptions"], &[]);
}

#[test]
fn every_peer_is_accepted_and_served() {
    survive(GCC, Linkage::Shared, "c/accept_all.c", &[]);
}

#[test]
fn lists_of_memory_are_registered_whole_or_not_at_all() {
    survive(GCC, Linkage::Shared, "c/memory_list.c", &[]);
}

#[test]
fn sessions_of_all_devices_move_bytes_between_them_and_refuse_the_rest() {
    survive(GCC, Linkage::Shared, "c/group.c", &[]);
    pass(GXX, Linkage::Shared, "cpp/group.cpp", &[], &[]);
}

#[test]
fn any_thread_may_call_anything() {
    // The handles that the threads share are C11 atomics.
    survive(GCC, Linkage::Shared, "c/threads.c", &["-std=c11"]);
}

/// Without the sanitizers, which take more address space than there is.
#[test]
fn a_batch_for_which_there_is_no_memory_ends_in_a_status() {
    pass(GCC, Linkage::Shared, "c/no_memory.c", &[], &["8192", "65536", "8"]);
}

#[test]
#[ignore = "deep: the largest batches that there are"]
fn the_largest_batch_for_which_there_is_no_memory_ends_in_a_status() {
    pass(GCC, Linkage::Shared, "c/no_memory.c", &[], &[]);
}

#[test]
fn log_callbacks_are_called_and_not_reentered() {
    survive(GCC, Linkage::Shared, "c/log.c", &[]);
}

#[test]
fn the_plugin_is_silenced_by_itself() {
    if !GCC.has_sanitizers() {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.build(GCC, Linkage::Shared, &source("c/plugin_log.c"), &SANITIZERS);
    for how in ["silent", "loud"] {
        Program::start(&program, &[how]).pass();
    }
}

#[test]
#[ignore = "deep: outlasts a destroy, which waits for ten seconds"]
fn a_session_is_not_destroyed_while_its_memory_may_be_used() {
    if !GCC.has_sanitizers() {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.build(GCC, Linkage::Shared, &source("c/lingering.c"), &SANITIZERS);
    let plugin = built("libnccl_net_tcpx_faulty.so");
    let plugin = ("TCPX_PLUGIN", plugin.to_str().unwrap());
    // Longer than a destroy waits.
    let slow = ("TCPX_SOFT_FAULTS", "delay:closeSend/closeRecv@1=15000");
    let variables = [plugin, ("TCPX_PREFLIGHT", "0"), slow];
    Program::start_with(&program, &[] as &[&str], &variables).pass();
}

#[test]
fn cpp_errors_are_exceptions_or_codes() {
    pass(GXX, Linkage::Shared, "cpp/exceptions.cpp", &[], &[]);
    pass(GXX, Linkage::Shared, "cpp/codes.cpp", &["-fno-exceptions"], &[]);
}

#[test]
fn cpp_headers_prevent_mistakes_and_allocations() {
    pass(GXX, Linkage::Shared, "cpp/wrapper.cpp", &[], &[]);
}

#[test]
#[ignore = "deep: all compilers, and both forms of the library"]
fn clangs_sanitizers_find_nothing_in_the_static_library() {
    for name in ["c/arguments.c", "c/event_loop.c", "c/one_sided.c", "c/group.c"] {
        survive(CLANG, Linkage::Static, name, &[]);
    }
}

#[test]
#[ignore = "deep: sanitizers in all forms"]
fn sanitizers_find_nothing_under_exceptions() {
    let names = ["cpp/one_thread.cpp", "cpp/one_sided.cpp", "cpp/group.cpp", "cpp/exceptions.cpp"];
    for name in names {
        survive(GXX, Linkage::Shared, name, &[]);
    }
}

#[test]
#[ignore = "deep: sanitizers in all forms"]
fn sanitizers_find_nothing_under_codes() {
    for name in ["cpp/one_sided_codes.cpp", "cpp/codes.cpp"] {
        survive(GXX, Linkage::Static, name, &["-fno-exceptions"]);
    }
}

/// The programs above prove nothing if the sanitizers do not watch the library's memory.
#[test]
fn a_write_past_a_buffer_would_be_seen() {
    if !GCC.has_sanitizers() {
        return;
    }
    let failed = std::panic::catch_unwind(|| survive(GCC, Linkage::Shared, "c/overflow.c", &[]));
    let text = failed.unwrap_err();
    let text = text.downcast_ref::<String>().unwrap();
    assert!(text.contains("AddressSanitizer"), "{text}");
}
