#![allow(unsafe_code)]
//! Calls that the original does not survive.

use std::ptr;

use tcpx_sys::{NetProperties, PTR_CUDA};
use tcpx_testkit::process;

use super::child::{net, pair};
use crate::support::{PluginPtr, blank_device};

/// Each misuse, and a word of the line that names it.
const ACTS: [(&str, &str); 16] = [
    ("connect after the comm", "final answer"),
    ("accept after the comm", "final answer"),
    ("isend NULL comm", "NULL communicator"),
    ("irecv of a send comm", "not a receive comm"),
    ("regMr of a listen comm", "not a send or receive comm"),
    ("getProperties -1", "device -1"),
    ("accept NULL device", "recvDevComm"),
    ("close unknown", "none of this plugin's"),
    ("close twice", "is closed"),
    ("closeListen of a comm", "not a listen comm"),
    ("test unknown", "not a request"),
    ("consume of another comm", "another comm"),
    ("iflush NULL", "NULL request"),
    ("isend foreign mhandle", "foreign"),
    ("deregMr twice", "not any more"),
    ("test after close", "is closed"),
];

fn act(name: &str) -> i32 {
    let net = net();
    let mut local = 0u64;
    let unknown: PluginPtr = (&raw mut local).cast();
    let (mut handle, listen) = net.listen();
    match name {
        "connect after the comm" | "accept after the comm" => {
            let accept = std::thread::spawn({
                let listen = listen.addr();
                move || net.accept_all(ptr::without_provenance_mut(listen)).0
            });
            assert_eq!(net.connect_all(&mut handle).0, 0);
            assert_eq!(accept.join().expect("accept"), 0);
            if name.starts_with("connect") {
                net.connect(&mut handle).0
            } else {
                net.accept(listen, &mut blank_device()).0
            }
        }
        "regMr of a listen comm" => net.register(listen, ptr::null_mut(), 0, PTR_CUDA).0,
        // SAFETY: valid places; properties may be any bytes.
        "getProperties -1" => unsafe {
            let mut properties = std::mem::zeroed::<NetProperties>();
            net.0.get_properties.expect("set")(-1, &raw mut properties).0
        },
        // SAFETY: valid or NULL places.
        "accept NULL device" => unsafe {
            let mut comm = ptr::null_mut();
            net.0.accept.expect("set")(listen, &raw mut comm, ptr::null_mut()).0
        },
        "close unknown" => net.close(unknown),
        "isend NULL comm" => net.isend(ptr::null_mut(), ptr::null_mut(), 0, unknown).0,
        "test unknown" => net.test(unknown).0,
        _ => act_on_a_pair(name, unknown),
    }
}

fn act_on_a_pair(name: &str, unknown: PluginPtr) -> i32 {
    let mut pair = pair(4096, PTR_CUDA);
    let (net, comm) = (pair.net, pair.receiver.comm);
    let (_, recv) = pair.irecv(1);
    match name {
        "irecv of a send comm" => net.irecv(pair.sender.comm, ptr::null_mut(), 0, pair.mhandle).0,
        "close twice" | "test after close" => {
            assert_eq!(net.close(comm), 0);
            if name == "close twice" { net.close(comm) } else { net.test(recv).0 }
        }
        "closeListen of a comm" => net.close_listen(comm),
        "consume of another comm" => net.consumed(net.pair().1.comm, recv),
        "iflush NULL" => net.received(comm, ptr::null_mut()).0,
        "isend foreign mhandle" => net.isend(pair.sender.comm, ptr::null_mut(), 0, unknown).0,
        "deregMr twice" => {
            assert_eq!(net.deregister(comm, pair.mhandle), 0);
            net.deregister(comm, pair.mhandle)
        }
        other => panic!("no such act: {other}"),
    }
}

fn the_contract_is_broken() {
    assert_eq!(act(&process::role().expect("an act")), 3);
}

#[test]
fn calls_that_crash_the_original_abort_by_name() {
    let test = test_of!(the_contract_is_broken);
    for (name, word) in ACTS {
        let aborted = test.run_as(name, "crash", &[]);
        assert_eq!(aborted.signal(), Some(libc::SIGABRT), "{name}: {}", aborted.text);
        let line = aborted.text.lines().find(|line| line.contains("the original would crash"));
        assert!(line.is_some_and(|line| line.contains(word)), "{name}: {}", aborted.text);
        assert!(test.run_as(name, "", &[]).passed(), "{name}");
    }
}

fn allowed_errors_are_made() {
    let mut pair = pair(4096, PTR_CUDA);
    let (net, comm) = (pair.net, pair.receiver.comm);
    let (_, recv) = pair.irecv(1);
    assert_eq!(net.test(ptr::null_mut()).0, 3);
    assert_eq!(net.consumed(comm, ptr::null_mut()), 3);
    assert_eq!(net.consumed(comm, recv), 3, "too early");
    assert_eq!(net.register(ptr::null_mut(), ptr::null_mut(), 0, PTR_CUDA).0, 3);
    assert_eq!(net.isend(pair.sender.comm, ptr::null_mut(), 0, ptr::null_mut()).0, 3);
    assert_eq!(net.deregister(comm, ptr::null_mut()), 0);
    assert_eq!((net.close(ptr::null_mut()), net.close_listen(ptr::null_mut())), (0, 0));
    pair.close();
}

#[test]
fn calls_that_the_original_refuses_do_not_abort() {
    let test = test_of!(allowed_errors_are_made);
    let ended = test.run("crash", &[]);
    assert!(ended.passed(), "{}", ended.text);
}
