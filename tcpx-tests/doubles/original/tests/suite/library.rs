#![allow(unsafe_code)]
//! The library as a program finds it.

use std::ptr;

use tcpx_sys::{NetHandle, Plugin, log_callback};
use tcpx_testkit::process::{finish, library, role};
use tcpx_testkit::{PATIENCE, again};

/// Brings the plugin up and does one thing.
fn program() {
    let file = library("libnccl_net_tcpx_original.so");
    // SAFETY: it is the library of this crate.
    let plugin = unsafe { Plugin::load(&file, &["GPUDirectTCPX_v7"]) }.expect("it loads");
    assert!(plugin.health().is_none(), "the original has no such addition");
    let entries = plugin.entries();
    let (mut handle, mut listen) = (NetHandle::zeroed(), ptr::null_mut());
    // SAFETY: valid places, and a callback of the logger's type.
    unsafe {
        assert_eq!((entries.init)(Some(log_callback())).0, 0);
        assert_eq!((entries.listen)(0, (&raw mut handle).cast(), &raw mut listen).0, 0);
        // No such comm, which the original does not survive.
        assert_eq!((entries.close_send)(ptr::without_provenance_mut(8)).0, 3);
    }
}

#[test]
fn it_is_fatal_by_default() {
    if role().is_some() {
        return program();
    }
    let ends_well = |variables: &[(&str, &str)]| {
        let mut command = again!("a program");
        command.envs([("NCCL_DYNAMIC_CHUNK_SIZE", "524288"), ("TCPX_SOFT_IFNAME", "=lo")]);
        command.envs(variables.iter().copied());
        finish(&mut command, PATIENCE).status.success()
    };
    assert!(!ends_well(&[]), "it aborts");
    assert!(ends_well(&[("TCPX_ORIGINAL_WITHOUT", "crash")]));
    assert!(!ends_well(&[("TCPX_ORIGINAL_WITHOUT", "kindness")]), "init refuses");
}
