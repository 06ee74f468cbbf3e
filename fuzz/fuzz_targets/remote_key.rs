//! Any bytes as a key to remote memory.

#![no_main]

#[allow(dead_code, reason = "each target runs one of them")]
#[path = "../../tcpx-core/protocol/tests/suite/decoders.rs"]
mod decoders;

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::remote_key(data));
