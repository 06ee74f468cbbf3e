//! An end that exports memory, and a peer that says anything, in any order.

#![no_main]

#[path = "../../tcpx-core/protocol/tests/suite/any_peer/mod.rs"]
mod any_peer;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_peer::run(data));
