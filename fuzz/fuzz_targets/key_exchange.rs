//! Any change on the way to the keys of a socket, and to the records behind them.

#![no_main]

#[path = "../../base/seal/tests/suite/any_exchange.rs"]
mod any_exchange;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_exchange::check(data));
