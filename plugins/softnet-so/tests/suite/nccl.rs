#![allow(unsafe_code)]
//! The library as NCCL loads it: each table, with messages through it, in a process of its own.
//!
//! What stands in for NCCL is a C library with a logger and `ncclGetVersion`, which the plugin
//! takes for NCCL.

use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use tcpx_testkit::{PATIENCE, here, process};

/// Tells a process where the stand-in lies.
const LIBRARY: &str = "STAND_IN_LIBRARY";
const STAND_IN: &str = "libstand_in.so";

/// Drives the table that the role names in a process of the stand-in, and is the test elsewhere.
macro_rules! test {
    () => {
        match process::role() {
            Some(table) => return drive(&table),
            None => Test::new(here!()),
        }
    };
}

/// A test, and the folder with the stand-in that its processes load.
struct Test {
    name: &'static str,
    folder: tempfile::TempDir,
}

impl Test {
    fn new(name: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (text, library) = (folder.path().join("stand_in.c"), folder.path().join(STAND_IN));
        std::fs::write(&text, include_str!("nccl_stand_in.c")).expect("it can be written");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g", "-shared", "-fPIC", "-o"]);
        let compiled = compiler.arg(&library).arg(&text).arg("-ldl").output().expect("cc runs");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        Self { name, folder }
    }

    /// Runs the stand-in with these variables, and gives what it printed.
    fn drive(&self, table: u32, variables: &[(&str, &str)]) -> (bool, String) {
        let mut child = process::again(self.name, &table.to_string());
        for (name, _) in std::env::vars_os() {
            let ours = ["NCCL_", "TCPX_SOFT_"].map(str::as_bytes);
            if ours.iter().any(|start| name.as_bytes().starts_with(start)) {
                child.env_remove(name);
            }
        }
        child.env(LIBRARY, self.folder.path().join(STAND_IN));
        child.env("TCPX_SOFT_IFNAME", "=lo").envs(variables.iter().copied());
        let output = process::finish(&mut child, 2 * PATIENCE);
        let text = process::printed(&output);
        (output.status.success() && text.contains("\ndone\n"), text)
    }
}

fn drive(table: &str) {
    let path = std::env::var_os(LIBRARY).expect("set");
    let table = table.parse().expect("a number");
    // SAFETY: the library was built by the test that started this process.
    let library = unsafe { libloading::Library::new(path) }.expect("it loads");
    type StandIn = unsafe extern "C" fn(*const std::ffi::c_char, c_int, c_int) -> c_int;
    // SAFETY: the function has this type.
    let stand_in = unsafe { library.get::<StandIn>("stand_in") }.expect("it is there");
    let plugin = CString::new(super::library().as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: the path is NUL-terminated and lives as long as the call.
    assert_eq!(unsafe { stand_in(plugin.as_ptr(), table, 2) }, 0);
}

#[test]
fn every_table_moves_messages_over_host_memory_and_comes_again() {
    let test = test!();
    for table in 7..=10 {
        let (ended_well, text) = test.drive(table, &[]);
        assert!(ended_well, "v{table}: {text}");
        assert!(!text.contains("WARN"), "v{table}: {text}");
        assert!(text.contains("software plugin: host memory only for NCCL 22809"), "{text}");
        assert_eq!(text.matches("pointers 1 receives 1 type 0 version 0").count(), 2, "{text}");
    }
}

#[test]
fn unpacking_is_offered_where_nccl_keeps_to_what_can_unpack() {
    let test = test!();
    let fits = [
        ("TCPX_SOFT_NCCL", "unpack"),
        ("NCCL_PROTO", "Simple"),
        ("NCCL_NET_GDR_READ", "0"),
        ("NCCL_ALGO", "Ring"),
    ];
    for table in 7..=10 {
        let (ended_well, text) = test.drive(table, &fits);
        assert!(ended_well, "v{table}: {text}");
        assert_eq!(text.matches("pointers 3 receives 1 type 1 version 7").count(), 2, "{text}");
    }
    // The release before there was anything to keep from.
    let (ended_well, text) =
        test.drive(7, &[&fits[..3], &[("STAND_IN_VERSION", "21903")]].concat());
    assert!(ended_well && text.contains("type 1 version 7"), "{text}");
}

#[test]
fn a_refused_setting_is_named_and_nothing_connects() {
    let test = test!();
    let unpack = ("TCPX_SOFT_NCCL", "unpack");
    let (simple, from_host) = (("NCCL_PROTO", "Simple"), ("NCCL_NET_GDR_READ", "0"));
    for (variables, named) in [
        (&[unpack, from_host, ("NCCL_ALGO", "Ring")][..], "NCCL_PROTO is not set"),
        (&[unpack, simple, ("NCCL_ALGO", "Ring")], "NCCL_NET_GDR_READ is not set"),
        (&[unpack, simple, from_host], "NCCL_ALGO is not set"),
        (&[unpack, simple, from_host, ("NCCL_ALGO", "PAT")], "NCCL_ALGO is \"PAT\""),
        (&[("TCPX_SOFT_NCCL", "gpu")], "TCPX_SOFT_NCCL is \"gpu\""),
        (&[("NCCL_DYNAMIC_CHUNK_SIZE", "512K")], "NCCL_DYNAMIC_CHUNK_SIZE is \"512K\""),
        (&[("TCPX_SOFT_IFNAME", "=nosuchnic0")], "matches =nosuchnic0"),
    ] {
        let (ended_well, text) =
            test.drive(10, &[variables, &[("STAND_IN_REFUSED", "1")]].concat());
        assert!(ended_well, "{named}: {text}");
        assert!(text.contains(&format!("WARN: {named}")) || text.contains(named), "{text}");
        assert!(text.contains("WARN: listen: "), "{text}");
    }
}
