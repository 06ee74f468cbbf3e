//! Any bytes as a key to remote memory.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_core::fuzzing::remote_key(data));
