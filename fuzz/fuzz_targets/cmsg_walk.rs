//! Any control bytes, in both dialects. The property is the one `cargo test` runs.

#![no_main]

#[path = "../../tcpx-rx/tests/suite/property/cmsg.rs"]
mod cmsg;

libfuzzer_sys::fuzz_target!(|data: &[u8]| cmsg::run(data));
