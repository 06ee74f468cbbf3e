#![allow(unsafe_code)]
//! The library as a program finds it.

use std::path::PathBuf;
use std::ptr;

use tcpx_sys::{NetHandle, Plugin, log_callback};

/// The library that Cargo built next to this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("own path");
    let folder = test.parent().expect("the folder of test binaries");
    let file = "libnccl_net_tcpx_original.so";
    let places = [folder.join(file), folder.with_file_name(file)];
    places.into_iter().find(|place| place.is_file()).expect("the library is built with its tests")
}

/// Runs this test again, as a program that brings the plugin up and does one thing.
fn program(variables: &[(&str, &str)]) -> std::process::ExitStatus {
    let mut command = std::process::Command::new(std::env::current_exe().expect("own path"));
    command.args(["--exact", "library::a_program", "--ignored"]).envs(variables.iter().copied());
    command.envs([("NCCL_DYNAMIC_CHUNK_SIZE", "524288"), ("TCPX_SOFT_IFNAME", "=lo")]);
    command.stdout(std::process::Stdio::null()).status().expect("it runs")
}

#[test]
#[ignore = "a program of the other tests"]
fn a_program() {
    // SAFETY: it is the library of this crate.
    let plugin = unsafe { Plugin::load(&library(), &["GPUDirectTCPX_v7"]) }.expect("it loads");
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
fn it_is_fatal_unless_told_otherwise() {
    assert!(!program(&[]).success(), "it aborts");
    assert!(program(&[("TCPX_ORIGINAL_WITHOUT", "crash")]).success());
    assert!(!program(&[("TCPX_ORIGINAL_WITHOUT", "kindness")]).success(), "init refuses");
}
