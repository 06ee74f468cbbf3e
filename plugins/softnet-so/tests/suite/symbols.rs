#![allow(unsafe_code)]
//! The shared library shows the dynamic linker six symbols: a working table for each version of the
//! interface, and the additions to it.

use std::process::Command;

use tcpx_softnet::hooks::CAN_BE_INSTALLED;
use tcpx_sys::{ENCRYPTION_SYMBOL, HEALTH_SYMBOL, Plugin, READINESS_SYMBOL, SYMBOL};
use tcpx_testkit::in_own_process;

use super::library;

#[test]
fn the_tables_and_their_additions_are_exported_and_nothing_else() {
    let nm = Command::new("nm").args(["-D", "-S", "--defined-only"]).arg(library()).output();
    let nm = nm.expect("nm (binutils) is needed for this test");
    assert!(nm.status.success());
    let text = String::from_utf8(nm.stdout).expect("text");
    let mut lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    lines.sort_by_key(|line| line.last().copied());
    let expected = [
        ("ncclNetPlugin_v10", 160),
        (SYMBOL, 152),
        ("ncclNetPlugin_v8", 152),
        ("ncclNetPlugin_v9", 160),
        (ENCRYPTION_SYMBOL, 16),
        (HEALTH_SYMBOL, 16),
        (READINESS_SYMBOL, 16),
    ];
    assert_eq!(lines.len(), expected.len(), "exported symbols: {text}");
    for (line, (name, bytes)) in lines.iter().zip(expected) {
        assert_eq!(line[3], name);
        assert!(matches!(line[2], "D" | "B" | "R"), "a data symbol: {line:?}");
        assert_eq!(u64::from_str_radix(line[1], 16).expect("hex"), bytes);
    }
}

#[test]
fn the_library_has_the_plugins_soname_stays_loaded_and_has_no_text_relocations() {
    let readelf = Command::new("readelf").arg("-d").arg(library()).output();
    let readelf = readelf.expect("readelf (binutils) is needed for this test");
    let text = String::from_utf8(readelf.stdout).expect("text");
    assert!(text.contains("[libnccl-net-tcpx-soft.so]"), "{text}");
    assert!(!text.contains("TEXTREL"), "{text}");
    assert!(text.contains("NODELETE"), "{text}");
}

/// Words of its doubles for tests, as symbols and log lines have them.
const OF_DOUBLES: [&str; 6] = [
    "tcpx_softnet_faults",
    "FaultScript",
    "Quirk",
    "as scripted",
    "would crash here",
    "closes file descriptor 0",
];
/// What is there where doubles are built beside it, as they are with the whole workspace.
const OF_HOOKS: [&str; 2] = ["hooks4slot7install", "hooks4slot9INSTALLED"];

#[test]
fn it_has_nothing_by_which_it_misbehaves() {
    let bytes = std::fs::read(library()).expect("the library");
    let has = |word: &str| bytes.windows(word.len()).any(|found| found == word.as_bytes());
    assert!(has("software plugin: using "), "its log lines can be found");
    let of_hooks: &[&str] = if CAN_BE_INSTALLED { &[] } else { &OF_HOOKS };
    let found: Vec<_> = OF_DOUBLES.iter().chain(of_hooks).filter(|word| has(word)).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn it_loads_as_a_plugin() {
    in_own_process!();
    // SAFETY: the library was built from this workspace.
    let plugin = unsafe { Plugin::load(&library(), &["TCPXSoft_v7"]) }.expect("loads");
    let mut ndev = 0;
    // SAFETY: a valid place for the count.
    let rc = unsafe { (plugin.entries().devices)(&raw mut ndev) };
    assert_eq!((rc.0, ndev), (0, -1), "not initialised yet");
    assert!(plugin.table().reg_mr_dma_buf.is_none());
    let health = plugin.health().expect("the addition");
    // SAFETY: NULL is no comm, which both functions say.
    let codes = unsafe {
        let comm = std::ptr::null_mut();
        ((health.check_comm)(comm), (health.set_peer_timeout)(comm, 1))
    };
    assert_eq!((codes.0.0, codes.1.0), (3, 3));
    let encryption = plugin.encryption().expect("the third addition");
    // SAFETY: as above; the secret is 32 bytes.
    let code =
        unsafe { (encryption.encrypt_listen)(std::ptr::null_mut(), [7u8; 32].as_ptr().cast()) };
    assert_eq!(code.0, 3);
    let readiness = plugin.readiness().expect("the other addition");
    let mut answer = 7;
    // SAFETY: as above; no descriptor is asked for, so there need be no place for one.
    let codes = unsafe {
        let comm = std::ptr::null_mut();
        let count = (readiness.descriptors)(comm, std::ptr::null_mut(), 0, &raw mut answer);
        (count, (readiness.needs_call)(comm, &raw mut answer))
    };
    assert_eq!((codes.0.0, codes.1.0, answer), (3, 3, 7));
}
