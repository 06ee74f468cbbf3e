//! An end that exports memory, and a peer that says anything, in any order.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_core::fuzzing::one_sided_target(data));
