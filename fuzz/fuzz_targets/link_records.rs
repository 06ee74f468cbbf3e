//! Any change on the way to the records of an encrypted control link.

#![no_main]

#[path = "../../tcpx-core/protocol/tests/suite/any_wire.rs"]
mod any_wire;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_wire::check(data));
