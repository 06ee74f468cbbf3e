#![allow(unsafe_code)]
//! A call that never returns takes nothing else with it.

use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use tcpx_sys::{NetHandle, PTR_HOST};
use tcpx_testkit::{eventually, process};

use super::child::net;
use crate::support::exchange::exchange;
use crate::support::{Memory, Net, PluginPtr, blank_device};

const ENTRIES: [&str; 7] =
    ["listen", "connect", "accept", "regMr", "deregMr", "closeSend/closeRecv", "closeListen"];

/// What the blocked call needs.
enum Call {
    Listen,
    Connect(NetHandle),
    Accept(usize),
    Register(usize),
    Deregister(usize, usize),
    Close(usize),
    CloseListen(usize),
}

fn word(address: usize) -> PluginPtr {
    ptr::without_provenance_mut(address)
}

impl Call {
    /// Everything before the call itself.
    fn prepare(net: Net, entry: &str) -> Self {
        let (handle, listen) = net.listen();
        match entry {
            "listen" => Self::Listen,
            "connect" => Self::Connect(handle),
            "accept" => Self::Accept(listen.addr()),
            "closeListen" => Self::CloseListen(listen.addr()),
            _ => {
                let comm = net.pair().0.comm;
                match entry {
                    "regMr" => Self::Register(comm.addr()),
                    "deregMr" => {
                        let (rc, mhandle) = net.register(comm, ptr::null_mut(), 0, PTR_HOST);
                        assert_eq!(rc, 0);
                        Self::Deregister(comm.addr(), mhandle.addr())
                    }
                    _ => Self::Close(comm.addr()),
                }
            }
        }
    }

    fn make(self, net: Net) {
        match self {
            Self::Listen => {
                net.listen();
            }
            Self::Connect(mut handle) => {
                net.connect(&mut handle);
            }
            Self::Accept(listen) => {
                net.accept(word(listen), &mut blank_device());
            }
            Self::Register(comm) => {
                net.register(word(comm), Memory::new(1).data(), 1, PTR_HOST);
            }
            Self::Deregister(comm, mhandle) => {
                net.deregister(word(comm), word(mhandle));
            }
            Self::Close(comm) => {
                net.close(word(comm));
            }
            Self::CloseListen(listen) => {
                net.close_listen(word(listen));
            }
        }
    }
}

fn others_go_on() {
    let net = net();
    let call = Call::prepare(net, &process::role().expect("an entry"));
    static TASK: AtomicI32 = AtomicI32::new(0);
    let thread = std::thread::spawn(move || {
        // SAFETY: takes nothing and cannot fail.
        TASK.store(unsafe { libc::gettid() }, Ordering::SeqCst);
        call.make(net);
    });
    let sleeps = |task: i32| {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{task}/stat")).expect("proc");
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
    };
    // Time and again, because it may have to wait for something on its way to the call.
    let mut asleep = 0;
    eventually(|| {
        let task = TASK.load(Ordering::SeqCst);
        asleep = if task != 0 && sleeps(task) { asleep + 1 } else { 0 };
        (asleep == 200 || thread.is_finished()).then_some(())
    });
    exchange(net.pair(), (PTR_HOST, PTR_HOST), &[0, 1, 100_000], 2);
    let mut memory = Memory::new(1);
    let (_, receiver) = net.pair();
    let (rc, mhandle) = net.register(receiver.comm, memory.data(), 1, PTR_HOST);
    assert_eq!((rc, net.deregister(receiver.comm, mhandle)), (0, 0));
    assert!(!thread.is_finished(), "it came back");
}

#[test]
fn a_blocked_call_takes_nothing_with_it() {
    let test = test_of!(others_go_on);
    for entry in ENTRIES {
        // One listen has been made for the call before it blocks.
        let call = if entry == "listen" { 2 } else { 1 };
        let script = format!("block:{entry}@{call}");
        let ended = test.run_as(entry, "", &[("TCPX_SOFT_FAULTS", &script)]);
        assert!(ended.passed(), "{entry}: {}", ended.text);
    }
}
