//! Any lists of unpack descriptors. The property is the one `cargo test` runs.

#![no_main]

#[path = "../../tcpx-rx/tests/suite/property/descriptors.rs"]
mod descriptors;

libfuzzer_sys::fuzz_target!(|data: &[u8]| descriptors::run(data));
