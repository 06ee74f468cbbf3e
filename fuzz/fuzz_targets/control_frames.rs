//! Any bytes on a control link, in a handshake and from a peer.

#![no_main]

#[allow(dead_code, reason = "each target runs one of them")]
#[path = "../../tcpx-core/protocol/tests/suite/decoders.rs"]
mod decoders;

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::frames(data));
