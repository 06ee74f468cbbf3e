#![allow(unsafe_code)]
//! The fault script, each script in processes of its own, without and with helper threads: what was
//! delivered is right, the rest is an error in time.

use std::ptr;

use tcpx_softnet::{Helpers, Settings};
use tcpx_softnet_faults::{Fault, FaultScript};
use tcpx_sys::{PTR_CUDA, log_callback};
use tcpx_testkit::eventually;

use crate::support::{self, Memory};

const BYTES: usize = 60_000;
const COUNT: usize = 20;

/// Each script without and with helper threads: the roles of a test's processes.
fn roles(scripts: &[&str]) -> Vec<String> {
    let both = |script| ["0", "1"].map(|helpers| format!("{helpers} {script}"));
    scripts.iter().flat_map(both).collect()
}

fn apply(settings: &mut Settings, faults: &mut FaultScript, role: &str) {
    settings.chunk_bytes = 16_384;
    settings.sockets = 2;
    settings.inline_bytes = 0;
    let (helpers, script) = role.split_once(' ').expect("two words");
    settings.helpers = if helpers == "1" { Helpers::On } else { Helpers::Off };
    faults.faults = script.split(';').map(|text| text.parse::<Fault>().expect("a fault")).collect();
}

/// A stream that breaks in the middle, as the script of the role says.
fn a_stream_breaks(role: &str) {
    let net = support::faulty_net(|settings, faults| apply(settings, faults, role));
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
        let outcome = eventually(|| {
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
        let rc = eventually(|| {
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
    a_stream_breaks(&in_own_processes!(roles(&[
        "cut:send.data0@0",
        "cut:send.data1@100001",
        "cut:recv.data0@65536",
        "cut:send.control@40",
        "cut:recv.control@63",
    ])));
}

#[test]
fn comms_are_killed() {
    a_stream_breaks(&in_own_processes!(roles(&["kill:send@7", "kill:recv@5"])));
}

#[test]
fn calls_fail_as_scripted() {
    let script = "rc:init@1=3;rc:isend@2=2;rc:test@2=1;rc:closeSend/closeRecv@2=2";
    let role = in_own_processes!(roles(&[script]));
    let (mut settings, mut faults) = (support::settings(), FaultScript::default());
    apply(&mut settings, &mut faults, &role);
    tcpx_softnet_faults::configure(settings, faults).expect("good settings");
    let table = tcpx_softnet_faults::table();
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
