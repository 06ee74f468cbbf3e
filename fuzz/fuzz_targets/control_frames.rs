//! Any bytes on a control link, in a handshake and from a peer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_core::fuzzing::frames(data));
