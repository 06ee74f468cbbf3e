#![allow(unsafe_code)]
//! The fault script, each script in a process of its own: what was delivered is right, the rest is
//! an error in time.

mod support;

use std::process::Child;
use std::ptr;

use support::{Memory, poll, settings, spawn_peer};
use tcpx_softnet::{Fault, Helpers};
use tcpx_sys::{PTR_CUDA, log_callback};

const VARIABLE: &str = "FAULT_TEST_SCRIPT";
const HELPERS: &str = "FAULT_TEST_HELPERS";
const BYTES: usize = 60_000;
const COUNT: usize = 20;

/// Runs `test` of this file with a script.
fn run(test: &str, script: &str) {
    for helpers in ["0", "1"] {
        let child = spawn_peer(test, &[(VARIABLE, script), (HELPERS, helpers)]);
        assert!(ends_well(child), "{script} with helpers {helpers}");
    }
}

fn ends_well(mut child: Child) -> bool {
    // Read what it says, or a full pipe would stop it.
    let mut out = child.stdout.take().expect("stdout");
    let reader = std::thread::spawn(move || std::io::read_to_string(&mut out));
    let status = poll(|| child.try_wait().expect("child"));
    let text = reader.join().expect("reader").expect("output");
    // A name that matches no test would end well too.
    assert!(text.contains("1 passed") || !status.success(), "{text}");
    status.success()
}

fn scripted() -> tcpx_softnet::Settings {
    let mut settings = settings();
    settings.chunk_bytes = 16_384;
    settings.sockets = 2;
    settings.inline_bytes = 0;
    settings.helpers = if std::env::var(HELPERS).is_ok_and(|value| value == "1") {
        Helpers::On
    } else {
        Helpers::Off
    };
    let script = std::env::var(VARIABLE).expect("a script");
    settings.script.faults =
        script.split(';').map(|text| text.parse::<Fault>().expect("a fault")).collect();
    settings
}

#[test]
#[ignore = "runs with a script in a process of its own"]
fn a_stream_breaks() {
    let net = support::net(scripted);
    let (sender, mut receiver) = net.pair();
    let mut memory = Memory::patterned(BYTES, 1);
    let (_, mhandle) = net.register(sender.comm, memory.data(), BYTES, PTR_CUDA);
    let mut sends = Vec::new();
    let mut failed = [0, 0];
    for _ in 0..COUNT {
        if sends.len() < 16 && failed[0] == 0 {
            let (rc, send) = net.isend(sender.comm, memory.data(), BYTES as i32, mhandle);
            assert_eq!(rc, 0);
            sends.push(send);
        }
        let (number, recv) = receiver.post(ptr::null_mut(), BYTES, mhandle);
        let outcome = poll(|| {
            if let Some(&send) = sends.first() {
                match net.test(send) {
                    (0, 1) => drop(sends.remove(0)),
                    (0, _) => {}
                    (rc, _) => failed[0] = rc,
                }
            }
            Some(net.test(recv)).filter(|&outcome| outcome != (0, 0))
        });
        if outcome != (0, 1) {
            failed[1] = outcome.0;
            break;
        }
        assert!(receiver.unpack(number, BYTES) == memory.bytes(), "what is delivered is right");
        assert_eq!(net.consumed(receiver.comm, recv), 0);
    }
    assert_eq!(failed[1], 2, "the receiver must notice");
    let send = sends.first().copied();
    if let Some(send) = send {
        let rc = poll(|| {
            let (rc, done) = net.test(send);
            (rc != 0 || done == 1).then_some(rc)
        });
        assert!(rc == 0 || rc == 2);
    }
    assert_eq!((net.close(sender.comm), net.close(receiver.comm)), (0, 0));
    let stats = tcpx_softnet::pool_stats();
    assert_eq!(stats.free_pages, stats.total_pages);
}

#[test]
fn sockets_are_cut() {
    for script in [
        "cut:send.data0@0",
        "cut:send.data1@100001",
        "cut:recv.data0@65536",
        "cut:send.control@40",
        "cut:recv.control@63",
    ] {
        run("a_stream_breaks", script);
    }
}

#[test]
fn comms_are_killed() {
    run("a_stream_breaks", "kill:send@7");
    run("a_stream_breaks", "kill:recv@5");
}

#[test]
#[ignore = "runs with a script in a process of its own"]
fn entries_return_codes() {
    tcpx_softnet::configure(scripted()).expect("good settings");
    let table = tcpx_softnet::table();
    let init = table.init.expect("init");
    let net = support::Net(table);
    // SAFETY: the callback is of the logger's type and thread-safe.
    unsafe {
        assert_eq!(init(Some(log_callback())).0, 3, "scripted");
        assert_eq!(init(Some(log_callback())).0, 0, "the call did nothing");
    }
    let (sender, mut receiver) = net.pair();
    let mut memory = Memory::patterned(BYTES, 1);
    let (_, mhandle) = net.register(sender.comm, memory.data(), BYTES, PTR_CUDA);
    assert_eq!(net.isend(sender.comm, memory.data(), 1, mhandle).0, 0);
    assert_eq!(net.isend(sender.comm, memory.data(), 1, mhandle).0, 2, "scripted");
    let (_, recv) = receiver.post(ptr::null_mut(), BYTES, mhandle);
    assert_eq!(net.test(recv).0, 0);
    assert_eq!(net.test(recv).0, 1, "scripted");
    assert_eq!(net.test(recv).0, 0);
    assert_eq!(net.close(sender.comm), 0);
    assert_eq!(net.close(receiver.comm), 2, "scripted");
    assert_eq!(net.close(receiver.comm), 0);
}

#[test]
fn calls_fail_as_scripted() {
    run("entries_return_codes", "rc:init@1=3;rc:isend@2=2;rc:test@2=1;rc:closeSend/closeRecv@2=2");
}
