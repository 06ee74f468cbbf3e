#![allow(unsafe_code)]
//! The shared library takes its settings from the environment.

use tcpx_sys::{Plugin, log_callback};
use tcpx_testkit::in_own_process;

use super::library;

#[test]
fn init_refuses_nonsense_and_then_takes_what_is_right() {
    in_own_process!();
    // SAFETY: the library was built from this workspace.
    let plugin = unsafe { Plugin::load(&library(), &["TCPXSoft_v7"]) }.expect("loads");
    let init_with = |variables: &[(&str, &str)]| {
        for (name, value) in variables {
            // SAFETY: this process runs one test, and no other thread reads the environment.
            unsafe { std::env::set_var(name, value) };
        }
        // SAFETY: the callback is of the logger's type and thread-safe.
        unsafe { (plugin.entries().init)(Some(log_callback())) }.0
    };
    assert_eq!(
        init_with(&[("NCCL_DYNAMIC_CHUNK_SIZE", ""), ("TCPX_SOFT_IFNAME", "=lo")]),
        3,
        "unset"
    );
    assert_eq!(init_with(&[("NCCL_DYNAMIC_CHUNK_SIZE", "512K")]), 3);
    assert_eq!(
        init_with(&[("NCCL_DYNAMIC_CHUNK_SIZE", "524288"), ("TCPX_SOFT_FAULTS", "lose:send@1")]),
        3,
        "only doubles of it fail on purpose"
    );
    assert_eq!(init_with(&[("TCPX_SOFT_FAULTS", ""), ("TCPX_SOFT_IFNAME", "=nosuchnic0")]), 3);
    assert_eq!(init_with(&[("TCPX_SOFT_IFNAME", "=lo")]), 0);
    assert_eq!(init_with(&[]), 3, "twice");
    let mut ndev = -5;
    // SAFETY: a valid place for the count.
    assert_eq!(unsafe { (plugin.entries().devices)(&raw mut ndev) }.0, 0);
    assert_eq!(ndev, 1);
}
