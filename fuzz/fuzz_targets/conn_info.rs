//! Any bytes as connection info.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_core::fuzzing::conn_info(data));
