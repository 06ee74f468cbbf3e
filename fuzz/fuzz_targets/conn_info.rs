//! Any bytes as connection info.

#![no_main]

#[allow(dead_code, reason = "each target runs one of them")]
#[path = "../../tcpx-core/protocol/tests/suite/decoders.rs"]
mod decoders;

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::conn_info(data));
