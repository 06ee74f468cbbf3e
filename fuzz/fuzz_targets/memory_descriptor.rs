//! Any bytes as a memory descriptor.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_core::fuzzing::memory_descriptor(data));
