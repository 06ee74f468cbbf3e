//! Any change on the way to the records of an authenticated control link.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_core::fuzzing::records(data));
