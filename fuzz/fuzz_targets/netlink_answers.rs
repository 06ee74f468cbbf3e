//! Any datagram as the kernel's answer about a NIC.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tcpx_devmem::fuzzing::netlink_answers(data));
